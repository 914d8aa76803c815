//! The report on a request: its outcome, and the effect of each policy or the reason why it has none.

use schemars::JsonSchema;
use serde::Serialize;
use tollgate::{InFlightCharge, Timestamp, WindowLength};
use tollgate_policy::{OverrideEntry, TrialKind};

/// The output of `tollgate explain --json`.
#[derive(Serialize)]
pub(crate) struct ExplainReport<'a> {
    /// Milliseconds since the Unix epoch, like all times in the report.
    pub(crate) at: i64,
    pub(crate) outcome: &'static str,
    pub(crate) message: String,
    /// The reason that the service gives for a denial that the cost alone decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    /// The two readings of the path, if it has two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<PathReport>,
    /// The overrides of a running service; absent if they are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) overrides: Option<OverridesReport>,
    /// In the order of the file.
    pub(crate) policies: Vec<PolicyReport<'a>>,
}

/// The overrides under which the request is explained.
#[derive(Serialize)]
pub(crate) struct OverridesReport {
    /// Absent if there has never been one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    pub(crate) count: usize,
}

/// The two readings of a path.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExplainedPath")]
pub(crate) struct PathReport {
    pub(crate) sent: String,
    pub(crate) normalized: String,
}

#[derive(Serialize)]
pub(crate) struct PolicyReport<'a> {
    pub(crate) policy: &'a str,
    /// `None` if there is only one file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<&'a str>,
    pub(crate) line: Option<usize>,
    pub(crate) mode: &'static str,
    /// Whether all conditions of the policy hold, so that it applies.
    pub(crate) matches: bool,
    /// The only reading of the path, `sent` or `normalized`, in which they hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) only_as: Option<&'static str>,
    /// Whether the policy admits matching requests without counting.
    pub(crate) exempt: bool,
    /// Whether the policy denies every matching request.
    pub(crate) denies: bool,
    /// The reasons why the policy counts nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) because: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) counts: Option<String>,
    /// The override of a running service that decides, or that gives the charges.
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    pub(crate) by_override: Option<OverrideReport>,
    /// The override of the file or the tier that gives the quotas, if it is not the policy itself; two if the readings of the path
    /// differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) quotas_from: Vec<QuotasFrom>,
    /// Whether the readings of the path lead to two lists of quotas.
    #[serde(skip)]
    pub(crate) has_two_lists: bool,
    /// The charges that decide, all or nothing with those of all policies.
    pub(crate) charges: Vec<ChargeReport>,
    /// The limit in flight, of which a hold takes a unit together with the charges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_flight: Option<InFlightReport>,
    /// The trials that are counted after the decision.
    pub(crate) trials: Vec<TrialReport>,
}

/// An override that applies.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AppliedOverrideEntry")]
pub(crate) struct OverrideReport {
    pub(crate) id: String,
    /// Absent if it has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<i64>,
}

/// A limit of units in flight.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExplainedInFlight")]
pub(crate) struct InFlightReport {
    /// As it is written: `20~in_flight`.
    pub(crate) written: String,
    /// The most units that are live at once.
    pub(crate) limit: u32,
}

/// The place in the file that gives the quotas.
#[derive(PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "QuotasFrom")]
pub(crate) struct QuotasFrom {
    pub(crate) line: usize,
    pub(crate) when: Vec<String>,
}

/// What is tried and does not decide.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExplainedTrial")]
pub(crate) struct TrialReport {
    pub(crate) kind: &'static str,
    /// What it would answer, `allowed` or `denied`; absent if that is unknown, or if no counters were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<&'static str>,
    pub(crate) charges: Vec<ChargeReport>,
    /// The limit in flight that a hold is compared with, and that takes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_flight: Option<InFlightReport>,
}

/// A quota that the request is charged to.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExplainedCharge")]
pub(crate) struct ChargeReport {
    pub(crate) quota: String,
    /// Units that can be used at once: the limit, or the burst of a bucket.
    pub(crate) limit: u64,
    pub(crate) cost: u32,
    /// The most units that are admitted in any time of a window's length; absent for an overdraft, which has no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) most_in_any_window: Option<u64>,
    /// Whether the cost is recorded even if the request is denied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) overdraft: bool,
    /// The window that is charged, of a quota with fixed windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) window: Option<WindowReport>,
    #[serde(skip)]
    pub(crate) length: WindowLength,
    /// Whether less than the bound can be used at once.
    #[serde(skip)]
    pub(crate) is_spread: bool,
    #[serde(skip)]
    pub(crate) zone: Option<String>,
}

/// A window in Unix milliseconds: its first, and the first after it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExplainedWindow")]
pub(crate) struct WindowReport {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// Whether this is the window that would open now; an earlier request may already have opened one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) first_hit: bool,
}

impl TrialReport {
    /// Returns the name of a kind.
    pub(crate) const fn name(kind: TrialKind) -> &'static str {
        match kind {
            TrialKind::Shadow => "shadow",
            TrialKind::Candidate => "candidate",
        }
    }
}

impl From<OverrideEntry<'_>> for OverrideReport {
    fn from(entry: OverrideEntry<'_>) -> Self {
        Self { id: entry.name().to_string(), until: entry.until().map(Timestamp::as_unix_millis) }
    }
}

impl From<InFlightCharge<'_>> for InFlightReport {
    fn from(charge: InFlightCharge<'_>) -> Self {
        let in_flight = charge.in_flight().in_flight();
        Self { written: in_flight.to_string(), limit: in_flight.limit() }
    }
}
