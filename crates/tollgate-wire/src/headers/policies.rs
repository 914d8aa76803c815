//! Headers of policy decisions, in the format of the policy that decided.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue};
use tollgate::{PolicyQuota, Reason};
use tollgate_policy::{InFlightStanding, PolicyDecision, PolicySet};

use super::limit_headers::write_source;
use super::name::in_flight_name;
use super::{HeaderFormat, HeaderFormats, LimitHeaders, draft_11};

/// Writes the headers of policy decisions, each in the format of its policy.
///
/// The constant parts for a policy's own quotas are created once for each version of the policies. If several policies
/// or an override apply, they are created for the single decision.
#[derive(Default)]
pub struct PolicyHeaders(ArcSwap<VersionHeaders>);

/// The writers for one version of the policies; of version 0, before any policies, none.
#[derive(Default)]
struct VersionHeaders {
    version: u64,
    /// By the policy's name, for its own quotas.
    alone: HashMap<Box<str>, Arc<LimitHeaders>>,
}

impl PolicyHeaders {
    /// Creates a writer for decisions under these policies and their later versions.
    #[must_use]
    pub fn new(live: &PolicySet) -> Self {
        Self(ArcSwap::from_pointee(VersionHeaders::new(live)))
    }

    /// Returns the writer of this decision's headers.
    #[must_use]
    pub fn of(&self, decision: &PolicyDecision) -> Arc<LimitHeaders> {
        let set = decision.policies();
        let alone = if set.is_of_caller() { None } else { self.made(set).alone(decision) };
        alone.unwrap_or_else(|| Arc::new(Self::in_format(decision.headers(), decision)))
    }

    /// Writes the headers of this decision; none if no limit applies.
    pub fn write(&self, decision: &PolicyDecision, headers: &mut HeaderMap) {
        if decision.counted().is_some() || decision.in_flight().next().is_some() {
            self.of(decision).write_decision(decision, headers);
        }
    }

    /// Returns the writer of this decision's headers, in other formats.
    #[must_use]
    pub fn in_format(formats: impl Into<HeaderFormats>, decision: &PolicyDecision) -> LimitHeaders {
        let quotas: Vec<&PolicyQuota> = decision.quotas().map(|standing| standing.quota).collect();
        LimitHeaders::of(formats, quotas.into_iter())
    }

    fn made(&self, set: &PolicySet) -> arc_swap::Guard<Arc<VersionHeaders>> {
        let made = self.0.load();
        // A decision may be older than the cached version; then its writer is made for it alone.
        if made.version >= set.version() {
            return made;
        }
        self.0.store(Arc::new(VersionHeaders::new(set)));
        self.0.load()
    }
}

impl LimitHeaders {
    /// Writes the headers of this decision as [`write`](Self::write) does, and those of units in flight. Only the format
    /// `draft-11` has words for these. A denial because of them also gets `Retry-After: 1`, so that clients do not ask in a
    /// loop: it is unknown when units are free.
    pub fn write_decision(&self, decision: &PolicyDecision, headers: &mut HeaderMap) {
        if let Some(counted) = decision.counted() {
            self.write(counted, headers);
        }
        if decision.reason() == Some(Reason::InFlightExceeded) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if decision.limit_in_flight().is_some() && !self.formats().is_none() {
            write_source(decision.source(), headers);
        }
        if self.formats().has(HeaderFormat::Draft11) && decision.in_flight().next().is_some() {
            let each = decision.in_flight().map(|InFlightStanding { in_flight, state, .. }| {
                (draft_11::quoted(&in_flight_name(in_flight, self.quotas())), state)
            });
            draft_11::append_in_flight(each, headers);
        }
    }
}

impl VersionHeaders {
    fn new(set: &PolicySet) -> Self {
        let counting = set.policies().as_slice().iter().filter(|policy| !policy.quotas().is_empty());
        let alone = counting.map(|policy| {
            let headers = LimitHeaders::new(policy.headers(), policy.quotas());
            (policy.name().into(), Arc::new(headers))
        });
        Self { version: set.version(), alone: alone.collect() }
    }

    /// The cached writer, if exactly one list of quotas applies and has one.
    fn alone(&self, decision: &PolicyDecision) -> Option<Arc<LimitHeaders>> {
        let policy = decision.policy()?;
        let applied = decision.quotas().map(|standing| standing.quota);
        let is_alone = self.version == decision.version()
            && applied.map(std::ptr::from_ref).eq(policy.quotas().iter().map(std::ptr::from_ref));
        self.alone.get(policy.name()).filter(|_| is_alone).cloned()
    }
}

impl fmt::Debug for PolicyHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyHeaders").field("version", &self.0.load().version).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::{ManualClock, MemoryStore};
    use tollgate_policy::{Attributes, Policies, Policy, PolicyBuilder, PolicyLimiter};
    use tollgate_testkit::block_on;

    use super::*;
    use crate::headers::HeaderFormat;

    type Limiter = PolicyLimiter<MemoryStore<ManualClock>>;

    fn policy(name: &str, quotas: &[&str]) -> PolicyBuilder {
        let quotas = quotas.iter().map(|quota| quota.parse().unwrap());
        quotas.fold(Policy::builder(name), PolicyBuilder::quota)
    }

    fn policies<const N: usize>(policies: [PolicyBuilder; N]) -> Policies {
        Policies::of(policies.map(|policy| policy.build().unwrap())).unwrap()
    }

    fn limiter(policies: Policies) -> Limiter {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        clock.advance(Duration::from_millis(18_400));
        PolicyLimiter::new(store, policies, "test")
    }

    fn written(table: &PolicyHeaders, limiter: &Limiter) -> (Option<String>, Option<String>) {
        let decision = block_on(limiter.check(&Attributes::default(), 1)).unwrap();
        let mut headers = HeaderMap::new();
        table.write(&decision, &mut headers);
        let header = |name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        (header("ratelimit-policy"), header("ratelimit"))
    }

    #[test]
    fn every_quota_is_named_after_its_policy() {
        let limiter = limiter(policies([policy("a", &["5/1m", "9/day@UTC"]), policy("b", &["7/1h"])]));
        let (policy, limit) = written(&PolicyHeaders::new(&limiter.live()), &limiter);
        assert_eq!(policy.unwrap(), r#""a/5/1m";q=5;w=60, "a/9/day@UTC";q=9;w=86400, "b";q=7;w=3600"#);
        // 2023-11-14 22:14:18.4, so that 6,342 seconds of the day are left, rounded up.
        assert_eq!(limit.unwrap(), r#""a/5/1m";r=4;t=42, "a/9/day@UTC";r=8;t=6342, "b";r=6;t=2742"#);
    }

    #[test]
    fn the_policy_that_decides_chooses_the_format() {
        let limiter =
            limiter(policies([policy("a", &["5/1m"]).headers(HeaderFormat::None), policy("b", &["9/1m"])]));
        assert_eq!(written(&PolicyHeaders::new(&limiter.live()), &limiter), (None, None));
        let nothing = Policies::of([]).unwrap();
        let _ = limiter.replace(nothing, "test");
        assert_eq!(written(&PolicyHeaders::new(&limiter.live()), &limiter), (None, None));
    }

    /// Headers made for one version showed the limits of that version for all later ones.
    #[test]
    fn a_new_version_has_headers_of_its_own() {
        let limiter = limiter(policies([policy("a", &["5/1m"])]));
        let table = PolicyHeaders::new(&limiter.live());
        assert_eq!(written(&table, &limiter).0.unwrap(), r#""a";q=5;w=60"#);
        let old = block_on(limiter.check(&Attributes::default(), 1)).unwrap();
        let _ = limiter.replace(policies([policy("a", &["6/1m"])]), "test");
        assert_eq!(written(&table, &limiter).0.unwrap(), r#""a";q=6;w=60"#);
        let mut headers = HeaderMap::new();
        table.write(&old, &mut headers);
        assert_eq!(headers["ratelimit-policy"], r#""a";q=5;w=60"#);
    }
}
