//! `X-RateLimit-Limit: 30, 30;w=60;name="search"`, `X-RateLimit-Remaining: 29`, `X-RateLimit-Reset: 42` and, with a
//! denial, `X-Envoy-RateLimited: true`.
//!
//! Source: `enable_x_ratelimit_headers` of the rate limit filter in Envoy's documentation, which follows
//! draft-polli-ratelimit-headers-03. The reset is in seconds from now.

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate::{QuotaState, whole_seconds};

use super::text::{number, value};

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const RATE_LIMITED: HeaderName = HeaderName::from_static("x-envoy-ratelimited");

/// The limit of the quota that decided, and then each quota with its window and name.
pub(super) fn write(
    limit: &HeaderValue,
    state: &QuotaState,
    quotas: impl Iterator<Item = (impl AsRef<str>, u64, u64)>,
    headers: &mut HeaderMap,
) {
    let mut limits = limit.to_str().unwrap_or_default().to_owned();
    for (name, limit, seconds) in quotas {
        let pieces = [", ", &limit.to_string(), ";w=", &seconds.to_string(), ";name=", name.as_ref()];
        limits.extend(pieces);
    }
    if let Some(limits) = value(limits) {
        headers.insert(LIMIT, limits);
    }
    headers.insert(REMAINING, number(state.remaining()));
    headers.insert(RESET, number(whole_seconds(state.more_after())));
    if !state.has_room() {
        headers.insert(RATE_LIMITED, HeaderValue::from_static("true"));
    }
}
