//! Denials as problems.

use std::borrow::Cow;

use serde::Serialize;
use tollgate::{CountDenied, InFlight, InFlightState, QuotaKind, QuotaStates, Reason, Source, whole_seconds};
#[cfg(feature = "policy")]
use tollgate_policy::{Ground, PolicyDecision};

use crate::headers::LimitHeaders;

/// Source: draft-ietf-httpapi-ratelimit-headers-11, section "Problem types".
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// A denial as a problem (RFC 9457). The middleware and the service answer denials with it.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Quota};
/// use tollgate_wire::body::DenialProblem;
/// use tollgate_wire::headers::{HeaderFormat, LimitHeaders};
///
/// let limiter = Limiter::new(Quota::per_day(0));
/// let limit_headers = LimitHeaders::new(HeaderFormat::Draft11, limiter.quotas());
/// let denied = limiter.check("alice")?;
/// let problem = DenialProblem::of_quotas(denied.quotas(), &limit_headers);
/// assert_eq!((problem.title, &*problem.detail), ("Quota exceeded", "the limit is 0: everything is denied"));
/// assert_eq!(problem.violated_policies, ["default"]);
/// # Ok::<(), tollgate::Full>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DenialProblem<'a> {
    /// The kind of the problem, as a URI.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// A title, the same for all problems of this kind.
    pub title: &'static str,
    /// The reason for this denial, and when a retry may pass.
    pub detail: Cow<'a, str>,
    /// The quotas that had no room, as the headers name them, or the policy that denied.
    #[serde(rename = "violated-policies")]
    pub violated_policies: Vec<&'a str>,
}

impl<'a> DenialProblem<'a> {
    /// Quotas deny the request.
    #[must_use]
    pub fn of_quotas(counted: &QuotaStates, limit_headers: &'a LimitHeaders) -> Self {
        let violated = counted.iter().enumerate().filter(|(_, state)| !state.has_room());
        Self {
            kind: QUOTA_EXCEEDED,
            title: "Quota exceeded",
            detail: quota_exceeded(counted, limit_headers).into(),
            violated_policies: violated.filter_map(|(place, _)| limit_headers.name(place)).collect(),
        }
    }

    /// Too many units are in flight under this policy.
    #[must_use]
    pub fn of_in_flight(policy: &'a str, state: InFlightState) -> Self {
        let limit = state.limit();
        let detail = match state.reason() {
            Some(Reason::CostExceedsLimit) if limit == 0 => "the limit is 0: everything is denied".into(),
            Some(Reason::CostExceedsLimit) => {
                format!("the request asks for more than {} units in flight", limit.min(InFlight::MAX_UNITS))
                    .into()
            }
            _ => {
                let live = state.live();
                format!("{live} of {limit} units are in flight; one may be free at any time").into()
            }
        };
        Self { kind: QUOTA_EXCEEDED, title: "Quota exceeded", detail, violated_policies: vec![policy] }
    }

    /// Policies deny the request.
    #[cfg(feature = "policy")]
    #[must_use]
    pub fn of_policies(decision: &'a PolicyDecision, limit_headers: &'a LimitHeaders) -> Self {
        let (kind, title, detail, policy): (_, _, Cow<'a, str>, _) = match decision.ground() {
            Ground::Quotas(counted) => return Self::of_quotas(counted, limit_headers),
            Ground::InFlight(standing) => {
                return Self::of_in_flight(standing.policy.name(), *standing.state);
            }
            Ground::MissingKey { policy, no_key } => (
                "urn:problem-type:tollgate:missing-key",
                "Unknown client",
                no_key.to_string().into(),
                Some(policy.name()),
            ),
            Ground::Denied(policy) => (
                "urn:problem-type:tollgate:denied",
                "Denied",
                "the request matches a deny list".into(),
                Some(policy.name()),
            ),
            Ground::DeniedByOverride { policy, .. } => (
                "urn:problem-type:tollgate:denied-by-override",
                "Denied by an override",
                "an override denies the request, whatever the quotas".into(),
                Some(policy.name()),
            ),
            // The other states deny in no other way.
            _ => (
                "urn:problem-type:tollgate:unmatched",
                "No policy matches",
                "no policy matches the request, and such requests are denied".into(),
                None,
            ),
        };
        Self { kind, title, detail, violated_policies: policy.into_iter().collect() }
    }
}

fn quota_exceeded(counted: &QuotaStates, limit_headers: &LimitHeaders) -> String {
    let deciding = counted.deciding();
    let Some((quota, state)) = limit_headers.quotas().get(deciding).zip(counted.get(deciding)) else {
        return "denied".to_owned();
    };
    let is_overdraft = quota.count_denied() == CountDenied::Overdraft;
    let (quota, remaining, limit) = (quota.quota(), state.remaining(), state.limit());
    // Of a failing store's policy, the limit is a share.
    let of = if state.source() == Source::Fallback { "this process's " } else { "" };
    // An overdraft denies once nothing is left, whatever the cost.
    let less = if is_overdraft { "" } else { ", less than the request costs" };
    let recorded = if is_overdraft && state.units() > 0 { "; the cost was recorded" } else { "" };
    match state.retry_after() {
        Some(wait) => {
            let then = match state.kind() {
                QuotaKind::Window => "the next window starts",
                _ => "enough is free",
            };
            let seconds = whole_seconds(wait);
            format!("{quota} has {remaining} of {of}{limit} left{less}{recorded}; {then} in {seconds} s")
        }
        None if state.reason() == Some(Reason::CostExceedsShare) => format!(
            "the cost is above this process's share of {limit}; it can be admitted once the store answers again"
        ),
        None if limit == 0 => format!("the limit is 0: everything is denied{recorded}"),
        None if state.kind() == QuotaKind::Burst => {
            format!("the cost is above the burst of {quota} and can never be admitted")
        }
        None => format!("the cost is above the limit of {quota} and can never be admitted"),
    }
}

#[cfg(test)]
mod tests {
    use tollgate::kind::Standing;
    use tollgate::{Limiter, MemoryStore, PolicyQuota, Quota, QuotaState, Timestamp};

    use super::*;
    use crate::headers::HeaderFormat;

    /// During an outage, a client that asked for 3 of a limit of 4 was told that its cost was above the limit of 4 and
    /// could never be admitted, and gave up for good.
    #[test]
    fn a_cost_above_the_share_can_be_admitted_later() {
        let quota = Quota::per_minute(4);
        let share = Quota::per_minute(2);
        let now = Timestamp::from_unix_millis(0);
        let window = quota.window_at(&"alice".into(), now);
        let state =
            QuotaState::of(&share, &Standing::in_window(0, window), now, Some(Reason::CostExceedsShare), 0);
        let counted: QuotaStates = [state.with_source(Source::Fallback)].into_iter().collect();
        let limit_headers = LimitHeaders::new(HeaderFormat::Draft11, &[PolicyQuota::new("default", quota)]);
        assert_eq!(
            DenialProblem::of_quotas(&counted, &limit_headers).detail,
            "the cost is above this process's share of 2; it can be admitted once the store answers again"
        );
    }

    /// A peek at cost 0 was told that less was left than it costs, and a charged denial did not say that it was.
    #[test]
    fn an_overdraft_says_whether_the_denied_cost_was_recorded() {
        let limiter = Limiter::builder("default")
            .quota(Quota::per_day(3))
            .count_denied(CountDenied::Overdraft)
            .build(MemoryStore::new())
            .unwrap();
        let limit_headers = LimitHeaders::new(HeaderFormat::Draft11, limiter.quotas());
        let detail = |counted: &QuotaStates| {
            let detail = DenialProblem::of_quotas(counted, &limit_headers).detail;
            detail.rsplit_once("; ").map(|(left, _)| left.to_owned())
        };
        assert!(limiter.check_cost("alice", 5).is_ok_and(|decision| decision.is_allowed()));
        let looked = limiter.peek("alice").unwrap();
        assert_eq!(detail(looked.quotas()).as_deref(), Some("3/1d has 0 of 3 left"));
        let denied = limiter.check("alice").unwrap();
        assert_eq!(detail(denied.quotas()).as_deref(), Some("3/1d has 0 of 3 left; the cost was recorded"));
    }
}
