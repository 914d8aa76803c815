//! Series of policies over time.

use schemars::JsonSchema;
use serde::Serialize;

use super::EventRow;
use crate::dashboard::series::{PolicySeries, Recorder, SeriesPoint, Tier};

/// Series of policies, point by point. Of all that changes within a second, only finished seconds are told.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Series")]
pub(in crate::http) struct SeriesReply<'a> {
    /// The last finished second of the process, for `since` of the next request.
    pub(in crate::http) seq: u64,
    /// `1s` or `5m`.
    pub(in crate::http) tier: &'static str,
    /// The length of a point in seconds.
    pub(in crate::http) step_seconds: u64,
    /// The second with which the first point ends; the others follow one another.
    pub(in crate::http) start: u64,
    /// When each point begins, in Unix seconds. The last one of five minutes is not finished and grows.
    pub(in crate::http) times: Vec<i64>,
    /// One for each policy, in the order of the request; or one with an empty name for all together.
    pub(in crate::http) series: Vec<SeriesRow<'a>>,
    /// The events in these points, the latest one first.
    pub(in crate::http) events: Vec<EventRow>,
}

/// The series of a policy, or of all together. `null` marks points in which nothing was recorded.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SeriesRow")]
pub(in crate::http) struct SeriesRow<'a> {
    policy: &'a str,
    /// Requests that it admitted or exempted, where it decided.
    allowed: Vec<Option<u32>>,
    /// Requests that it denied.
    denied: Vec<Option<u32>>,
    /// Requests without a decision, because the store gave none and the policy insists on one.
    failed: Vec<Option<u32>>,
    /// Denials that it would have given on trial.
    trial_denied: Vec<Option<u32>>,
    /// Those of the allowed and denied that were decided without the store.
    by_fallback: Vec<Option<u32>>,
}

impl<'a> SeriesRow<'a> {
    pub(in crate::http) fn new(
        policy: &'a str,
        series: &PolicySeries,
        recorder: &Recorder,
        (tier, since): (Tier, Option<u64>),
    ) -> Self {
        let column = |figure: fn(SeriesPoint) -> u32| {
            let points = recorder.points(tier, since).numbers();
            points.map(|number| recorder.point(series, tier, number).map(figure)).collect()
        };
        Self {
            policy,
            allowed: column(|point| point.allowed),
            denied: column(|point| point.denied),
            failed: column(|point| point.failed),
            trial_denied: column(|point| point.trial_denied),
            by_fallback: column(|point| point.by_fallback),
        }
    }
}
