//! `RateLimit-Policy: "search";q=30;w=60` and `RateLimit: "search";r=29;t=42`.
//!
//! Source: draft-ietf-httpapi-ratelimit-headers-11, lists of strings with parameters as RFC 9651 writes them. A bucket
//! has its burst in a parameter of our own, `tollgate-burst=20`.

use http::{HeaderMap, HeaderName, HeaderValue};
#[cfg(feature = "policy")]
use tollgate::InFlightState;
use tollgate::{QuotaStates, whole_seconds};

use super::quota_policy::QuotaPolicy;
use super::text::{push_item, value};

pub(super) const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The limit and the seconds of the window, for each quota.
pub(super) fn policy<'n>(quotas: impl Iterator<Item = (&'n str, QuotaPolicy)>) -> Option<HeaderValue> {
    let mut list = String::new();
    for (name, QuotaPolicy { limit, seconds, burst }) in quotas {
        let burst = burst.map(|burst| format!(";tollgate-burst={burst}")).unwrap_or_default();
        push_item(&mut list, [name, ";q=", &limit.to_string(), ";w=", &seconds.to_string(), &burst]);
    }
    value(list)
}

/// The remaining units and the seconds until there are more, for each quota.
pub(super) fn write(quoted: &[Box<str>], counted: &QuotaStates, headers: &mut HeaderMap) {
    let mut list = String::new();
    for (name, state) in quoted.iter().zip(counted) {
        let (mut left, mut reset) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (left, reset) = (left.format(state.remaining()), reset.format(whole_seconds(state.more_after())));
        push_item(&mut list, [name, ";r=", left, ";t=", reset]);
    }
    if let Some(value) = value(list) {
        headers.insert(LIMIT, value);
    }
}

/// A limit in flight, which has no window: `"uploads";q=20;qu="concurrent-requests"`, and without a time `"uploads";r=3`.
#[cfg(feature = "policy")]
pub(super) fn append_in_flight<'a>(
    each: impl Iterator<Item = (Box<str>, &'a InFlightState)>,
    headers: &mut HeaderMap,
) {
    let text = |headers: &HeaderMap, name| -> String {
        let value = headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let (mut limits, mut standings) = (text(headers, &POLICY), text(headers, &LIMIT));
    for (name, state) in each {
        let (limit, left) = (state.limit().to_string(), state.remaining().to_string());
        push_item(&mut limits, [&name, ";q=", &limit, ";qu=\"concurrent-requests\""]);
        push_item(&mut standings, [&name, ";r=", &left]);
    }
    for (name, list) in [(POLICY, limits), (LIMIT, standings)] {
        if let Some(value) = value(list) {
            headers.insert(name, value);
        }
    }
}

/// The name as a structured string. It is ASCII without control characters.
pub(super) fn quoted(name: &str) -> Box<str> {
    let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"").into()
}
