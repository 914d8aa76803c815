//! The store that the service counts in: this process's memory, or a shared one, metered, with a policy above it.
//!
//! ```text
//! engine ──▶ MemoryStore
//! engine ──▶ FallbackStore ──▶ Metered ──▶ a shared store
//!            the policy for    deadline, metrics,
//!            its trouble       log lines
//! ```

mod metered;
mod settings;
mod state;

use tollgate::{FallbackStore, MemoryStore, OnStoreFailure, Store};

pub(crate) use self::metered::Metered;
pub(crate) use self::settings::{SharedSettings, StoreSettings};
pub(crate) use self::state::{Failure, ServedStore, Servers, StoreState};

/// A shared store under the service.
pub(crate) type Shared<S> = FallbackStore<Metered<S>>;

/// The store with a policy for its trouble, which counts in this memory if it counts.
pub(crate) fn shared<S: Store>(
    store: Metered<S>,
    on_failure: OnStoreFailure,
    memory: MemoryStore,
) -> Shared<S> {
    FallbackStore::new(store, on_failure).memory(memory)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tollgate::{Charge, Key, PolicyQuota, Source};
    use tollgate_redis::RedisStore;
    use tollgate_testkit::{Fault, FaultyStore, block_on};

    use super::*;
    use crate::metrics::StoreMetrics;

    /// The deadline was above what measures, which was dropped with the step and never learned of it.
    #[test]
    fn a_store_that_does_not_keep_its_deadline_is_noted() {
        let nobody =
            block_on(async { RedisStore::builder("unix:/nowhere".parse().unwrap()).build() }).unwrap();
        let metrics = Arc::new(StoreMetrics::new(move || nobody.status()));
        let store = FaultyStore::new(MemoryStore::new());
        store.begin(Fault::Hangs);
        let timeout = Duration::from_millis(20);
        let metered = Metered::new(store, timeout, OnStoreFailure::Open, Arc::clone(&metrics));
        let shared = shared(metered, OnStoreFailure::Open, MemoryStore::new());
        let (quota, key) = (PolicyQuota::new("test", "5/1h".parse().unwrap()), Key::from("alice"));
        let counted = block_on(shared.charge(&[Charge::new(&quota, &key, 1)])).unwrap();
        assert_eq!(counted[0].source(), Source::Fallback);
        assert!(!metrics.is_up());
    }
}
