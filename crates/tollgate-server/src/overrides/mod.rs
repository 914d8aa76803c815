//! Overrides: limits for some requests of a policy that are changed while the service runs.
//!
//! ```text
//! http ──▶ Overrides ──▶ SharedKeeper ──▶ the store ──▶ follower ─┐
//!          set, delete └▶ JournalKeeper ─▶ a file ────────────────┴▶ PolicyLimiter
//! ```
//!
//! Whoever keeps them, a change is live in this process before it is answered. Decisions read the set of overrides that
//! is live in the limiter, and nothing here.

mod applied_change;
mod change;
mod counts;
mod inert_log;
mod journal;
mod journal_keeper;
mod paged_load;
mod reading;
mod setup;
mod shared;
mod status;
mod store_clock;
mod text;

use std::io;
use std::sync::Arc;

use tollgate::Timestamp;
use tollgate_policy::{OverrideName, PolicyLimiter};
use tollgate_redis::RecordMatch;

pub(crate) use self::change::{OverrideChange, OverridesError, SetOverride};
use self::change::{WantedChange, WantedKind};
use self::counts::ChangeCounts;
pub(crate) use self::inert_log::warn_of_inert;
pub use self::journal::{JournalDamage, JournalError, StateFolderError};
pub(crate) use self::journal::{OnDamage, OpenJournal};
use self::journal_keeper::JournalKeeper;
pub(crate) use self::reading::ReadOverrides;
use self::setup::OverridesClock;
pub(crate) use self::setup::{OverridesPlace, OverridesSetup};
use self::shared::SharedKeeper;
pub(crate) use self::status::OverridesStatus;
use crate::metrics::OverridesFigures;
use crate::store::ServedStore;

/// The name of the records in a store.
pub(crate) const RECORDS: &str = "overrides";

/// The number of overrides that there may be by default.
pub(crate) const DEFAULT_MAX: u32 = 1_000_000;

/// Keeps the overrides of a process.
pub(crate) struct Overrides {
    keeper: Keeper,
    /// `None` if domains decide, which have none.
    limiter: Option<Arc<PolicyLimiter<ServedStore>>>,
    counts: ChangeCounts,
}

enum Keeper {
    /// There are none.
    Off,
    /// Counters are in memory, and nothing keeps overrides.
    Nothing,
    Journal(JournalKeeper),
    Shared(Box<SharedKeeper>),
}

impl Overrides {
    /// Those of a service whose domains decide.
    pub(crate) fn none() -> Self {
        Self { keeper: Keeper::Off, limiter: None, counts: ChangeCounts::default() }
    }

    /// Makes the overrides of a file live in the limiter, which was made with the [empty set](OverridesSetup::empty_set).
    /// Those of a store are [still to be read](Self::run).
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub(crate) fn start(setup: OverridesSetup, limiter: Arc<PolicyLimiter<ServedStore>>) -> io::Result<Self> {
        let OverridesSetup { place, max, clock, .. } = setup;
        let keeper = match (place, clock) {
            (OverridesPlace::Journal(journal), OverridesClock::Memory(clock)) => {
                Keeper::Journal(JournalKeeper::start(*journal, Arc::clone(&limiter), clock, max)?)
            }
            (OverridesPlace::Shared(records), OverridesClock::Shared(clock)) => {
                Keeper::Shared(SharedKeeper::new(records, Arc::clone(&limiter), clock, max).into())
            }
            (OverridesPlace::Nothing, _) => Keeper::Nothing,
            _ => Keeper::Off,
        };
        Ok(Self { keeper, limiter: Some(limiter), counts: ChangeCounts::default() })
    }

    /// Sets an override, if the one that there is matches. Once this returns, it is live in this process.
    pub(crate) async fn set(
        &self,
        set: SetOverride,
        matching: RecordMatch,
    ) -> Result<OverrideChange, OverridesError> {
        let fits = self.expect_fit(&set);
        let made = match fits {
            Ok(()) => self.change(WantedKind::Set(set.into()), matching).await,
            Err(unfit) => Err(unfit),
        };
        self.counts.count(&made);
        made
    }

    /// Deletes an override, if there is one and it matches. Once this returns, it applies no more in this process.
    pub(crate) async fn delete(
        &self,
        name: &OverrideName,
        matching: RecordMatch,
    ) -> Result<OverrideChange, OverridesError> {
        let made = self.change(WantedKind::Delete(name.clone()), matching).await;
        self.counts.count(&made);
        made
    }

    /// Checks that there can be overrides.
    ///
    /// # Errors
    ///
    /// If they are turned off, or nothing keeps them.
    pub(crate) const fn available(&self) -> Result<(), OverridesError> {
        match self.keeper {
            Keeper::Off => Err(OverridesError::Off),
            Keeper::Nothing => Err(OverridesError::NoPlace),
            Keeper::Journal(_) | Keeper::Shared(_) => Ok(()),
        }
    }

    /// Returns whether they are those of all processes that share them.
    pub(crate) fn status(&self) -> OverridesStatus {
        let version = self.limiter.as_ref().and_then(|limiter| limiter.live().overrides().version());
        match &self.keeper {
            Keeper::Shared(keeper) => keeper.status(version),
            _ => OverridesStatus { version, is_stale: false, age: None, trouble: None },
        }
    }

    /// Waits until the overrides of a store are live, or until they cannot be read, for ten seconds at most.
    pub(crate) async fn first_read(&self) {
        if let Keeper::Shared(keeper) = &self.keeper {
            keeper.first_read().await;
        }
    }

    /// Logs those that apply to nothing under the policies of the start.
    pub(crate) fn warn_of_inert(&self) {
        if let Some(limiter) = &self.limiter {
            warn_of_inert(None, limiter.live().overrides());
        }
    }

    /// Keeps them in step with the store, and deletes those that have ended, until it is dropped.
    pub(crate) async fn run(&self) {
        match &self.keeper {
            Keeper::Shared(keeper) => keeper.follow().await,
            Keeper::Journal(keeper) => keeper.keep_sweeping().await,
            Keeper::Off | Keeper::Nothing => {}
        }
    }

    /// Returns figures for metrics; `None` if there can be no overrides.
    pub(crate) fn figures(&self) -> Option<OverridesFigures> {
        let limiter = self.limiter.as_ref()?;
        let loads = match &self.keeper {
            Keeper::Off | Keeper::Nothing => return None,
            Keeper::Journal(_) => None,
            Keeper::Shared(keeper) => Some(keeper.loads()),
        };
        let overrides = limiter.live().overrides().len();
        let OverridesStatus { version, is_stale, age, .. } = self.status();
        Some(OverridesFigures { overrides, version, is_stale, age, changes: self.counts.all(), loads })
    }

    fn expect_fit(&self, set: &SetOverride) -> Result<(), OverridesError> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        let (live, record) = (limiter.live(), set.clone().into_record(None, Timestamp::EPOCH, 0));
        live.overrides().expect_fit(&record, live.policies()).map_err(OverridesError::Unfit)
    }

    async fn change(
        &self,
        kind: WantedKind,
        matching: RecordMatch,
    ) -> Result<OverrideChange, OverridesError> {
        let wanted = WantedChange { kind, matching };
        match &self.keeper {
            Keeper::Off => Err(OverridesError::Off),
            Keeper::Nothing => Err(OverridesError::NoPlace),
            Keeper::Journal(keeper) => keeper.change(wanted).await,
            Keeper::Shared(keeper) => keeper.change(wanted).await,
        }
    }
}

#[cfg(test)]
mod tests;
