//! `X-RateLimit-Limit-Minute: 30` and `X-RateLimit-Remaining-Minute: 29`, the same for each unit of time that has a
//! quota, and `RateLimit-Limit: 30`, `RateLimit-Remaining: 29`, `RateLimit-Reset: 42`.
//!
//! Source: the rate limiting plugin in Kong's documentation. Its quotas are per second, minute, hour, day, month or
//! year; a quota with another window has no headers.

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate::{CalendarUnit, PolicyQuota, QuotaKind, QuotaStates, WindowLength};

use super::text::number;

/// For each unit of time, the limit and the remaining units.
const UNITS: [(HeaderName, HeaderName); 6] = [
    (
        HeaderName::from_static("x-ratelimit-limit-second"),
        HeaderName::from_static("x-ratelimit-remaining-second"),
    ),
    (
        HeaderName::from_static("x-ratelimit-limit-minute"),
        HeaderName::from_static("x-ratelimit-remaining-minute"),
    ),
    (
        HeaderName::from_static("x-ratelimit-limit-hour"),
        HeaderName::from_static("x-ratelimit-remaining-hour"),
    ),
    (HeaderName::from_static("x-ratelimit-limit-day"), HeaderName::from_static("x-ratelimit-remaining-day")),
    (
        HeaderName::from_static("x-ratelimit-limit-month"),
        HeaderName::from_static("x-ratelimit-remaining-month"),
    ),
    (
        HeaderName::from_static("x-ratelimit-limit-year"),
        HeaderName::from_static("x-ratelimit-remaining-year"),
    ),
];

/// Of several quotas in one unit, the one with the least remaining is shown.
pub(super) fn write_units(
    quotas: &[PolicyQuota],
    limits: &[HeaderValue],
    counted: &QuotaStates,
    headers: &mut HeaderMap,
) {
    for (place, (limit_name, remaining_name)) in UNITS.into_iter().enumerate() {
        let all = quotas.iter().zip(limits).zip(counted);
        let same_unit = all.filter(|((quota, _), _)| unit(quota) == Some(place));
        if let Some(((_, limit), state)) = same_unit.min_by_key(|(_, state)| state.remaining()) {
            headers.insert(limit_name, limit.clone());
            headers.insert(remaining_name, number(state.remaining()));
        }
    }
}

/// The place of the quota's unit.
fn unit(quota: &PolicyQuota) -> Option<usize> {
    match quota.quota().window() {
        // Its burst is no limit of a unit of time.
        _ if quota.quota().kind() == QuotaKind::Burst => None,
        WindowLength::Fixed(length) if length.subsec_nanos() == 0 => {
            [1, 60, 60 * 60, 24 * 60 * 60].iter().position(|seconds| *seconds == length.as_secs())
        }
        WindowLength::Calendar(CalendarUnit::Day) => Some(3),
        WindowLength::Calendar(CalendarUnit::Month) => Some(4),
        WindowLength::Calendar(CalendarUnit::Year) => Some(5),
        _ => None,
    }
}
