//! Decisions in the form that Envoy expects.

use http::HeaderMap;
use prost_types::Duration;
use tollgate::{CalendarUnit, Quota, QuotaStates, WindowLength, whole_seconds};
use tollgate_envoy::{Code, Unit};
use tollgate_policy::{PolicyDecision, QuotaStanding};
use tollgate_wire::headers::PolicyHeaders;

use super::messages::envoy::config::core::v3::HeaderValue;
use super::messages::envoy::service::ratelimit::v3::RateLimitResponse;
use super::messages::envoy::service::ratelimit::v3::rate_limit_response::{DescriptorStatus, RateLimit};
use crate::answer::trials_header::{TOLLGATE_TRIALS, TrialsHeader};

/// The headers that answers carry for the client.
pub(crate) struct AddedHeaders {
    /// Writes the limit headers, if answers have them.
    pub(crate) limits: Option<PolicyHeaders>,
    pub(crate) trials: TrialsHeader,
}

/// The answer with a status for each decision, which is over the limit if one of them is.
pub(super) fn of(decisions: &[PolicyDecision], added: &AddedHeaders) -> RateLimitResponse {
    let is_allowed = decisions.iter().all(PolicyDecision::is_allowed);
    RateLimitResponse {
        overall_code: code(is_allowed),
        statuses: decisions.iter().map(status).collect(),
        response_headers_to_add: added.written(decisions),
        ..RateLimitResponse::default()
    }
}

fn code(is_allowed: bool) -> i32 {
    if is_allowed { Code::Ok.number() } else { Code::OverLimit.number() }
}

/// The figures are those of the deciding quota, if there is one.
fn status(decision: &PolicyDecision) -> DescriptorStatus {
    let code = code(decision.is_allowed());
    let Some(QuotaStanding { policy, quota, state, .. }) = decision.quota() else {
        return DescriptorStatus { code, ..DescriptorStatus::default() };
    };
    let limit = RateLimit {
        // As the headers have it: of a bucket not its burst, and in an outage not the share of this process.
        requests_per_unit: saturated(quota.quota().limit()),
        unit: unit(quota.quota()),
        name: policy.name().to_owned(),
    };
    // Envoy tells clients when to come back by this: rounded up, it sends nobody too early.
    let wait = state.more_after();
    DescriptorStatus {
        code,
        current_limit: Some(limit),
        limit_remaining: if decision.is_allowed() { saturated(state.remaining()) } else { 0 },
        duration_until_reset: Some(Duration { seconds: whole_seconds(wait) as i64, nanos: 0 }),
    }
}

/// Returns the number of the unit that is as long as the windows; 0 if there is none.
fn unit(quota: &Quota) -> i32 {
    let unit = match quota.window() {
        WindowLength::Fixed(length) => Unit::ALL.into_iter().find(|unit| unit.length() == length),
        WindowLength::Calendar(CalendarUnit::Day) => Some(Unit::Day),
        WindowLength::Calendar(CalendarUnit::Week) => Some(Unit::Week),
        WindowLength::Calendar(CalendarUnit::Month) => Some(Unit::Month),
        WindowLength::Calendar(CalendarUnit::Year) => Some(Unit::Year),
        _ => None,
    };
    unit.map_or(0, Unit::number)
}

fn saturated(units: u64) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}

impl AddedHeaders {
    fn written(&self, decisions: &[PolicyDecision]) -> Vec<HeaderValue> {
        let mut headers = HeaderMap::new();
        if let Some(limits) = &self.limits {
            write_limits(limits, decisions, &mut headers);
        }
        if let Some(value) = self.trials.value(decisions) {
            headers.insert(TOLLGATE_TRIALS, value);
        }
        let headers = headers.iter().filter_map(|(name, value)| {
            Some(HeaderValue { key: name.as_str().to_owned(), value: value.to_str().ok()?.to_owned() })
        });
        headers.collect()
    }
}

/// Writes the headers of the most important decision: one that denies, else the one with the least remaining share.
fn write_limits(limits: &PolicyHeaders, decisions: &[PolicyDecision], headers: &mut HeaderMap) {
    let counted = || decisions.iter().filter_map(|decision| Some((decision, *decision.state()?)));
    let states: QuotaStates = counted().map(|(_, state)| state).collect();
    if let Some((deciding, _)) = counted().nth(states.deciding()) {
        limits.write(deciding, headers);
    }
}
