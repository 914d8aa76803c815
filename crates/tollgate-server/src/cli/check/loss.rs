//! Why a command no longer holds.

use std::fmt;

use crate::cli::client::ClientError;

/// Why a command no longer holds.
#[derive(Debug)]
pub(super) enum Loss {
    /// Its units were reset, or the store lost them.
    Lost,
    /// It expired.
    Expired,
    /// Somebody settled it.
    Ended,
    /// The service did not renew it for its whole length. The last error says why, if there was any.
    Unrenewed(Option<ClientError>),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "the hold is lost: its units were reset, or the store lost them",
            Self::Expired => "the hold has expired",
            Self::Ended => "the hold was settled by somebody else",
            Self::Unrenewed(error) => {
                f.write_str("the service did not renew the hold, which has expired")?;
                return error.iter().try_for_each(|error| write!(f, ": {error}"));
            }
        })
    }
}
