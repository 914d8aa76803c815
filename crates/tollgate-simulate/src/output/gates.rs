//! The results of gates in words.

use std::fmt;

use super::number::{counted, grouped};
use super::share::percent;
use crate::gate::{Certainty, MeasuredValue};

impl fmt::Display for MeasuredValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Share { part, all, of, certainty } => {
                let about = match certainty {
                    Certainty::Exact => "",
                    Certainty::Estimated => ", estimated",
                    Certainty::PerhapsSampled => ", perhaps in a sample",
                };
                write!(f, "{} ({} of {}{about})", percent(part, all), grouped(part), counted(all, of))
            }
            Self::Uncounted { requests, of } => write!(
                f,
                "{}, none of them by a counted {of}: they lack the key, or --max-clients left it out",
                counted(requests, "request")
            ),
            Self::TooFew { requests, needed, are_decided } => {
                let which = if are_decided { " that a policy decides on" } else { "" };
                write!(f, "{}{which}, of at least {} needed", counted(requests, "request"), grouped(needed))
            }
            Self::Nothing { of } => f.write_str(&counted(0, of)),
        }
    }
}
