//! A report held against a gate.

use serde::{Serialize, Serializer};

use super::measure::MeasuredPart;
use super::place::KnownNames;
use super::{Comparison, Gate, GateError};
use crate::report::Report;

/// The result of a gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GateResult {
    /// The gate, as it was written.
    pub gate: String,
    /// Whether it held.
    pub held: GateVerdict,
    /// The measured value; in JSON in words.
    pub measured: MeasuredValue,
    /// The requests, clients or lines that it is about.
    pub part: u64,
    /// All of these that were measured.
    pub all: u64,
    /// The allowed value, in words.
    pub allowed: String,
}

/// What a gate measured. Its text is what [`Display`](std::fmt::Display) writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MeasuredValue {
    /// A part of a whole.
    Share {
        /// The part.
        part: u64,
        /// The whole.
        all: u64,
        /// What both are, in singular.
        of: &'static str,
        /// Whether the numbers may be wrong, and why.
        certainty: Certainty,
    },
    /// Clients that are not counted could turn the answer into another one.
    Uncounted {
        /// Requests by none of the counted clients.
        requests: u64,
        /// What is counted, in singular.
        of: &'static str,
    },
    /// There are too few requests.
    TooFew {
        /// How many there are.
        requests: u64,
        /// How many are needed.
        needed: u64,
        /// Whether these are requests that a policy decides on.
        are_decided: bool,
    },
    /// Nothing was counted, so there is no figure to judge.
    Nothing {
        /// What is counted, in singular.
        of: &'static str,
    },
}

/// How certain a measured share is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Certainty {
    /// It is counted.
    Exact,
    /// It is estimated from some of the clients.
    Estimated,
    /// The log may hold only a sample of all requests.
    PerhapsSampled,
}

impl Serialize for MeasuredValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether a gate held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
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
        let place = self.place(&KnownNames::of(report))?;
        let (measured, requests) = self.measure(report, &place);
        let is_missed = measured.is_open(|part, all| self.is_met(part, all));
        let MeasuredPart { part, all, of, is_estimate, clientless } = measured;
        let is_sample = of != "line" && report.read.as_ref().is_some_and(|read| read.is_sample);
        let held = match self.is_met(part, all) {
            _ if is_missed || all == 0 || requests < least.max(1) => GateVerdict::NoAnswer,
            true => GateVerdict::Failed,
            // A sample shows fewer denials than there were.
            false if is_sample && matches!(self.comparison, Comparison::Above | Comparison::AtLeast) => {
                GateVerdict::NoAnswer
            }
            false => GateVerdict::Held,
        };
        let certainty = match (is_estimate, is_sample) {
            (true, _) => Certainty::Estimated,
            (false, true) => Certainty::PerhapsSampled,
            (false, false) => Certainty::Exact,
        };
        let measured = match held {
            GateVerdict::NoAnswer if is_missed => MeasuredValue::Uncounted { requests: clientless, of },
            GateVerdict::NoAnswer if requests < least.max(1) => {
                MeasuredValue::TooFew { requests, needed: least.max(1), are_decided: self.is_of_decisions() }
            }
            GateVerdict::NoAnswer if all == 0 => MeasuredValue::Nothing { of },
            _ => MeasuredValue::Share { part, all, of, certainty },
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
