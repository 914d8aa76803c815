//! How the store is: asked for by `/readyz`.

use tollgate::{Charge, Key, MemoryStore, OnStoreFailure, PolicyQuota, Quota, Store, StoreError};
use tollgate_redis::RedisStore;

use super::{Metered, Shared};

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreState {
    /// They do.
    Answers,
    /// Some come from the policy, if it makes any, because these of the servers do not count.
    FailsInPart(Failure, Servers),
    /// They come from the policy, if it makes any.
    Fails(Failure),
}

/// What a store gave instead of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) error: StoreError,
    /// What that means.
    pub(crate) on_failure: OnStoreFailure,
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

impl<S: OnServers> ServedStore for Shared<S> {
    async fn state(&self) -> StoreState {
        // A name that no policy of a user's can have, and a limit that is never reached.
        let probe = PolicyQuota::new("tollgate readiness", Quota::per_second(u32::MAX));
        let keys = self.store().key_on_each_server(&probe);
        let charges: Vec<_> = keys.iter().map(|key| [Charge::new(&probe, key, 1)]).collect();
        let requests: Vec<&[Charge<'_>]> = charges.iter().map(|charge| &charge[..]).collect();
        // Under the policy, which would answer in any case. It is written, because a store that is full, cannot save
        // or misses its replicas goes on to answer who only reads.
        let answers = self.store().charge_each(&requests).await;
        let all = answers.len();
        let mut errors = answers.into_iter().filter_map(Result::err);
        let Some(error) = errors.next() else { return StoreState::Answers };
        let (failure, failed) = (Failure { error, on_failure: self.on_failure() }, 1 + errors.count());
        if failed < all {
            StoreState::FailsInPart(failure, Servers { failed, all })
        } else {
            StoreState::Fails(failure)
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
