//! Requests across slots of a Cluster: all or nothing in the end, whoever races, denies, goes away or dies.

mod answers;
mod races;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tollgate::{Charge, CountDenied, Key, PolicyQuota, QuotaStates, StoreError};
use tollgate_redis::{AcrossSlots, KeyIdentity, RedisStore, RedisStoreBuilder};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::servers::{Cluster, SLOTS, Server};

use crate::servers::on_cluster;

/// Two keys that are counted by different primaries, under quotas of their own; the first one's slot is asked first.
#[derive(Clone)]
struct Pair {
    quotas: [Arc<PolicyQuota>; 2],
    names: [String; 2],
    keys: [Key<'static>; 2],
    slots: [u16; 2],
}

impl Pair {
    /// Windows of ten years do not end during a test, as those of an hour do now and then.
    fn new(cluster: &Cluster, quotas: [&str; 2]) -> Self {
        let slot = |name: &String| cluster.slot_of(&format!("{{{name}}}"));
        let named_in = |third: u16| {
            let slots = third * (SLOTS / 3) + 1..(third + 1) * (SLOTS / 3);
            (0..).map(|user| format!("user-{user}")).find(|name| slots.contains(&slot(name))).unwrap()
        };
        let names = [named_in(0), named_in(2)];
        Self {
            quotas: quotas.map(|text| Arc::new(PolicyQuota::new("pair", text.parse().unwrap()))),
            keys: names.each_ref().map(|name| Key::from(name.as_str()).into_owned()),
            slots: names.each_ref().map(slot),
            names,
        }
    }

    fn count_denied(self) -> Self {
        let counting = |quota: Arc<PolicyQuota>| {
            Arc::new(PolicyQuota::clone(&quota).with_count_denied(CountDenied::Yes))
        };
        Self { quotas: self.quotas.map(counting), ..self }
    }

    /// One of them is an overdraft.
    fn overdraft(mut self, index: usize) -> Self {
        let quota = PolicyQuota::clone(&self.quotas[index]).with_count_denied(CountDenied::Overdraft);
        self.quotas[index] = Arc::new(quota);
        self
    }

    fn first(&self, cost: u32) -> Charge<'_> {
        Charge::new(&self.quotas[0], &self.keys[0], cost)
    }

    fn second(&self, cost: u32) -> Charge<'_> {
        Charge::new(&self.quotas[1], &self.keys[1], cost)
    }

    /// What the first one's counter is called.
    fn first_name(&self, prefix: &str) -> String {
        format!("{prefix}:1:pair:{}:{{{}}}", self.quotas[0].windows(), self.names[0])
    }

    fn servers<'a>(&self, cluster: &'a Cluster) -> [&'a Server; 2] {
        self.slots.map(|slot| cluster.primary_of(slot))
    }

    /// One unit of both.
    async fn charge(&self, store: &RedisStore) -> Result<QuotaStates, StoreError> {
        store.charge(&[self.first(1), self.second(1)]).await
    }

    /// As [`charge`](Self::charge), in the background.
    fn begin(&self, store: &RedisStore) -> JoinHandle<Result<QuotaStates, StoreError>> {
        let (pair, store) = (self.clone(), store.clone());
        tokio::spawn(async move { pair.charge(&store).await })
    }

    /// What is used of both. Looks that fail are repeated for a while.
    async fn used(&self, store: &RedisStore) -> [u64; 2] {
        let mut used = [0; 2];
        for (used, charge) in used.iter_mut().zip([self.first(0), self.second(0)]) {
            let look = async || store.peek(&[charge]).await.map(|counted| counted[0].used());
            *used = eventually(look).await;
        }
        used
    }

    /// Comes back once so much is used of the first, as its server says.
    async fn first_is(&self, server: &Server, prefix: &str, expected: u64) {
        let name = self.first_name(prefix);
        eventually(async || {
            let used = server.count(&name).unwrap_or(0);
            if used == expected { Ok(()) } else { Err(format!("{used} used, and not {expected}")) }
        })
        .await;
    }

    /// Comes back once so much is used of both.
    async fn both_are(&self, store: &RedisStore, expected: [u64; 2]) {
        eventually(async || {
            let used = self.used(store).await;
            if used == expected { Ok(()) } else { Err(format!("{used:?} used, and not {expected:?}")) }
        })
        .await;
    }
}

/// One that reserves, with keys that can be read.
fn reserving(cluster: &Cluster, prefix: &str) -> RedisStoreBuilder {
    on_cluster(cluster).prefix(prefix).identity(KeyIdentity::Plain).across_slots(AcrossSlots::Reserve)
}

/// What is used of each quota, and whether it had room.
fn stands(counted: &QuotaStates) -> Vec<(u64, bool)> {
    counted.iter().map(|state| (state.used(), state.has_room())).collect()
}

/// Asks until it goes well, for a minute.
pub(crate) async fn eventually<T, E: std::fmt::Display>(mut ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    for _ in 0..6_000 {
        if let Ok(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ask().await.unwrap_or_else(|error| panic!("{error}"))
}
