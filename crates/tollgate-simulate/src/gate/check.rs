//! A report held against a gate.

use serde::Serialize;

use super::measure::Measured;
use super::place::Askable;
use super::{Comparison, Gate, GateError};
use crate::output::number::{counted, grouped};
use crate::output::share::percent;
use crate::report::Report;

/// The result of a gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GateResult {
    /// The gate, as it was written.
    pub gate: String,
    /// Whether it held.
    pub held: Held,
    /// The measured value, in words.
    pub measured: String,
    /// The requests, clients or lines that it is about.
    pub part: u64,
    /// All of these that were measured.
    pub all: u64,
    /// The allowed value, in words.
    pub allowed: String,
}

/// Whether a gate held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// It held.
    Held,
    /// There was nothing to measure, or too little. This is not a pass.
    NoAnswer,
    /// It failed.
    Failed,
}

impl Gate {
    /// Holds the report against the gate. If there are fewer requests than `least`, or none, there is no answer.
    ///
    /// # Errors
    ///
    /// If it names an unknown policy or class, or a value that is not measured.
    pub fn check(&self, report: &Report, least: u64) -> Result<GateResult, GateError> {
        let place = self.place(&Askable::of(report))?;
        let (measured, requests) = self.measure(report, &place);
        let is_missed = measured.is_open(|part, all| self.is_met(part, all));
        let Measured { part, all, of, is_estimate, clientless } = measured;
        let is_sample = of != "line" && report.read.as_ref().is_some_and(|read| read.is_sample);
        let held = match self.is_met(part, all) {
            _ if is_missed || all == 0 || requests < least.max(1) => Held::NoAnswer,
            true => Held::Failed,
            // A sample shows fewer denials than there were.
            false if is_sample && matches!(self.comparison, Comparison::Above | Comparison::AtLeast) => {
                Held::NoAnswer
            }
            false => Held::Held,
        };
        let about = match (is_estimate, is_sample) {
            (true, _) => ", estimated",
            (false, true) => ", perhaps in a sample",
            (false, false) => "",
        };
        let measured = match held {
            Held::NoAnswer if is_missed => {
                format!(
                    "{}, none of them by a counted {of}: they lack the key, or --max-clients left it out",
                    counted(clientless, "request")
                )
            }
            Held::NoAnswer if requests < least.max(1) => {
                let which = if self.is_of_decisions() { " that a policy decides on" } else { "" };
                let needed = grouped(least.max(1));
                format!("{}{which}, of at least {needed} needed", counted(requests, "request"))
            }
            Held::NoAnswer if all == 0 => counted(0, of),
            _ => format!("{} ({} of {}{about})", percent(part, all), grouped(part), counted(all, of)),
        };
        Ok(GateResult { gate: self.text.clone(), held, measured, part, all, allowed: self.allowed() })
    }

    /// Whether the condition is met by a part of a whole.
    fn is_met(&self, part: u64, all: u64) -> bool {
        let order =
            if self.is_share { self.bound.order_of_percentage(part, all) } else { self.bound.order_of(part) };
        match self.comparison {
            Comparison::Above => order.is_gt(),
            Comparison::AtLeast => order.is_ge(),
            Comparison::Below => order.is_lt(),
            Comparison::AtMost => order.is_le(),
        }
    }

    fn allowed(&self) -> String {
        let bound = format!("{}{}", self.bound, if self.is_share { " %" } else { "" });
        match self.comparison {
            Comparison::Above => format!("at most {bound}"),
            Comparison::AtLeast => format!("less than {bound}"),
            Comparison::Below => format!("at least {bound}"),
            Comparison::AtMost => format!("more than {bound}"),
        }
    }
}
