//! How the store is: asked for by `/readyz`.

use tollgate::{Charge, Key, MemoryStore, PolicyQuota, Quota, Store, StoreError};

use super::Metered;

/// A store that says how it is.
pub(crate) trait ServedStore: Store {
    /// How the store is now. It is asked to count something that is nobody's.
    fn state(&self) -> impl Future<Output = StoreState> + Send;
}

/// Whether decisions come from the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreState {
    /// They do.
    Answers,
    /// They come from the policies, where those make any; this is what the store gave instead of an answer.
    Fails(StoreError),
}

impl ServedStore for MemoryStore {
    async fn state(&self) -> StoreState {
        StoreState::Answers
    }
}

impl<S: Store> ServedStore for Metered<S> {
    async fn state(&self) -> StoreState {
        let (probe, key) = (PolicyQuota::new("readiness", Quota::per_second(1)), Key::from("readiness"));
        // It is written, because a store that is full, cannot save or misses its replicas goes on to answer who only
        // reads.
        match self.record(&Charge::new(&probe, &key, 1)).await {
            Ok(_) => StoreState::Answers,
            Err(error) => StoreState::Fails(error),
        }
    }
}
