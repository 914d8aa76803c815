//! The shared store, with its figures of the last minute.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tollgate::Timestamp;
use tollgate_redis::{ServerStatus, StoreStatus};
use tollgate_wire::body::TimeText;

use super::process::millis;
use crate::metrics::ProcessCounts;

/// The shared store.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LiveStore")]
pub(in crate::http) struct LiveStore {
    /// `redis`, `sentinel` or `cluster`, by its URL.
    kind: &'static str,
    servers: Vec<LiveServer>,
    /// Whether the store answered the last step, as seen once a second.
    is_up: bool,
    /// Since when it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    down_since: Option<TimeText>,
    /// What decides without the store, by the `on_store_failure` of each policy.
    without_store: Vec<&'static str>,
    /// Steps that it was asked for in the span. A step is a round trip, which several checks may share.
    steps: u64,
    /// Steps that failed, by kind of error.
    errors: BTreeMap<&'static str, u64>,
    /// Replies that came after their deadline.
    late_replies: u64,
    /// Milliseconds that half of the steps did not exceed: the next bound of a bucket of the histogram. Absent if there
    /// were none, or if it is above a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    /// The same for 99 % of the steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<f64>,
}

/// A server of the store.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LiveServer")]
struct LiveServer {
    /// Its address, without secrets.
    name: String,
    connected: bool,
    /// Milliseconds since the connection was lost; absent while it is connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    down_for_ms: Option<u64>,
    /// Why it is not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    /// By how many milliseconds its clock, by which windows open and close, is ahead of the clock of this machine;
    /// negative if it is behind. As exact as a round trip is short. Absent before its first reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_offset_ms: Option<i64>,
}

impl LiveStore {
    pub(in crate::http) fn new(
        kind: &'static str,
        down_since: Option<Timestamp>,
        status: &StoreStatus,
        process: &ProcessCounts,
        without_store: Vec<&'static str>,
    ) -> Self {
        Self {
            kind,
            servers: status.servers().iter().map(LiveServer::new).collect(),
            is_up: down_since.is_none(),
            down_since: down_since.map(TimeText),
            without_store,
            steps: process.steps.all(),
            errors: process.errors.iter().copied().filter(|(_, count)| *count > 0).collect(),
            late_replies: process.late_replies,
            p50_ms: millis(&process.steps, 500),
            p99_ms: millis(&process.steps, 990),
        }
    }
}

impl LiveServer {
    fn new(server: &ServerStatus) -> Self {
        Self {
            name: server.name().to_owned(),
            connected: server.is_connected(),
            down_for_ms: server.trying_for().map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            trouble: server.trouble().map(str::to_owned),
            clock_offset_ms: server.clock_offset_millis(),
        }
    }
}
