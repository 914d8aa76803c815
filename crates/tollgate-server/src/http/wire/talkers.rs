//! Answers about talkers.

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_wire::body::TimeText;

/// The talkers of a policy in one period.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Talkers")]
pub(in crate::http) struct TalkersReply<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) policy: Option<&'a str>,
    /// In place of `policy`, if Envoy's limits decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) rule: Option<&'a str>,
    /// `checks` or `denied`.
    pub(in crate::http) by: &'static str,
    /// `current` or `last`.
    pub(in crate::http) period: &'static str,
    /// `hashed` or `plain`: how the service names them. `plain` is for callers with the scope `keys`.
    pub(in crate::http) names: &'static str,
    /// When counting began: usually at a multiple of five minutes.
    #[schemars(with = "String")]
    pub(in crate::http) since: TimeText,
    /// The end of the period; of the current one, the time of the answer.
    #[schemars(with = "String")]
    pub(in crate::http) until: TimeText,
    /// Requests: those that are counted below, and those that were skipped.
    pub(in crate::http) total: u64,
    /// Requests that the rows are about.
    pub(in crate::http) counted: u64,
    /// Requests that came while another one of the policy was being noted, or for which there was no memory.
    pub(in crate::http) skipped: u64,
    /// How many rows the service keeps: 128, or 32 for a policy that came when half of the memory for talkers was in use; 0
    /// if there was none left.
    pub(in crate::http) counters: usize,
    /// A key without a row has at most so many requests.
    pub(in crate::http) max_error: u64,
    /// The memory of the policy's talkers.
    pub(in crate::http) memory_bytes: usize,
    pub(in crate::http) rows: Vec<TalkerEntry>,
}

/// A talker.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Talker")]
pub(in crate::http) struct TalkerEntry {
    /// A keyed hash of the policy and the key.
    pub(in crate::http) id: String,
    /// The key, such as `user=alice`; if it is long, only its beginning, and then `…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) key: Option<String>,
    /// Requests of the key, at most.
    pub(in crate::http) count: u64,
    /// What `count` may be too high by.
    pub(in crate::http) error: u64,
    /// The share of `counted`, from 0 to 1.
    pub(in crate::http) share: f64,
}
