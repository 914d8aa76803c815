//! Errors of a server, as callers see them.

use thiserror::Error;
use tollgate::StoreError;

use crate::advice::{Advice, NEARER};

/// The failure of a server: the source of a [`StoreError::Trouble`] of a [`RedisStore`](crate::RedisStore).
///
/// ```
/// use tollgate::StoreError;
/// use tollgate_redis::RedisError;
///
/// let error = StoreError::from(RedisError::TimedOut);
/// assert!(error.may_have_charged());
/// assert_eq!(RedisError::of(&error), Some(&RedisError::TimedOut));
/// assert_eq!(RedisError::of(&StoreError::Full), None);
/// // The store counts other keys.
/// assert!(error.is_outage() && !StoreError::from(RedisError::WrongType).is_outage());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum RedisError {
    /// There is no connection to the server, or its last calls were not answered and nothing is sent until it answers
    /// again. The fault of the server or of the network; a retry helps once it is back.
    #[error("the store cannot be reached")]
    Unreachable,
    /// The server answers, but cannot count now: it is loading its data, runs another program's slow script, elects a
    /// new primary, moves the key to another server of the Cluster, has too few replicas or cannot save, or its clock
    /// and ours name different windows, however often it is asked. A retry helps once that is over.
    #[error("the store is not ready to count")]
    NotReady,
    /// Too many requests were waiting for the server, so this one was not sent in time. The fault of the load or of a
    /// slow server; a retry helps once the load is lower.
    #[error("too many requests to the store are waiting")]
    Overloaded,
    /// No answer came in time, or the connection broke before one came. Whether the server charged, or still
    /// will, is unknown: a retry may charge twice, unless the step [charges nothing](StoreError::may_have_charged).
    #[error("no answer from the store")]
    TimedOut,
    /// The server answers, but only after the deadline: its last replies came too late. Whether it charged is unknown,
    /// as with [`TimedOut`](Self::TimedOut). The fault of a slow server or network, or of a deadline that is too short
    /// for them.
    #[error("the store answered too late")]
    TooSlow,
    /// The key of a counter holds something other than a count. The fault of the program that wrote it; a retry helps
    /// once the counter is reset.
    #[error("the key of a counter holds something other than a count")]
    WrongType,
    /// The server is at its memory limit and refuses to write. The fault of its configuration; a retry helps once it
    /// has room.
    #[error("the store is out of memory")]
    OutOfMemory,
    /// The user or the password is wrong, or the user lacks rights for counting. The fault of the configuration on
    /// either side; a retry helps once that is changed.
    #[error("the store denies access: the user or password is wrong, or a right is missing")]
    AccessDenied,
    /// The server or its URL is not set up for counting; the text describes the problem. The fault of the configuration
    /// on either side; a retry helps once that is changed.
    #[error("the store is misconfigured: {0}")]
    Misconfigured(&'static str),
    /// The server refuses the script that counts, or stopped it half way. The fault of its configuration or ours;
    /// a retry does not help. Whether it charged is unknown.
    #[error("the store rejects the counting script")]
    ScriptRefused,
    /// The answer makes no sense. The fault of the server, or of something else that listens at its address; a
    /// retry seldom helps. Whether it charged is unknown.
    #[error("the store's answer makes no sense")]
    BadReply,
}

impl RedisError {
    /// Returns the server's failure that this error contains, if any.
    #[must_use]
    pub fn of(error: &StoreError) -> Option<&Self> {
        error.trouble_of()
    }

    /// Returns advice, if the error alone is enough for it. [`ServerStatus`](crate::ServerStatus) shows more about a
    /// server.
    #[must_use]
    pub const fn advice(self) -> Option<Advice> {
        match self {
            Self::TooSlow => Some(NEARER),
            _ => None,
        }
    }

    /// Returns whether a step that charges may have charged units without an answer. A [`StoreError`] knows the step as
    /// well: see [`StoreError::may_have_charged`].
    #[must_use]
    pub const fn may_have_charged(self) -> bool {
        match self {
            Self::TimedOut | Self::TooSlow | Self::ScriptRefused | Self::BadReply => true,
            Self::Unreachable
            | Self::NotReady
            | Self::Overloaded
            | Self::WrongType
            | Self::OutOfMemory
            | Self::AccessDenied
            | Self::Misconfigured(_) => false,
        }
    }
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        match error {
            RedisError::WrongType => Self::trouble(error).for_one_key(),
            error if error.may_have_charged() => Self::unknown(error),
            error => Self::trouble(error),
        }
    }
}
