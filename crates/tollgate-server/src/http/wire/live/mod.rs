//! What the live page shows of this process: now, and over time.

mod domains;
mod history;
mod policy_row;
mod process;
mod series;
mod sparkline;
mod store;

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_wire::body::TimeText;

pub(in crate::http) use self::domains::DomainRow;
pub(in crate::http) use self::history::{HistoryReply, ReloadEntry, WarningRow};
use self::policy_row::PolicyRow;
pub(in crate::http) use self::policy_row::PolicyRows;
pub(in crate::http) use self::process::{
    Latency, LiveMemory, LiveOverrides, LiveProcess, LiveTotals, ServiceState, SourceCounts,
};
pub(in crate::http) use self::series::{SeriesReply, SeriesRow};
pub(in crate::http) use self::store::LiveStore;
use crate::dashboard::series::Event;
use crate::http::override_body::OverridesVersionText;

/// The state of this process, and its figures of the last minute. All viewers get the same one for a second.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Live")]
pub(in crate::http) struct LiveReply<'a> {
    /// The second of the process; it grows by one a second.
    pub(in crate::http) seq: u64,
    /// The time of the service.
    pub(in crate::http) at: TimeText,
    /// The process that answers.
    pub(in crate::http) process: LiveProcess<'a>,
    /// Whether requests are decided, as `/readyz` answers.
    pub(in crate::http) state: ServiceState,
    /// What `/readyz` says about it.
    pub(in crate::http) state_text: String,
    /// What decides: `policies`, or `domains` with the limits of envoyproxy/ratelimit.
    pub(in crate::http) decided_by: &'static str,
    /// The version of the live limits, counted from 1 since the process started.
    pub(in crate::http) policies_version: u64,
    /// A hash of all live limits; absent before the first ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) generation: Option<String>,
    /// The version of the overrides, `EPOCH.NUMBER`; absent if none was ever set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) overrides_version: Option<OverridesVersionText>,
    /// The overrides; absent if there can be none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) overrides: Option<LiveOverrides>,
    /// Where the limits come from: a file, `flags`, or the URL of a server.
    pub(in crate::http) source: &'a str,
    /// When the live limits became live.
    pub(in crate::http) since: TimeText,
    /// Whether the limits as last read are live.
    pub(in crate::http) in_step: bool,
    /// Why the limits as last read are not live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) failure: Option<String>,
    /// Probable mistakes in the live limits: the first 50.
    pub(in crate::http) warnings: Vec<WarningRow>,
    /// The number of all warnings.
    pub(in crate::http) warnings_count: usize,
    /// The sums below are over so many seconds: 60, fewer after the start, or more if the process stood still.
    pub(in crate::http) span_seconds: u64,
    /// Sums over all policies or domains.
    pub(in crate::http) totals: LiveTotals,
    /// Checks by the source of their answers, each counted once.
    pub(in crate::http) sources: SourceCounts,
    /// The time from attributes to decision; absent without decisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) latency_ms: Option<Latency>,
    /// Counters and holds in the memory of this process.
    pub(in crate::http) memory: LiveMemory,
    /// The shared store; absent if counters are in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) store: Option<LiveStore>,
    /// Whether the service knows who asks most, and how it names them: `hashed`, `plain` or `off`.
    pub(in crate::http) talkers: &'static str,
    /// The first 1,000 policies, exempt ones first. Empty if domains decide.
    #[schemars(with = "Vec<PolicyRow<'static>>")]
    pub(in crate::http) policies: PolicyRows<'a>,
    /// The number of all policies.
    pub(in crate::http) policies_count: usize,
    /// The domains of envoyproxy/ratelimit; absent if policies decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) envoy: Option<DomainRows<'a>>,
    /// The last 50 events, the latest one first.
    pub(in crate::http) events: Vec<EventRow>,
}

/// The domains of envoyproxy/ratelimit.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LiveDomains")]
pub(in crate::http) struct DomainRows<'a> {
    /// In the order of their names: the first 1,000.
    pub(in crate::http) domains: Vec<DomainRow<'a>>,
}

/// Something that happened to this process, and explains its figures.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LiveEvent")]
pub(in crate::http) struct EventRow {
    /// When.
    pub(in crate::http) at: TimeText,
    /// `reload`, `reload_failed`, `store_down`, `store_up`, `draining`, `overrides_stale` or `overrides_fresh`.
    pub(in crate::http) kind: &'static str,
    /// What happened, in words.
    pub(in crate::http) text: Box<str>,
}

impl From<&Event> for EventRow {
    fn from(Event { at, kind, text }: &Event) -> Self {
        Self { at: TimeText(*at), kind: kind.name(), text: text.clone() }
    }
}
