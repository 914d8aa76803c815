//! Denials as problems.

use std::borrow::Cow;

use serde::Serialize;
use tollgate::{Counted, Source, whole_seconds};
#[cfg(feature = "policy")]
use tollgate_policy::{Ground, PolicyDecision};

use crate::headers::LimitHeaders;

/// A denial as a problem (RFC 9457). The middleware and the service answer denials with it.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Quota};
/// use tollgate_tower::answer::DenialProblem;
/// use tollgate_tower::headers::{HeaderFormat, LimitHeaders};
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
    pub fn of_quotas(counted: &Counted, limit_headers: &'a LimitHeaders) -> Self {
        let violated = counted.iter().enumerate().filter(|(_, state)| !state.has_room());
        Self {
            // Source: draft-ietf-httpapi-ratelimit-headers-11, section "Problem types".
            kind: "https://iana.org/assignments/http-problem-types#quota-exceeded",
            title: "Quota exceeded",
            detail: quota_exceeded(counted, limit_headers).into(),
            violated_policies: violated.filter_map(|(place, _)| limit_headers.name(place)).collect(),
        }
    }

    /// Policies deny the request.
    #[cfg(feature = "policy")]
    #[must_use]
    pub fn of_policies(decision: &'a PolicyDecision, limit_headers: &'a LimitHeaders) -> Self {
        let (kind, title, detail, policy): (_, _, Cow<'a, str>, _) = match decision.ground() {
            Ground::Quotas(counted) => return Self::of_quotas(counted, limit_headers),
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
            // What is left denies in no other way.
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

fn quota_exceeded(counted: &Counted, limit_headers: &LimitHeaders) -> String {
    let deciding = counted.deciding();
    let Some((quota, state)) = limit_headers.quotas().get(deciding).zip(counted.get(deciding)) else {
        return "denied".to_owned();
    };
    let (quota, remaining, limit) = (quota.quota(), state.remaining(), state.limit());
    // Of a failing store's policy, the limit is a share.
    let of = if state.source() == Source::Fallback { "this process's " } else { "" };
    match state.retry_after() {
        Some(wait) => format!(
            "{quota} has {remaining} of {of}{limit} left, less than the request costs; the next window starts in {} s",
            whole_seconds(wait)
        ),
        None if limit == 0 => "the limit is 0: everything is denied".to_owned(),
        None => format!("the cost is above the limit of {quota} and can never be admitted"),
    }
}
