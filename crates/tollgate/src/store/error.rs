//! The errors of stores.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::Timestamp;

/// The reason why a store could not answer. It is never a denial; the caller chooses what to do.
///
/// Nothing was charged, unless [`may_have_charged`](Self::may_have_charged) is true. No store repeats a charge whose
/// outcome is unknown.
#[derive(Debug, Clone)]
pub enum StoreError {
    /// The store failed: it is unreachable, late, answers nonsense or the like. The cause is the error's
    /// [source](Error::source), of a type that the store defines. A retry may help.
    /// [`OnStoreFailure`](crate::OnStoreFailure) decides how the request is answered.
    #[non_exhaustive]
    Trouble {
        /// The cause.
        source: Arc<dyn Error + Send + Sync>,
        /// Whether units may have been charged without an answer.
        may_have_charged: bool,
        /// Whether other requests probably fail as well. If not, the failure concerns only this request or its key.
        is_outage: bool,
        /// The place of a remote store, such as `10.0.0.1:6379`, as configured. If the store has several servers, this
        /// does not show which one failed.
        place: Option<Arc<str>>,
    },
    /// The store can never count this request, whatever its state; the text gives the reason. The fault of the caller
    /// or of the configuration. A retry does not help, and no policy for outages applies.
    Uncountable(&'static str),
    /// The store holds its maximum number of counters, and none for the key. Existing counters keep working. A retry
    /// helps once a counter ends. See the [guide](crate::guide#when-the-store-is-full).
    Full,
    /// The step was to be taken before an end ([`Step::ChargeBefore`](crate::Step::ChargeBefore),
    /// [`HoldTerms::before`](crate::HoldTerms::before)) that the store's time has reached. Nothing was changed. Nobody's
    /// fault: the caller decides again, with the limits that apply from then on. No policy for outages applies.
    Ended {
        /// The store's time.
        now: Timestamp,
    },
}

/// The store is at its cap and holds no counter for the key: the only error of a limiter in memory.
///
/// Existing counters keep working, and a retry helps once a counter ends. See the
/// [guide](crate::guide#when-the-store-is-full).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[error("the store is full: no room for another counter")]
pub struct Full;

/// The reason why a store in memory did not take a step. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum MemoryError {
    /// There is no room: see [`StoreError::Full`].
    #[error(transparent)]
    Full(#[from] Full),
    /// The step came too late: see [`StoreError::Ended`].
    #[error("the store's time has reached the end before which the step was to be taken")]
    Ended {
        /// The store's time.
        now: Timestamp,
    },
}

/// A wrong or missing answer, as the caller of the store sees it. Units may have been charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// No answer came before the deadline. The fault of the store or of the network. The store may have charged, or may
    /// still charge, so a retry may charge twice, unless the error [says otherwise](StoreError::may_have_charged): a
    /// peek charges nothing.
    #[error("no answer from the store in time")]
    Late,
    /// No working store gives this answer to this step. The fault of the store; a retry seldom helps.
    #[error("the store's answer makes no sense")]
    Nonsense,
}

impl StoreError {
    /// Creates the error of a failure after which nothing was charged.
    pub fn trouble(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Trouble { source: Arc::new(source), may_have_charged: false, is_outage: true, place: None }
    }

    /// Creates the error of a failure after which it is unknown whether something was charged.
    pub fn unknown(source: impl Error + Send + Sync + 'static) -> Self {
        Self::Trouble { source: Arc::new(source), may_have_charged: true, is_outage: true, place: None }
    }

    /// Marks the error of a request whose earlier steps were executed: counters were changed.
    #[must_use]
    pub fn after_others(self) -> Self {
        match self {
            Self::Trouble { source, is_outage, place, .. } => {
                Self::Trouble { source, may_have_charged: true, is_outage, place }
            }
            certain => Self::unknown(certain).for_one_key(),
        }
    }

    /// Marks the failure of a step that [changes nothing](crate::Step::changes_nothing): nothing was charged, even if
    /// no answer came.
    #[must_use]
    pub fn with_nothing_charged(self) -> Self {
        match self {
            Self::Trouble { source, is_outage, place, .. } => {
                Self::Trouble { source, may_have_charged: false, is_outage, place }
            }
            other => other,
        }
    }

    /// Marks a failure that concerns only the requested key: the store counts others, so this is not an
    /// [outage](Self::is_outage). Other errors stay the same.
    #[must_use]
    pub fn for_one_key(self) -> Self {
        match self {
            Self::Trouble { source, may_have_charged, place, .. } => {
                Self::Trouble { source, may_have_charged, is_outage: false, place }
            }
            other => other,
        }
    }

    /// Sets the place of the failed store, for operators: host and port, without user and password. Other errors stay
    /// the same.
    ///
    /// The message of the error, and of every error that shows it, then names the place. Do not send it to clients.
    ///
    /// ```
    /// use tollgate::{AnswerError, StoreError};
    ///
    /// let error = StoreError::trouble(AnswerError::Late).at("10.0.0.1:6379");
    /// assert_eq!(error.to_string(), "the store at 10.0.0.1:6379 could not count");
    /// ```
    #[must_use]
    pub fn at(self, place: impl Into<Arc<str>>) -> Self {
        match self {
            Self::Trouble { source, may_have_charged, is_outage, place: None } => {
                Self::Trouble { source, may_have_charged, is_outage, place: Some(place.into()) }
            }
            other => other,
        }
    }

    /// Returns whether units may have been charged without an answer, or given back or forgotten, depending on the
    /// step.
    ///
    /// ```
    /// use tollgate::{AnswerError, StoreError};
    ///
    /// assert!(StoreError::from(AnswerError::Late).may_have_charged());
    /// assert!(!StoreError::Full.may_have_charged());
    /// ```
    #[must_use]
    pub const fn may_have_charged(&self) -> bool {
        matches!(self, Self::Trouble { may_have_charged: true, .. })
    }

    /// Returns whether other requests probably fail as well: the store is unreachable, late or the like. A full store,
    /// a step after its end, a request that can never be counted, and a failure of [one key](Self::for_one_key) are not
    /// outages.
    ///
    /// ```
    /// use tollgate::{AnswerError, StoreError};
    ///
    /// let error = StoreError::trouble(AnswerError::Nonsense);
    /// assert!(error.is_outage());
    /// assert!(!error.for_one_key().is_outage());
    /// assert!(!StoreError::Full.is_outage() && !StoreError::Full.after_others().is_outage());
    /// ```
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(self, Self::Trouble { is_outage: true, .. })
    }

    /// Returns the cause of the failure, if it is an error of this type.
    ///
    /// ```
    /// use tollgate::{AnswerError, StoreError};
    ///
    /// let error = StoreError::from(AnswerError::Late);
    /// assert_eq!(error.trouble_of(), Some(&AnswerError::Late));
    /// assert_eq!(StoreError::Full.trouble_of::<AnswerError>(), None);
    /// ```
    #[must_use]
    pub fn trouble_of<E: Error + 'static>(&self) -> Option<&E> {
        self.source()?.downcast_ref()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trouble { may_have_charged, place, .. } => {
                let at = if place.is_some() { " at " } else { "" };
                let place = place.as_deref().unwrap_or_default();
                if *may_have_charged {
                    write!(f, "the store{at}{place} may or may not have counted this request")
                } else {
                    write!(f, "the store{at}{place} could not count")
                }
            }
            Self::Uncountable(reason) => write!(f, "the store can never count this request: {reason}"),
            Self::Full => Full.fmt(f),
            Self::Ended { now } => MemoryError::Ended { now: *now }.fmt(f),
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // The error itself and not its pointer, so that it can be downcast.
            Self::Trouble { source, .. } => Some(&**source),
            Self::Uncountable(_) | Self::Full | Self::Ended { .. } => None,
        }
    }
}

impl From<Full> for StoreError {
    fn from(_: Full) -> Self {
        Self::Full
    }
}

impl From<MemoryError> for StoreError {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Full(full) => full.into(),
            MemoryError::Ended { now } => Self::Ended { now },
        }
    }
}

impl From<AnswerError> for StoreError {
    fn from(error: AnswerError) -> Self {
        Self::unknown(error)
    }
}
