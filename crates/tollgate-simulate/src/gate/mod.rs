//! Gates: conditions on a report, so that a change of policies can be refused.
//!
//! ```text
//! text ──parse──▶ Gate ──place──▶ policy, class ──measure──▶ part of a whole ──check──▶ GateResult
//! ```

mod check;
mod error;
mod measure;
mod parse;
mod place;

use std::fmt;

pub use self::check::{Certainty, GateResult, GateVerdict, MeasuredValue};
pub use self::error::GateError;
pub(crate) use self::place::KnownNames;
use crate::decimal::Decimal;

/// A condition under which a change fails, such as `denied > 0.1%`, `login.denied_clients > 0`, `denied{bot} > 5%` or
/// `login.denied_clients{known} > 0`.
///
/// # Examples
///
/// ```
/// use tollgate_simulate::Gate;
///
/// let gate: Gate = "login.denied_clients > 0".parse()?;
/// assert_eq!(gate.to_string(), "login.denied_clients > 0");
/// let error = "login.denied_client > 0".parse::<Gate>().unwrap_err();
/// assert!(error.to_string().contains("denied_clients"), "{error}");
/// # Ok::<(), tollgate_simulate::GateError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    text: String,
    scope: GateScope,
    measure: Measure,
    comparison: Comparison,
    bound: Decimal,
    is_share: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum GateScope {
    All,
    Policy(String),
    /// Requests in a class: of all policies, or of one.
    Class {
        policy: Option<String>,
        class: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Denied,
    DeniedClients,
    NewlyDenied,
    NewlyDeniedClients,
    NewlyAllowed,
    Undecided,
    Unparsed,
    Late,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Gate {
    /// Returns how many requests it should have for an answer, unless somebody knows better: 1,000 if it is about all
    /// requests. One policy or class may see few, and still deny the wrong ones, so there it is 1.
    #[must_use]
    pub const fn usual_requests(&self) -> u64 {
        if matches!(self.scope, GateScope::All) { 1_000 } else { 1 }
    }

    /// Whether it is about what policies decide, so that other requests say nothing.
    const fn is_of_decisions(&self) -> bool {
        !matches!(self.measure, Measure::Undecided | Measure::Unparsed | Measure::Late)
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
