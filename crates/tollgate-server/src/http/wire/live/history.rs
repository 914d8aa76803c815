//! The last reloads, and probable mistakes in the live limits.

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_wire::body::TimeText;

use crate::live::record::{ReloadOutcome, ReloadRecord};
use crate::observe::live_warnings::LiveWarning;

/// What became of the limits since the start.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PolicyHistory")]
pub(in crate::http) struct HistoryReply {
    /// The last ten reloads, the latest one first.
    pub(in crate::http) reloads: Vec<ReloadEntry>,
    /// Probable mistakes in the live limits: the first 50.
    pub(in crate::http) warnings: Vec<WarningRow>,
    /// The number of all warnings.
    pub(in crate::http) warnings_count: usize,
}

/// A reload of the limits.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReloadEntry")]
pub(in crate::http) struct ReloadEntry {
    /// When it ended.
    at: TimeText,
    /// Why the files were read: `watch`, `rename`, `interval`, `SIGHUP` or `request`; `xds` if the limits come over xDS.
    cause: &'static str,
    /// The version that was live after it.
    version: u64,
    /// `replaced`, `unchanged` or `failed`.
    outcome: &'static str,
    /// What it changed: the first changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<String>,
    /// The number of the other changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
    /// Why it failed: every problem of the files on a line, or the reason why they cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// A probable mistake in the live limits, as in the log.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LiveWarning")]
pub(in crate::http) struct WarningRow {
    /// Its code, under which `docs/warnings.md` explains it; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    /// The policy that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Box<str>>,
    /// What is probably wrong.
    text: Box<str>,
}

impl ReloadEntry {
    pub(in crate::http) fn new(record: &ReloadRecord) -> Self {
        let (mut changes, mut more, mut failure) = (Vec::new(), None, None);
        let outcome = match &record.outcome {
            ReloadOutcome::Replaced(all) => {
                changes = all.first().to_vec();
                more = Some(all.more()).filter(|more| *more > 0);
                "replaced"
            }
            ReloadOutcome::Unchanged => "unchanged",
            ReloadOutcome::Failed(why) => {
                failure = Some(why.to_string());
                "failed"
            }
        };
        let (at, cause) = (TimeText(record.at), record.cause.name());
        Self { at, cause, version: record.version, outcome, changes, more, failure }
    }
}

impl From<&LiveWarning> for WarningRow {
    fn from(LiveWarning { code, policy, text }: &LiveWarning) -> Self {
        Self { code: *code, policy: policy.clone(), text: text.clone() }
    }
}
