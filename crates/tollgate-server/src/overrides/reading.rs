//! Overrides that are read once, for a command that decides nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{StoreError, SystemClock, Timestamp};
use tollgate_policy::{OverrideSet, Policies};
use tollgate_redis::{KeyIdentity, SharedRecords};

use super::journal::{self, JournalError};
use super::paged_load::PagedLoad;
use super::setup::{OverridesPlace, OverridesSetup};
use crate::store::fit::StoreFit;

/// How long a page of a store may take.
const PAGE: Duration = Duration::from_secs(10);

/// The overrides of a service, as they were at one time.
pub(crate) struct ReadOverrides {
    pub(crate) set: OverrideSet,
    /// The store's time.
    pub(crate) now: Timestamp,
}

impl ReadOverrides {
    /// Reads those in a shared store. Records that are no overrides apply to nothing.
    ///
    /// # Errors
    ///
    /// If the store does not answer.
    pub(crate) async fn of_store(
        records: SharedRecords,
        identity: KeyIdentity,
        fit: StoreFit,
        policies: &Policies,
    ) -> Result<Self, StoreError> {
        let setup = OverridesSetup::new(OverridesPlace::Off, 0, identity, Arc::new(fit), None);
        let mut load = PagedLoad::new(&setup.empty_set(), policies);
        let mut pages = records.loading();
        let whole = loop {
            if let Some(whole) = load.apply(pages.next(PAGE).await?) {
                break whole;
            }
        };
        let (set, _) = load.finish(whole.state.version());
        Ok(Self { set, now: whole.now })
    }

    /// Reads those in a folder, which a service may be using.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub(crate) fn of_folder(folder: &Path, policies: &Policies) -> Result<Self, JournalError> {
        let fit = Arc::new(StoreFit::of_memory());
        let setup = OverridesSetup::new(OverridesPlace::Off, 0, KeyIdentity::Digest, fit, None);
        let mut loading = setup.empty_set().loading(policies);
        let version = journal::read(folder, |record| loading.set(record))?;
        let set = loading.finish().at_version(version);
        Ok(Self { set, now: tollgate::Clock::now(&SystemClock) })
    }
}
