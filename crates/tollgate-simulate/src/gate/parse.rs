//! From the text of a gate to what it asks.

use std::str::FromStr;

use super::{Comparison, Gate, GateError, GateScope, Measure};
use crate::decimal::Decimal;

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let form = || GateError::Form(text.to_owned());
        let at = text.find(['>', '<']).ok_or_else(form)?;
        let (subject, rest) = text.split_at(at);
        let (comparison, number) = [
            (">=", Comparison::AtLeast),
            ("<=", Comparison::AtMost),
            (">", Comparison::Above),
            ("<", Comparison::Below),
        ]
        .into_iter()
        .find_map(|(sign, comparison)| Some((comparison, rest.strip_prefix(sign)?)))
        .ok_or_else(form)?;
        let (number, is_share) = match number.trim().strip_suffix('%') {
            Some(number) => (number.trim(), true),
            None => (number.trim(), false),
        };
        let bound = Decimal::parse(number).ok_or_else(|| GateError::Number(text.to_owned()))?;
        if !is_share && !bound.is_whole() {
            return Err(GateError::Fraction { gate: text.to_owned(), number: number.to_owned() });
        }
        let subject = subject.trim();
        let (subject, class) = match subject.split_once('{') {
            Some((subject, class)) => (subject, Some(class.strip_suffix('}').ok_or_else(form)?)),
            None => (subject, None),
        };
        let (policy, measure) = match subject.rsplit_once('.') {
            Some((policy, measure)) => (Some(policy), measure),
            None => (None, subject),
        };
        let scope = match (policy, class) {
            (None, None) => GateScope::All,
            (Some(policy), None) => GateScope::Policy(policy.to_owned()),
            (policy, Some(class)) => {
                GateScope::Class { policy: policy.map(str::to_owned), class: class.to_owned() }
            }
        };
        let measure = Measure::named(measure)
            .ok_or_else(|| GateError::Measure { gate: text.to_owned(), measure: measure.to_owned() })?;
        Ok(Self { text: text.to_owned(), scope, measure, comparison, bound, is_share })
    }
}

impl Measure {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "denied" => Self::Denied,
            "denied_clients" => Self::DeniedClients,
            "newly_denied" => Self::NewlyDenied,
            "newly_denied_clients" => Self::NewlyDeniedClients,
            "newly_allowed" => Self::NewlyAllowed,
            "undecided" => Self::Undecided,
            "unparsed" => Self::Unparsed,
            "late" => Self::Late,
            _ => return None,
        })
    }
}
