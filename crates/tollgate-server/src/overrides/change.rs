//! Changes of overrides, and what comes of them.

use std::sync::Arc;

use thiserror::Error;
use tollgate::{StoreError, Timestamp};
use tollgate_policy::{InertReason, OverrideLimits, OverrideName, OverrideRecord, OverridesVersion};
use tollgate_redis::{RecordEnd, RecordMatch};

/// An override to be set.
#[derive(Debug, Clone)]
pub(crate) struct SetOverride {
    pub(crate) name: OverrideName,
    /// The written form of the policy's key.
    pub(crate) key: Box<str>,
    pub(crate) limits: OverrideLimits,
    pub(crate) end: RecordEnd,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) note: Option<Box<str>>,
    /// The principal.
    pub(crate) by: Option<Arc<str>>,
}

/// A change that is wanted.
#[derive(Debug)]
pub(super) struct WantedChange {
    pub(super) kind: WantedKind,
    pub(super) matching: RecordMatch,
}

#[derive(Debug)]
pub(super) enum WantedKind {
    Set(Box<SetOverride>),
    Delete(OverrideName),
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OverrideChange {
    /// The version that it has made.
    pub(crate) version: OverridesVersion,
    /// The override; `None` if it was deleted.
    pub(crate) record: Option<OverrideRecord>,
    /// Whether there was one of this name.
    pub(crate) existed: bool,
}

/// A change that was not made, or may not have been made.
#[derive(Debug, Error)]
pub(crate) enum OverridesError {
    /// Counters are in memory, and nothing keeps overrides.
    #[error(
        "this service has no place for overrides: start it with `--state-dir FOLDER`, or with counters in a shared store"
    )]
    NoPlace,
    /// There are no overrides.
    #[error("overrides are turned off (`--max-overrides 0`)")]
    Off,
    /// There are as many as there may be.
    #[error("there are {0} overrides, which is the maximum (`--max-overrides`): delete some")]
    TooMany(u64),
    /// The end is not after the store's time.
    #[error("the end has passed by the clock that decides")]
    EndPassed {
        /// Its time.
        now: Timestamp,
    },
    /// The override is not what the change requires.
    #[error("{}", mismatch(.current.is_some()))]
    Mismatch {
        /// The override, if there is one.
        current: Option<Box<OverrideRecord>>,
        /// The version of all overrides; number 0 if none was ever set.
        version: OverridesVersion,
    },
    /// The policy or the store cannot have it.
    #[error(transparent)]
    Unfit(InertReason),
    /// The store did not answer as it should.
    #[error("the store: {error}")]
    Store {
        error: StoreError,
        /// Whether the change may have been made.
        may_be_made: bool,
    },
    /// The change was made, but this process could not read it back.
    #[error("the change was made, but this process could not read it back from the store yet")]
    NotLive,
    /// The change was not taken to the disk.
    #[error("the disk: {error}")]
    Journal {
        error: Box<str>,
        /// Whether it may be there after a crash all the same.
        may_be_made: bool,
    },
}

impl OverridesError {
    /// Returns whether the change may have been made in spite of the error.
    pub(crate) const fn may_be_made(&self) -> bool {
        match self {
            Self::Store { may_be_made, .. } | Self::Journal { may_be_made, .. } => *may_be_made,
            Self::NotLive => true,
            _ => false,
        }
    }
}

const fn mismatch(exists: bool) -> &'static str {
    if exists { "the override is another one than the change requires" } else { "there is no such override" }
}

impl SetOverride {
    /// Returns the override as this change sets it.
    pub(super) fn into_record(self, until: Option<Timestamp>, at: Timestamp, version: u64) -> OverrideRecord {
        let Self { name, key, limits, label, note, by, end: _ } = self;
        OverrideRecord { name, key, limits, until, label, note, by, at, version }
    }
}

impl WantedKind {
    pub(super) fn name(&self) -> &OverrideName {
        match self {
            Self::Set(set) => &set.name,
            Self::Delete(name) => name,
        }
    }
}
