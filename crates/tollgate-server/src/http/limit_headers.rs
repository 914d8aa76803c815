//! The headers that tell a client its limits, allowed or denied.
//!
//! The format is that of draft-ietf-httpapi-ratelimit-headers-11, which may still change; nothing outside this
//! file knows it.

use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate::{Decision, PolicyQuota, Source, WindowLength, whole_seconds};

use crate::policy::Policy;

const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const TOLLGATE_SOURCE: HeaderName = HeaderName::from_static("tollgate-source");

/// Writes the headers of decisions by one policy.
#[derive(Debug)]
pub(super) struct LimitHeaders {
    /// What each quota is called, in their order.
    names: Box<[Box<str>]>,
    limits: Box<[u64]>,
    /// The same for every decision, unless a calendar makes the windows.
    policy: Option<HeaderValue>,
}

impl LimitHeaders {
    pub(super) fn new(policy: &Policy) -> Self {
        let names: Box<[Box<str>]> = match policy.texts() {
            [_] => [Policy::NAME.into()].into(),
            texts => texts.iter().map(|text| format!("{}/{text}", Policy::NAME).into()).collect(),
        };
        let limits: Box<[u64]> = policy.quotas().iter().map(|quota| quota.quota().limit()).collect();
        let fixed: Option<Vec<Duration>> = policy.quotas().iter().map(fixed_length).collect();
        let headers = Self { names, limits, policy: None };
        let policy = fixed.and_then(|lengths| headers.policy(lengths.into_iter()));
        Self { policy, ..headers }
    }

    /// What the quota at this place is called.
    pub(super) fn name(&self, index: usize) -> Option<&str> {
        self.names.get(index).map(AsRef::as_ref)
    }

    pub(super) fn write(&self, decision: &Decision, headers: &mut HeaderMap) {
        let lengths = || decision.quotas().iter().map(|quota| quota.window().length());
        if let Some(policy) = self.policy.clone().or_else(|| self.policy(lengths())) {
            headers.insert(RATELIMIT_POLICY, policy);
        }
        if let Some(limit) = self.limit(decision) {
            headers.insert(RATELIMIT, limit);
        }
        // The usual source needs no header of its own.
        match decision.source() {
            Source::Fallback => drop(headers.insert(TOLLGATE_SOURCE, HeaderValue::from_static("fallback"))),
            Source::Local => drop(headers.insert(TOLLGATE_SOURCE, HeaderValue::from_static("local"))),
            _ => {}
        }
        if let Some(retry_after) = decision.retry_after() {
            headers.insert(RETRY_AFTER, whole_seconds(retry_after).into());
        }
    }

    /// `"default";q=5;w=60`: so many units in so many seconds. A window below a second is told as one.
    fn policy(&self, lengths: impl Iterator<Item = Duration>) -> Option<HeaderValue> {
        let limits = self.limits.iter().zip(lengths);
        let limits = limits.map(|(limit, length)| [(";q=", *limit), (";w=", whole_seconds(length))]);
        list(self.names.iter().zip(limits))
    }

    /// `"default";r=0;t=42`: so many units left, and a new window in so many seconds.
    fn limit(&self, decision: &Decision) -> Option<HeaderValue> {
        let left = decision.quotas().iter();
        let left =
            left.map(|quota| [(";r=", quota.remaining()), (";t=", whole_seconds(quota.reset_after()))]);
        list(self.names.iter().zip(left))
    }
}

fn fixed_length(quota: &PolicyQuota) -> Option<Duration> {
    match quota.quota().window() {
        WindowLength::Fixed(length) => Some(length),
        _ => None,
    }
}

/// A structured field's list of names with parameters. Names are written forms of quotas: they have no
/// character that a structured string would have to escape.
fn list<'a>(items: impl Iterator<Item = (&'a Box<str>, [(&'static str, u64); 2])>) -> Option<HeaderValue> {
    let mut text = Vec::with_capacity(64);
    for (name, parameters) in items {
        let open: &[u8] = if text.is_empty() { b"\"" } else { b", \"" };
        text.extend_from_slice(open);
        text.extend_from_slice(name.as_bytes());
        text.push(b'"');
        for (parameter, value) in parameters {
            text.extend_from_slice(parameter.as_bytes());
            text.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        }
    }
    HeaderValue::from_maybe_shared(Bytes::from(text)).ok()
}

#[cfg(test)]
mod tests {
    use tollgate::{CountDenied, Limiter, ManualClock, MemoryStore};

    use super::*;

    fn written(quotas: &[&str], cost: u32) -> HeaderMap {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        clock.advance(Duration::from_millis(18_400));
        let quotas: Vec<tollgate::Quota> = quotas.iter().map(|quota| quota.parse().unwrap()).collect();
        let limiter = quotas.iter().fold(Limiter::builder("default"), |all, quota| all.quota(quota.clone()));
        let decision = limiter.build(store).unwrap().check_cost("alice", cost).unwrap();
        let policy = Policy::new(quotas, vec![], CountDenied::No).unwrap();
        let mut headers = HeaderMap::new();
        LimitHeaders::new(&policy).write(&decision, &mut headers);
        headers
    }

    #[test]
    fn seconds_are_rounded_up() {
        let headers = written(&["5/1m"], 1);
        assert_eq!(headers[RATELIMIT_POLICY], "\"default\";q=5;w=60");
        assert_eq!(headers[RATELIMIT], "\"default\";r=4;t=42");
        assert!(!headers.contains_key(RETRY_AFTER));
        assert_eq!(written(&["5/300ms"], 1)[RATELIMIT_POLICY], "\"default\";q=5;w=1");
    }

    #[test]
    fn several_quotas_have_a_name_each() {
        let headers = written(&["5/1m", "9/day@UTC"], 5);
        assert_eq!(headers[RATELIMIT_POLICY], "\"default/5/1m\";q=5;w=60, \"default/9/day@UTC\";q=9;w=86400");
        // 2023-11-14 22:14:18.4, so that 6,342 seconds of the day are left, rounded up.
        assert_eq!(headers[RATELIMIT], "\"default/5/1m\";r=0;t=42, \"default/9/day@UTC\";r=4;t=6342");
    }

    #[test]
    fn a_cost_that_can_never_pass_is_told_no_time() {
        assert!(!written(&["5/1m"], 6).contains_key(RETRY_AFTER));
    }
}
