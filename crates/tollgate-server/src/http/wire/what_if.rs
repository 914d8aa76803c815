//! Answers about what another quota would have done.

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_wire::body::TimeText;

/// What another quota would have done to the requests of a policy.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WhatIf")]
pub(in crate::http) struct WhatIfReply<'a> {
    pub(in crate::http) policy: &'a str,
    /// The quota, in place of all quotas of the policy.
    pub(in crate::http) quota: String,
    /// Whether the counts are exact for these requests.
    pub(in crate::http) exact: bool,
    /// Why they are not, and what else to know, in sentences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) says: Option<String>,
    /// The time of the first request. Absent without requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub(in crate::http) since: Option<TimeText>,
    /// The time of the answer.
    #[schemars(with = "String")]
    pub(in crate::http) until: TimeText,
    /// The time from `since` to `until`.
    pub(in crate::http) span_seconds: f64,
    /// The keys that are sampled, such as `1 of 8 keys`. Absent if all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) sampled: Option<String>,
    /// The keys that the figures are about.
    pub(in crate::http) keys: u64,
    /// Their requests, also those that were denied.
    pub(in crate::http) requests: u64,
    /// Those of them that the policy denied in fact.
    pub(in crate::http) denied_requests: u64,
    /// Requests of these keys, at most, that came while the sample was in use or without memory.
    pub(in crate::http) skipped: u64,
    /// `calculated` from the requests in each window, or `replayed` request by request.
    pub(in crate::http) basis: &'static str,
    /// In the order of their limits; at most 64.
    pub(in crate::http) curve: Vec<WhatIfPoint>,
    /// The same limit in other kinds of quotas. Each request was decided under each.
    pub(in crate::http) kinds: Vec<WhatIfKind>,
    /// The line that puts the quota on trial, for a file of policies.
    pub(in crate::http) candidate: String,
}

/// What a limit would have done.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct WhatIfPoint {
    pub(in crate::http) limit: u64,
    /// Requests that it would have denied.
    pub(in crate::http) refused_requests: u64,
    /// Keys with such a request.
    pub(in crate::http) refused_keys: u64,
    /// The share of `requests`, from 0 to 1.
    pub(in crate::http) share_requests: f64,
    /// The share of `keys`, from 0 to 1.
    pub(in crate::http) share_keys: f64,
    /// The share of all keys is at least so much, with 95 % confidence. Absent if all are sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) low: Option<f64>,
    /// And at most so much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) high: Option<f64>,
}

/// What another kind of quota would have done.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct WhatIfKind {
    pub(in crate::http) quota: String,
    pub(in crate::http) refused_requests: u64,
    pub(in crate::http) refused_keys: u64,
}
