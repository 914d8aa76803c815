//! Where overrides are kept, and how they are understood, before they are read.

use std::fmt;
use std::sync::Arc;

use tollgate::{Clock, ManualClock, SystemClock};
use tollgate_policy::{OverrideFit, OverrideSet};
use tollgate_redis::{KeyIdentity, SharedRecords};

use super::journal::OpenJournal;
use super::store_clock::StoreClock;

/// What keeps the overrides.
pub(crate) enum OverridesPlace {
    /// Nothing: there are none.
    Off,
    /// Nothing: counters are in memory, and there is no folder.
    Nothing,
    Journal(Box<OpenJournal>),
    Shared(SharedRecords),
}

/// See the [module](self).
pub(crate) struct OverridesSetup {
    pub(super) place: OverridesPlace,
    /// How many there may be.
    pub(super) max: u64,
    /// How keys become targets.
    identity: KeyIdentity,
    /// Which limits the store can count.
    fit: Arc<dyn OverrideFit>,
    pub(super) clock: OverridesClock,
}

/// The clock by which overrides end.
#[derive(Clone)]
pub(super) enum OverridesClock {
    /// That of this machine, or of tests.
    Memory(Arc<dyn Clock>),
    /// An estimate of the store's.
    Shared(Arc<StoreClock>),
}

impl OverridesSetup {
    /// Of counters in memory, tests may have a clock of their own.
    pub(crate) fn new(
        place: OverridesPlace,
        max: u32,
        identity: KeyIdentity,
        fit: Arc<dyn OverrideFit>,
        test_clock: Option<ManualClock>,
    ) -> Self {
        let clock = match (&place, test_clock) {
            (OverridesPlace::Shared(_), _) => OverridesClock::Shared(Arc::default()),
            (_, Some(clock)) => OverridesClock::Memory(Arc::new(clock)),
            (_, None) => OverridesClock::Memory(Arc::new(SystemClock)),
        };
        Self { place, max: max.into(), identity, fit, clock }
    }

    /// Returns a set without overrides, from which all others are made.
    pub(crate) fn empty_set(&self) -> OverrideSet {
        let identity = self.identity.clone();
        let clock: Arc<dyn Clock> = match &self.clock {
            OverridesClock::Memory(clock) => Arc::clone(clock),
            OverridesClock::Shared(clock) => Arc::<StoreClock>::clone(clock),
        };
        let digest = move |key: &tollgate::Key<'_>| identity.digest_bits(key);
        OverrideSet::new(Arc::new(digest), clock).with_fit(Arc::clone(&self.fit))
    }
}

impl fmt::Debug for OverridesPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "Off",
            Self::Nothing => "Nothing",
            Self::Journal(_) => "Journal",
            Self::Shared(_) => "Shared",
        })
    }
}
