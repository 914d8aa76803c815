//! The state of the store, for `/readyz`.

use tollgate::{Charge, Key, MemoryStore, PolicyQuota, Quota, Step, Store, StoreError};
use tollgate_redis::RedisStore;

use super::{Metered, patience};

/// A store that can report its state.
pub(crate) trait ServedStore: Store {
    /// Returns the current state of the store. Each of its servers is asked to count a test counter.
    fn state(&self) -> impl Future<Output = StoreState> + Send;

    /// Runs a call of several steps. If the store has a deadline, they share it.
    fn in_one_call<T>(&self, call: impl Future<Output = T> + Send) -> impl Future<Output = T> + Send {
        call
    }
}

/// A store on one server or many.
pub(crate) trait OnServers: Store {
    /// Returns keys whose counters cover all servers, one on each.
    fn key_on_each_server(&self, quota: &PolicyQuota) -> Vec<Key<'static>>;
}

/// Whether decisions come from the store.
#[derive(Debug, Clone)]
pub(crate) enum StoreState {
    /// Yes.
    Answers,
    /// Some come from the failure policies, if at all, because this many servers do not count.
    FailsInPart(StoreError, Servers),
    /// They come from the failure policies, if at all. The store returned this error.
    Fails(StoreError),
}

/// The number of servers concerned, and of all servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Servers {
    pub(crate) failed: usize,
    pub(crate) all: usize,
}

impl ServedStore for MemoryStore {
    async fn state(&self) -> StoreState {
        StoreState::Answers
    }
}

impl<S: OnServers> ServedStore for Metered<S> {
    async fn state(&self) -> StoreState {
        // A name that no user's policy can have, and a limit that is never reached.
        let probe = PolicyQuota::new("tollgate readiness", Quota::per_second(u32::MAX));
        let keys = self.key_on_each_server(&probe);
        let charges: Vec<_> = keys.iter().map(|key| [Charge::new(&probe, key, 1)]).collect();
        let steps: Vec<Step<'_>> = charges.iter().map(|charge| Step::Charge(charge)).collect();
        // This writes, because a store that is full, cannot save, or lacks replicas still answers reads.
        let answers = self.step_each(&steps).await;
        let all = answers.len();
        let mut errors = answers.into_iter().filter_map(Result::err);
        let Some(error) = errors.next() else { return StoreState::Answers };
        let failed = 1 + errors.count();
        if failed < all {
            StoreState::FailsInPart(error, Servers { failed, all })
        } else {
            StoreState::Fails(error)
        }
    }

    fn in_one_call<T>(&self, call: impl Future<Output = T> + Send) -> impl Future<Output = T> + Send {
        patience::in_one_call(call)
    }
}

impl<S: OnServers> OnServers for Metered<S> {
    fn key_on_each_server(&self, quota: &PolicyQuota) -> Vec<Key<'static>> {
        self.inner().key_on_each_server(quota)
    }
}

impl OnServers for RedisStore {
    fn key_on_each_server(&self, quota: &PolicyQuota) -> Vec<Key<'static>> {
        Self::key_on_each_server(self, quota)
    }
}
