//! Why a gate is no gate.

use thiserror::Error;

/// A gate that is invalid, or about something that the report does not have. The user can correct it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GateError {
    /// It has no comparison.
    #[error("gate `{0}`: expected [POLICY.]MEASURE[{{CLASS}}] > NUMBER[%], such as 'denied > 0.1%'")]
    Form(String),
    /// There is no such measure.
    #[error(
        "gate `{gate}`: unknown measure `{measure}`: expected denied, denied_clients, newly_denied, \
         newly_denied_clients, newly_allowed, undecided, unparsed or late"
    )]
    Measure {
        /// The gate.
        gate: String,
        /// What it asks for.
        measure: String,
    },
    /// The comparison is not followed by a number of at least 0.
    #[error("gate `{0}`: expected a number from 0 with up to 12 decimals, or a percentage such as 0.1%")]
    Number(String),
    /// The number is compared with a count, which has no fractions.
    #[error("gate `{gate}`: {number} is no count; for a share, write {number}%")]
    Fraction {
        /// The gate.
        gate: String,
        /// The number.
        number: String,
    },
    /// The measure is not counted for a policy or a class.
    #[error("gate `{gate}`: only {known} can be measured for {scope}")]
    Unmeasured {
        /// The gate.
        gate: String,
        /// What it asks about.
        scope: &'static str,
        /// The measures of this subject.
        known: &'static str,
    },
    /// There is no such policy.
    #[error("gate `{gate}`: no policy `{policy}`: expected one of {known}")]
    UnknownPolicy {
        /// The gate.
        gate: String,
        /// The name.
        policy: String,
        /// The known names.
        known: String,
    },
    /// There is no such class.
    #[error("gate `{gate}`: no class `{class}`; --class makes one, and --known the class `known`")]
    UnknownClass {
        /// The gate.
        gate: String,
        /// The name.
        class: String,
    },
    /// Nothing is compared.
    #[error("gate `{0}`: new denials are only known with --baseline")]
    NoBaseline(String),
}
