//! `X-RateLimit-Limit: 30`, `X-RateLimit-Remaining: 29` and `X-RateLimit-Reset: 1795246962`.
//!
//! A convention without a text. The reset is an instant, in seconds of the Unix epoch, as GitHub has it; others
//! mean delta seconds by the same name.

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate::QuotaState;

use super::text::number;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

pub(super) fn write(limit: &HeaderValue, state: &QuotaState, headers: &mut HeaderMap) {
    // Rounded up; a reset before 1970 is no reason to write a sign.
    let reset = u64::try_from(state.more_at().as_unix_millis()).unwrap_or(0).div_ceil(1_000);
    headers.insert(LIMIT, limit.clone());
    headers.insert(REMAINING, number(state.remaining()));
    headers.insert(RESET, number(reset));
}
