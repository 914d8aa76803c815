//! The reason why there is no report.

use std::fmt;

use tollgate_logs::Error as LogError;
use tollgate_simulate::{ClassError, GateError, ReplayError};

use crate::args::exit_status::{NO_DECISION, USAGE};

/// The reason why there is no report, and the exit status of the command.
#[derive(Debug)]
pub struct SimulateFailure {
    status: u8,
    error: anyhow::Error,
}

impl SimulateFailure {
    /// The arguments, or the files that they name, are wrong.
    pub(super) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { status: USAGE, error: error.into() }
    }

    /// The logs give no answer.
    pub(super) fn no_answer(error: impl Into<anyhow::Error>) -> Self {
        Self { status: NO_DECISION, error: error.into() }
    }

    /// Returns the exit status.
    #[must_use]
    pub const fn status(&self) -> u8 {
        self.status
    }
}

/// With `{:#}`, with all causes.
impl fmt::Display for SimulateFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl From<LogError> for SimulateFailure {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Pattern { .. }
            | LogError::NoFile { .. }
            | LogError::EmptyFolder { .. }
            | LogError::Open { .. }
            | LogError::StdinTwice
            | LogError::UnknownFormat { .. }
            | LogError::NoClient { .. }
            | LogError::UnclearClient { .. }
            | LogError::UnclearFormat { .. }
            | LogError::OtherFormat { .. }
            | LogError::NoField { .. }
            | LogError::NoZone { .. } => Self::usage(error),
            _ => Self::no_answer(error),
        }
    }
}

impl From<ReplayError> for SimulateFailure {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::TooManyPairs { .. } => Self::usage(error),
            _ => Self::no_answer(error),
        }
    }
}

impl From<GateError> for SimulateFailure {
    fn from(error: GateError) -> Self {
        Self::usage(error)
    }
}

impl From<ClassError> for SimulateFailure {
    fn from(error: ClassError) -> Self {
        Self::usage(error)
    }
}

impl From<tollgate_policy::ConfigError> for SimulateFailure {
    fn from(error: tollgate_policy::ConfigError) -> Self {
        Self::usage(error)
    }
}
