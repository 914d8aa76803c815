//! The memory store as a subject, under a manual clock and under the system clock.

use std::time::Duration;

use tollgate::{Clock, ManualClock, MemoryStore, SystemClock, Timestamp};

use crate::{CappedStore, SettableClock, StoreUnderTest};

/// A memory store whose clock stands still until it is set.
#[derive(Debug)]
pub struct ManualMemory {
    store: MemoryStore<ManualClock>,
    clock: ManualClock,
}

impl ManualMemory {
    /// Creates one with the default cap.
    #[must_use]
    pub fn new() -> Self {
        Self::with_max_counters(MemoryStore::new().max_counters())
    }
}

impl Default for ManualMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl StoreUnderTest for ManualMemory {
    type Store = MemoryStore<ManualClock>;

    fn store(&self) -> &Self::Store {
        &self.store
    }

    async fn reach(&self, time: Timestamp) {
        self.clock.set(time.max(self.clock.now()));
    }

    fn short_window(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl SettableClock for ManualMemory {
    fn set_time(&self, time: Timestamp) {
        self.clock.set(time);
    }
}

impl CappedStore for ManualMemory {
    fn with_max_counters(max_counters: usize) -> Self {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(max_counters).build();
        Self { store, clock }
    }
}

/// A memory store on the system clock. Like a server's, its time can only be waited for.
#[derive(Debug, Default)]
pub struct SystemMemory(MemoryStore);

impl SystemMemory {
    /// Creates an empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl StoreUnderTest for SystemMemory {
    type Store = MemoryStore;

    fn store(&self) -> &MemoryStore {
        &self.0
    }

    async fn reach(&self, time: Timestamp) {
        // A sleep may end before the wall clock gets there.
        while SystemClock.now() < time {
            tokio::time::sleep(time.since(SystemClock.now())).await;
        }
    }

    fn short_window(&self) -> Duration {
        Duration::from_millis(250)
    }
}
