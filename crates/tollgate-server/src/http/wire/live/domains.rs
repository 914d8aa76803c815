//! A domain of envoyproxy/ratelimit, with its figures of the last minute.

use schemars::JsonSchema;
use serde::Serialize;

use super::sparkline::Sparkline;
use crate::dashboard::series::{PolicySeries, Recorder};

/// A domain and what its limits decided in the span. Values of requests are not shown, because they may be secret.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LiveDomain")]
pub(in crate::http) struct DomainRow<'a> {
    domain: &'a str,
    /// The number of its limits.
    limits: usize,
    /// Requests that it admitted.
    allowed: u64,
    /// Requests that it denied.
    denied: u64,
    /// The allowed and denied in each of the last 60 seconds, the latest one last; `null` where nothing was recorded.
    #[schemars(with = "Vec<Option<u32>>")]
    checks: Sparkline,
    /// The denied among them.
    #[schemars(with = "Vec<Option<u32>>")]
    denials: Sparkline,
    /// The names of its limits that are counted, for `/v1/talkers`: the first 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<&'a str>,
}

impl<'a> DomainRow<'a> {
    pub(in crate::http) fn new(
        domain: &'a str,
        limits: usize,
        rules: Vec<&'a str>,
        recorder: &Recorder,
    ) -> Self {
        let empty = PolicySeries::default();
        let series = recorder.policy(domain).unwrap_or(&empty);
        let counts = series.minute();
        let [checks, denials] = Sparkline::pair(recorder.last_minute(series));
        Self { domain, limits, allowed: counts.allowed, denied: counts.denied, checks, denials, rules }
    }
}
