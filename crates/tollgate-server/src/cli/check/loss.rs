//! Why a command no longer holds.

use std::fmt;

/// Why a command no longer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// Its units were reset, or the store lost them.
    Lost,
    /// It expired.
    Expired,
    /// Somebody settled it.
    Ended,
    /// The service did not answer for its whole length.
    Unanswered,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "the hold is lost: its units were reset, or the store lost them",
            Self::Expired => "the hold has expired",
            Self::Ended => "the hold was settled by somebody else",
            Self::Unanswered => "the service did not renew the hold, which has expired",
        })
    }
}
