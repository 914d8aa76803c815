//! `RateLimit-Policy: "search";q=30;w=60` and `RateLimit: "search";r=29;t=42`.
//!
//! Source: draft-ietf-httpapi-ratelimit-headers-11, lists of strings with parameters as RFC 9651 writes them.

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate::{Decision, whole_seconds};

use super::text::Text;

pub(super) const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// So many units in so many seconds, for each quota.
pub(super) fn policy(quotas: impl Iterator<Item = (impl AsRef<str>, u64, u64)>) -> Option<HeaderValue> {
    let mut text = Text::default();
    for (name, limit, seconds) in quotas {
        item(&mut text, name.as_ref()).push(";q=").push_number(limit).push(";w=").push_number(seconds);
    }
    text.value()
}

/// So many units left, and a new window in so many seconds, for each quota.
pub(super) fn write(quoted: &[Box<str>], decision: &Decision, headers: &mut HeaderMap) {
    let mut text = Text::default();
    for (name, quota) in quoted.iter().zip(decision.quotas()) {
        let reset = whole_seconds(quota.reset_after());
        item(&mut text, name).push(";r=").push_number(quota.remaining()).push(";t=").push_number(reset);
    }
    if let Some(value) = text.value() {
        headers.insert(LIMIT, value);
    }
}

/// The name as a structured string. It is ASCII without control characters.
pub(super) fn quoted(name: &str) -> Box<str> {
    let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"").into()
}

fn item<'t>(text: &'t mut Text, quoted: &str) -> &'t mut Text {
    if !text.is_empty() {
        text.push(", ");
    }
    text.push(quoted)
}
