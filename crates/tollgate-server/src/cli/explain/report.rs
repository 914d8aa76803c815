//! The report on a request: its outcome, and the effect of each policy or the reason why it has none.

use serde::Serialize;
use tollgate::{InFlightCharge, Timestamp, WindowLength};
use tollgate_policy::OverrideEntry;

/// The output of `--json`.
#[derive(Serialize)]
pub(super) struct ExplainReport<'a> {
    /// Milliseconds since the Unix epoch, like all times in the report.
    pub(super) at: i64,
    pub(super) outcome: &'static str,
    pub(super) message: String,
    /// The reason that the service gives for a denial that the cost alone decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'static str>,
    /// The two readings of the path, if it has two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<PathReport>,
    /// The overrides of a running service; absent if they are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) overrides: Option<OverridesReport>,
    /// In the order of the file.
    pub(super) policies: Vec<PolicyReport<'a>>,
}

/// The overrides under which the request is explained.
#[derive(Serialize)]
pub(super) struct OverridesReport {
    /// Absent if there has never been one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    pub(super) count: usize,
}

#[derive(Serialize)]
pub(super) struct PathReport {
    pub(super) sent: String,
    pub(super) normalized: String,
}

#[derive(Serialize)]
pub(super) struct PolicyReport<'a> {
    pub(super) policy: &'a str,
    /// `None` if there is only one file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<&'a str>,
    pub(super) line: Option<usize>,
    pub(super) mode: &'static str,
    /// Whether all conditions of the policy hold, so that it applies.
    pub(super) matches: bool,
    /// The only reading of the path, `sent` or `normalized`, in which they hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) only_as: Option<&'static str>,
    /// Whether the policy admits matching requests without counting.
    pub(super) exempt: bool,
    /// Whether the policy denies every matching request.
    pub(super) denies: bool,
    /// The reasons why the policy counts nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) because: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counts: Option<String>,
    /// The override of a running service that decides, or that gives the charges.
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    pub(super) by_override: Option<OverrideReport>,
    /// The override of the file or the tier that gives the quotas, if it is not the policy itself; two if the readings of the path
    /// differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) quotas_from: Vec<QuotasFrom>,
    /// Whether the readings of the path lead to two lists of quotas.
    #[serde(skip)]
    pub(super) has_two_lists: bool,
    /// The charges that decide, all or nothing with those of all policies.
    pub(super) charges: Vec<ChargeReport>,
    /// The limit in flight, of which a hold takes a unit together with the charges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) in_flight: Option<InFlightReport>,
    /// The trials that are counted after the decision.
    pub(super) trials: Vec<TrialReport>,
}

/// An override that applies.
#[derive(Serialize)]
pub(super) struct OverrideReport {
    pub(super) id: String,
    /// Absent if it has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<i64>,
}

#[derive(Serialize)]
pub(super) struct InFlightReport {
    /// As it is written: `20~in_flight`.
    pub(super) written: String,
    /// The most units that are live at once.
    pub(super) limit: u32,
}

#[derive(PartialEq, Serialize)]
pub(super) struct QuotasFrom {
    pub(super) line: usize,
    pub(super) when: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct TrialReport {
    pub(super) kind: &'static str,
    pub(super) charges: Vec<ChargeReport>,
    /// The limit in flight that a hold is compared with, and that takes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) in_flight: Option<InFlightReport>,
}

#[derive(Serialize)]
pub(super) struct ChargeReport {
    pub(super) quota: String,
    /// Units that can be used at once: the limit, or the burst of a bucket.
    pub(super) limit: u64,
    pub(super) cost: u32,
    /// The most units that are admitted in any time of a window's length; `None` for an overdraft, which has no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) most_in_any_window: Option<u64>,
    /// Whether the cost is recorded even if the request is denied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) overdraft: bool,
    /// The window that is charged, of a quota with fixed windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) window: Option<WindowReport>,
    #[serde(skip)]
    pub(super) length: WindowLength,
    /// Whether less than the bound can be used at once.
    #[serde(skip)]
    pub(super) is_spread: bool,
    #[serde(skip)]
    pub(super) zone: Option<String>,
}

#[derive(Serialize)]
pub(super) struct WindowReport {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Whether this is the window that would open now; an earlier request may already have opened one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) first_hit: bool,
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
