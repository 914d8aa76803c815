//! The parts of a service that its overrides need.

use std::sync::Arc;

use tollgate::ManualClock;
use tollgate_redis::{KeyIdentity, SharedRecords};

use crate::overrides::{OverridesPlace, OverridesSetup};
use crate::settings::{OverrideSettings, OverridesKeeping};
use crate::store::fit::StoreFit;

/// See the [module](self).
pub(super) struct OverrideParts {
    pub(super) settings: OverrideSettings,
    /// Those of a shared store.
    pub(super) store: Option<StoredOverrides>,
    pub(super) test_clock: Option<ManualClock>,
}

/// Overrides in a shared store.
pub(super) struct StoredOverrides {
    pub(super) records: SharedRecords,
    /// The form of keys in the store.
    pub(super) identity: KeyIdentity,
}

impl OverrideParts {
    /// Returns the setup of overrides with limits that the store can count.
    pub(super) fn setup(self, fit: StoreFit) -> OverridesSetup {
        let Self { settings, store, test_clock } = self;
        let (records, identity) = store.map(|store| (store.records, store.identity)).unzip();
        let place = match (settings.keeping, records) {
            (OverridesKeeping::Journal(journal), _) => OverridesPlace::Journal(journal),
            (OverridesKeeping::Store, Some(records)) => OverridesPlace::Shared(records),
            (OverridesKeeping::Nothing, _) => OverridesPlace::Nothing,
            (OverridesKeeping::Off | OverridesKeeping::Store, _) => OverridesPlace::Off,
        };
        // Counters in memory do not show keys, and names of overrides never do.
        let identity = identity.unwrap_or(KeyIdentity::Digest);
        OverridesSetup::new(place, settings.max, identity, Arc::new(fit), test_clock)
    }
}
