//! How the store is: asked for by `/readyz`.

use tollgate::{Charge, Key, MemoryStore, PolicyQuota, Quota, Step, Store, StoreError};
use tollgate_redis::RedisStore;

use super::Metered;

/// A store that says how it is.
pub(crate) trait ServedStore: Store {
    /// How the store is now. Each of its servers is asked to count something that is nobody's.
    fn state(&self) -> impl Future<Output = StoreState> + Send;
}

/// A store on one server or many.
pub(crate) trait OnServers: Store {
    /// Keys whose counters lie on all servers, one on each.
    fn key_on_each_server(&self, quota: &PolicyQuota) -> Vec<Key<'static>>;
}

/// Whether decisions come from the store.
#[derive(Debug, Clone)]
pub(crate) enum StoreState {
    /// They do.
    Answers,
    /// Some come from the policies, where those make any, because these of the servers do not count.
    FailsInPart(StoreError, Servers),
    /// They come from the policies, where those make any; this is what the store gave instead of an answer.
    Fails(StoreError),
}

/// So many of so many.
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
        // A name that no policy of a user's can have, and a limit that is never reached.
        let probe = PolicyQuota::new("tollgate readiness", Quota::per_second(u32::MAX));
        let keys = self.key_on_each_server(&probe);
        let charges: Vec<_> = keys.iter().map(|key| [Charge::new(&probe, key, 1)]).collect();
        let steps: Vec<Step<'_>> = charges.iter().map(|charge| Step::Charge(charge)).collect();
        // It is written, because a store that is full, cannot save or misses its replicas goes on to answer who only
        // reads.
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
