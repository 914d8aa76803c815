//! `tollgate override`: sets, shows, lists and deletes the overrides of a running service.
//!
//! `request` has what is asked, `answer` reads the service's answers, and `listing` goes through the pages of a list. The
//! service checks what is asked; nothing is checked twice.

mod answer;
mod change;
mod listing;
mod request;
mod shown;

use thiserror::Error;
use tollgate_policy::Printable;

use crate::args::OverrideCommand;
use crate::args::exit_status::{FAILURE, NO_DECISION, SUCCESS, USAGE};
use crate::cli::client::ClientError;

/// Why a command about overrides did nothing, or may have done something.
#[derive(Debug, Error)]
pub enum OverrideCommandError {
    /// The key has an attribute twice; the fault of the arguments.
    #[error("`--key`: the attribute `{}` is given twice", Printable(.0))]
    Twice(String),
    /// The key is global and has attributes; the fault of the arguments.
    #[error("`--key`: `global` is a whole key, so no attribute can be added to it")]
    GlobalKey,
    /// The target has no override.
    #[error("{0}")]
    Absent(String),
    /// The override is not as `--if-match` or `--if-absent` expects it. Nothing was changed.
    #[error("{0}")]
    Changed(String),
    /// There is no answer, and nothing was changed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A change was sent, and whether it was made is not known.
    #[error("{0}. The change may have been made: `tollgate override get` with the same target shows it")]
    Unknown(ClientError),
}

impl OverrideCommandError {
    /// Returns the exit status for this error.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Absent(_) | Self::Changed(_) => FAILURE,
            Self::Twice(_) | Self::GlobalKey => USAGE,
            Self::Client(error) if error.is_of_arguments() => USAGE,
            Self::Client(_) | Self::Unknown(_) => NO_DECISION,
        }
    }
}

/// Returns the exit status for an outcome.
#[must_use]
pub fn exit_status(outcome: &Result<(), OverrideCommandError>) -> u8 {
    outcome.as_ref().map_or_else(OverrideCommandError::exit_status, |()| SUCCESS)
}

/// Runs the command. Returns the text to print, and the outcome.
///
/// Nothing is retried: a change whose answer was lost may have been made, and another principal may have made the next
/// one.
pub async fn run(command: &OverrideCommand) -> (String, Result<(), OverrideCommandError>) {
    match command {
        OverrideCommand::Set(args) => change::set(args).await,
        OverrideCommand::Delete(args) => change::delete(args).await,
        OverrideCommand::Get(args) => shown::get(args).await,
        OverrideCommand::List(args) => listing::list(args).await,
    }
}
