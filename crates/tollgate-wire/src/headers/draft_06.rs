//! `RateLimit-Limit: 30`, `RateLimit-Remaining: 29`, `RateLimit-Reset: 42` and `RateLimit-Policy: 30;w=60`.
//!
//! Source: draft-ietf-httpapi-ratelimit-headers-06. The first three describe the quota that decided, which is the one
//! closest to exhaustion. A bucket has the parameter `burst`, as in an example of the draft.

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate::{QuotaState, whole_seconds};

use super::quota_policy::QuotaPolicy;
use super::text::{number, push_item, value};

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// The limit and the seconds of the window, for each quota.
pub(super) fn policy(quotas: impl Iterator<Item = QuotaPolicy>) -> Option<HeaderValue> {
    let mut list = String::new();
    for QuotaPolicy { limit, seconds, burst } in quotas {
        let burst = burst.map(|burst| format!(";burst={burst}")).unwrap_or_default();
        push_item(&mut list, [&limit.to_string(), ";w=", &seconds.to_string(), &burst]);
    }
    value(list)
}

pub(super) fn write(limit: &HeaderValue, state: &QuotaState, headers: &mut HeaderMap) {
    headers.insert(LIMIT, limit.clone());
    headers.insert(REMAINING, number(state.remaining()));
    headers.insert(RESET, number(whole_seconds(state.more_after())));
}
