//! `X-RateLimit-Limit: 30`, `X-RateLimit-Remaining: 29`, `X-RateLimit-Used: 1`, `X-RateLimit-Reset: 1795246962` and
//! `X-RateLimit-Resource: search`.
//!
//! Source: "Rate limits for the REST API" in GitHub's documentation. The reset is an instant, in seconds of the Unix
//! epoch; the resource is the name of the quota that decided.

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate::QuotaState;

use super::text::{number, value};
use super::x_ratelimit;

const USED: HeaderName = HeaderName::from_static("x-ratelimit-used");
const RESOURCE: HeaderName = HeaderName::from_static("x-ratelimit-resource");

pub(super) fn write(name: &str, limit: &HeaderValue, state: &QuotaState, headers: &mut HeaderMap) {
    x_ratelimit::write(limit, state, headers);
    headers.insert(USED, number(state.used()));
    if let Some(name) = value(name.to_owned()) {
        headers.insert(RESOURCE, name);
    }
}
