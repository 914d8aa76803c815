//! Stores for these tests, each with counters of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tollgate::{StoreError, Timestamp};
use tollgate_redis::{AcrossSlots, RedisError, RedisStore, RedisStoreBuilder};
use tollgate_testkit::servers::{
    Cluster, FaultProxy, Server, ServerStore, Settings, Software, SteeredServer,
};
use tollgate_testkit::{StoreUnderTest, block_on};

/// A store that is patient, as a stall of a busy machine must not change a count.
pub(crate) fn store(server: &Server) -> RedisStoreBuilder {
    patient(&format!("redis://testkit:testkit@{}", server.address()))
}

/// A store as patient on the server behind a proxy.
pub(crate) fn behind(proxy: &FaultProxy) -> RedisStoreBuilder {
    patient(&format!("redis://testkit:testkit@{}", proxy.address()))
}

/// A store as patient on a cluster, of which it is told one node.
pub(crate) fn on_cluster(cluster: &Cluster) -> RedisStoreBuilder {
    patient(&format!("redis+cluster://testkit:testkit@{}", cluster.nodes()[0].address()))
}

fn patient(url: &str) -> RedisStoreBuilder {
    static STORES: AtomicU64 = AtomicU64::new(0);
    let prefix = format!("test-{}", STORES.fetch_add(1, Ordering::Relaxed));
    RedisStore::builder(url.parse().unwrap())
        .prefix(&prefix)
        .deadline(Duration::from_secs(30))
        .connect_timeout(Duration::from_secs(30))
}

/// What a server is in trouble with.
pub(crate) fn trouble(error: &StoreError) -> &RedisError {
    RedisError::of(error).unwrap_or_else(|| panic!("no trouble of a server: {error}"))
}

/// Whether there is no answer because of this trouble.
pub(crate) fn is<A>(answer: &Result<A, StoreError>, expected: RedisError) -> bool {
    answer.as_ref().is_err_and(|error| RedisError::of(error) == Some(&expected))
}

pub(crate) fn build(builder: RedisStoreBuilder) -> RedisStore {
    block_on(async { builder.build() }).unwrap()
}

/// A server that the tests of this process share.
pub(crate) fn shared(software: Software) -> Arc<Server> {
    static SERVERS: [OnceLock<Arc<Server>>; 2] = [const { OnceLock::new() }; 2];
    let index = Software::ALL.iter().position(|known| *known == software).unwrap();
    Arc::clone(SERVERS[index].get_or_init(|| Arc::new(Server::start(software))))
}

/// A cluster that the tests of this process share.
pub(crate) fn shared_cluster(software: Software) -> Arc<Cluster> {
    static CLUSTERS: [OnceLock<Arc<Cluster>>; 2] = [const { OnceLock::new() }; 2];
    let index = Software::ALL.iter().position(|known| *known == software).unwrap();
    Arc::clone(CLUSTERS[index].get_or_init(|| Arc::new(Cluster::start(software).calm())))
}

/// A store on a shared cluster.
pub(crate) struct Clustered {
    store: RedisStore,
    cluster: Arc<Cluster>,
}

/// A fresh store on a shared cluster, that takes requests across slots.
pub(crate) fn clustered(software: Software) -> Clustered {
    clustered_with(software, |builder| builder)
}

/// The same, told something besides.
pub(crate) fn clustered_with(
    software: Software,
    change: impl FnOnce(RedisStoreBuilder) -> RedisStoreBuilder,
) -> Clustered {
    let cluster = shared_cluster(software);
    let store = build(change(on_cluster(&cluster).across_slots(AcrossSlots::Reserve)));
    Clustered { store, cluster }
}

impl StoreUnderTest for Clustered {
    type Store = RedisStore;

    fn store(&self) -> &RedisStore {
        &self.store
    }

    /// All nodes have this machine's clock.
    async fn reach(&self, time: Timestamp) {
        let mut now = self.now().await;
        while now < time {
            tokio::time::sleep(time.since(now)).await;
            now = self.now().await;
        }
    }

    fn short_window(&self) -> Duration {
        Duration::from_millis(250)
    }

    fn remembers_ids_by_key(&self) -> bool {
        true
    }

    async fn now(&self) -> Timestamp {
        self.cluster.nodes()[0].time()
    }
}

/// A fresh store on a shared server.
pub(crate) fn served(software: Software) -> ServerStore<RedisStore> {
    served_with(software, |builder| builder)
}

/// The same, told something besides.
pub(crate) fn served_with(
    software: Software,
    change: impl FnOnce(RedisStoreBuilder) -> RedisStoreBuilder,
) -> ServerStore<RedisStore> {
    let server = shared(software);
    ServerStore::new(build(change(store(&server))), server)
}

/// A fresh store on a server of its own whose clock is moved by hand. It remembers no denials: for how long it does
/// is told by this process's clock, which goes on while the server's stands still.
pub(crate) fn steered(software: Software) -> SteeredServer<RedisStore> {
    steered_with(software, |builder| builder)
}

/// The same, told something besides.
pub(crate) fn steered_with(
    software: Software,
    change: impl FnOnce(RedisStoreBuilder) -> RedisStoreBuilder,
) -> SteeredServer<RedisStore> {
    let server = Settings::new(software).steered_clock().start();
    SteeredServer::new(build(change(store(&server).local_denials(0))), server)
}
