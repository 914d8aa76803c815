//! What a denial says as a problem: the same from the middleware and from the service.

use std::borrow::Cow;

use tollgate::{Counted, whole_seconds};

use crate::headers::LimitHeaders;

/// What a denial says as a problem, as RFC 9457 has it. The middleware and the service answer denials with it.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Quota};
/// use tollgate_tower::DenialProblem;
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
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DenialProblem<'a> {
    /// `type`: a URI.
    pub kind: &'static str,
    /// `title`: the same for all denials of this type.
    pub title: &'static str,
    /// `detail`: what denied this request, and when the next one may pass.
    pub detail: Cow<'a, str>,
    /// `violated-policies`: the quotas that had no room, as the headers name them, or the policy that denied.
    pub violated_policies: Vec<&'a str>,
}

impl<'a> DenialProblem<'a> {
    /// Quotas deny the request, which then stand so.
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

    /// This policy denies requests that do not say whom it is to count. `detail` says what is missing.
    #[must_use]
    pub fn of_missing_key(policy: &'a str, detail: impl Into<Cow<'a, str>>) -> Self {
        Self {
            // No document is behind it.
            kind: "urn:problem-type:tollgate:missing-key",
            title: "Unknown client",
            detail: detail.into(),
            violated_policies: vec![policy],
        }
    }

    /// This policy denies whatever it matches.
    #[must_use]
    pub fn of_list(policy: &'a str) -> Self {
        Self {
            // No document is behind it.
            kind: "urn:problem-type:tollgate:denied",
            title: "Denied",
            detail: "the request is on a list of those that are denied".into(),
            violated_policies: vec![policy],
        }
    }

    /// No policy matches the request, and such requests are denied.
    #[must_use]
    pub fn of_unmatched() -> Self {
        Self {
            // No document is behind it.
            kind: "urn:problem-type:tollgate:unmatched",
            title: "No policy matches",
            detail: "no policy matches the request, and such requests are denied".into(),
            violated_policies: Vec::new(),
        }
    }
}

fn quota_exceeded(counted: &Counted, limit_headers: &LimitHeaders) -> String {
    let deciding = counted.deciding();
    let Some((quota, state)) = limit_headers.quotas().get(deciding).zip(counted.get(deciding)) else {
        return "denied".to_owned();
    };
    let (quota, remaining, limit) = (quota.quota(), state.remaining(), state.limit());
    match state.retry_after() {
        Some(wait) => format!(
            "{quota} has {remaining} of {limit} left, less than the request takes; the next window starts in {} s",
            whole_seconds(wait)
        ),
        None if limit == 0 => "the limit is 0: everything is denied".to_owned(),
        None => format!("the cost is above the limit of {quota} and can never pass"),
    }
}
