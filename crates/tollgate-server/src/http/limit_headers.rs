//! The headers that tell a client its limits, allowed or denied.
//!
//! The format is that of draft-ietf-httpapi-ratelimit-headers-11, which may still change; nothing outside this
//! file knows it.

use std::fmt;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate::{Source, whole_seconds};
use tollgate_policy::{HeaderFormat, PolicyDecision, QuotaStanding};

const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const TOLLGATE_SOURCE: HeaderName = HeaderName::from_static("tollgate-source");

/// Writes the headers that the policy wants which decided.
pub(super) fn write(decision: &PolicyDecision, headers: &mut HeaderMap) {
    if decision.headers() != HeaderFormat::None
        && let Some((policy, limit)) = draft_11(decision)
    {
        headers.insert(RATELIMIT_POLICY, policy);
        headers.insert(RATELIMIT, limit);
    }
    // The usual source needs no header of its own.
    match decision.source() {
        Source::Fallback => drop(headers.insert(TOLLGATE_SOURCE, HeaderValue::from_static("fallback"))),
        Source::Local => drop(headers.insert(TOLLGATE_SOURCE, HeaderValue::from_static("local"))),
        _ => {}
    }
    if let Some(retry_after) = decision.quota().and_then(|denying| denying.state.retry_after()) {
        headers.insert(RETRY_AFTER, whole_seconds(retry_after).into());
    }
}

/// Every quota that applied, with what it is called: its policy's name, and how it is written if it has several.
pub(super) fn names(decision: &PolicyDecision) -> impl Iterator<Item = (Name<'_>, QuotaStanding<'_>)> {
    decision.quotas().map(|standing| {
        let of_policy = decision.quotas().filter(|other| std::ptr::eq(other.policy, standing.policy));
        (Name { standing, is_only: of_policy.count() == 1 }, standing)
    })
}

/// What a quota is called.
pub(super) struct Name<'a> {
    standing: QuotaStanding<'a>,
    is_only: bool,
}

/// Names of policies and written forms of quotas: they have no character that a structured string would have to
/// escape.
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { standing, is_only } = self;
        f.write_str(standing.policy.name())?;
        if *is_only {
            return Ok(());
        }
        write!(f, "/{}/{}", standing.quota.quota().limit(), standing.quota.windows())
    }
}

/// `"default";q=5;w=60` for so many units in so many seconds, and `"default";r=0;t=42` for so many that are left until
/// a new window begins in so many seconds. A window below a second is told as one.
fn draft_11(decision: &PolicyDecision) -> Option<(HeaderValue, HeaderValue)> {
    // Both in one buffer, which they share.
    let mut text = Vec::with_capacity(128);
    list(&mut text, decision, |standing| {
        [(";q=", standing.quota.quota().limit()), (";w=", whole_seconds(standing.state.window().length()))]
    });
    let policy = text.len();
    list(&mut text, decision, |standing| {
        [(";r=", standing.state.remaining()), (";t=", whole_seconds(standing.state.reset_after()))]
    });
    if policy == 0 {
        return None;
    }
    let mut text = Bytes::from(text);
    let limit = text.split_off(policy);
    Some((HeaderValue::from_maybe_shared(text).ok()?, HeaderValue::from_maybe_shared(limit).ok()?))
}

/// A structured field's list of names with parameters.
fn list<'a>(
    text: &mut Vec<u8>,
    decision: &'a PolicyDecision,
    parameters: impl Fn(QuotaStanding<'a>) -> [(&'static str, u64); 2],
) {
    use std::io::Write as _;

    for (index, (name, standing)) in names(decision).enumerate() {
        let open: &[u8] = if index == 0 { b"\"" } else { b", \"" };
        text.extend_from_slice(open);
        // A vector takes every byte.
        let _ = write!(text, "{name}");
        text.push(b'"');
        for (parameter, value) in parameters(standing) {
            text.extend_from_slice(parameter.as_bytes());
            text.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::{ManualClock, MemoryStore};
    use tollgate_policy::{Attributes, Policies, Policy, PolicyLimiter};
    use tollgate_testkit::block_on;

    use super::*;

    fn policy(name: &str, quotas: &[&str]) -> Policy {
        let quotas = quotas.iter().map(|quota| quota.parse().unwrap());
        quotas.fold(Policy::builder(name), tollgate_policy::PolicyBuilder::quota).build().unwrap()
    }

    fn written(policies: &[Policy], cost: u32) -> HeaderMap {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        clock.advance(Duration::from_millis(18_400));
        let limiter = PolicyLimiter::new(store, Policies::of(policies.to_vec()).unwrap(), "test");
        let decision = block_on(limiter.check(&Attributes::default(), cost)).unwrap();
        let mut headers = HeaderMap::new();
        write(&decision, &mut headers);
        headers
    }

    #[test]
    fn seconds_are_rounded_up() {
        let headers = written(&[policy("default", &["5/1m"])], 1);
        assert_eq!(headers[RATELIMIT_POLICY], "\"default\";q=5;w=60");
        assert_eq!(headers[RATELIMIT], "\"default\";r=4;t=42");
        assert!(!headers.contains_key(RETRY_AFTER));
        let short = written(&[policy("default", &["5/300ms"])], 1);
        assert_eq!(short[RATELIMIT_POLICY], "\"default\";q=5;w=1");
    }

    #[test]
    fn several_quotas_of_one_policy_have_a_name_each() {
        let headers = written(&[policy("a", &["5/1m", "9/day@UTC"]), policy("b", &["7/1h"])], 5);
        assert_eq!(
            headers[RATELIMIT_POLICY],
            "\"a/5/1m\";q=5;w=60, \"a/9/day@UTC\";q=9;w=86400, \"b\";q=7;w=3600"
        );
        // 2023-11-14 22:14:18.4, so that 6,342 seconds of the day are left, rounded up.
        assert_eq!(headers[RATELIMIT], "\"a/5/1m\";r=0;t=42, \"a/9/day@UTC\";r=4;t=6342, \"b\";r=2;t=2742");
    }

    #[test]
    fn a_cost_that_can_never_pass_is_told_no_time() {
        assert!(!written(&[policy("default", &["5/1m"])], 6).contains_key(RETRY_AFTER));
    }

    #[test]
    fn where_no_quota_applies_there_is_nothing_to_tell() {
        assert!(written(&[], 1).is_empty());
    }
}
