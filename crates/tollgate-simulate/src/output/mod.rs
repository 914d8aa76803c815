//! A report in the forms that people and programs read.

pub(crate) mod curve;
mod gates;
mod html;
mod kinds;
mod markdown;
mod notes;
pub(crate) mod number;
mod opening;
mod policy_file;
pub(crate) mod read;
pub(crate) mod screen;
mod section;
mod sections;
mod setters;
pub(crate) mod share;
pub(crate) mod style;
mod suggestion;
mod text;
mod text_table;
mod width;

use serde::Serialize;

pub use self::share::{percent, percentage, share_of_clients};
pub use self::style::Style;
use crate::gate::{GateResult, GateVerdict};
use crate::report::Report;

/// A report with the results of its gates.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct CheckedReport {
    /// The figures.
    #[serde(flatten)]
    pub report: Report,
    /// The gates, in the order in which they were given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateResult>,
}

impl CheckedReport {
    /// Combines them.
    #[must_use]
    pub const fn new(report: Report, gates: Vec<GateResult>) -> Self {
        Self { report, gates }
    }

    /// Returns the combined result of all gates: one that failed decides, then one without an answer.
    #[must_use]
    pub fn held(&self) -> GateVerdict {
        self.gates.iter().map(|gate| gate.held).max().unwrap_or(GateVerdict::Held)
    }

    /// How many gates failed, or have no answer.
    pub(crate) fn verdict(&self) -> String {
        let held = self.held();
        let count = self.gates.iter().filter(|gate| gate.held == held).count();
        let all = self.gates.len();
        let of = if all == 1 { "the gate".to_owned() } else { format!("{count} of {all} gates") };
        match held {
            GateVerdict::Held => "all gates held".to_owned(),
            GateVerdict::NoAnswer => format!("{of} without an answer"),
            GateVerdict::Failed => format!("{of} failed"),
        }
    }

    /// Returns one line of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        // This cannot fail: all keys are texts.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}
