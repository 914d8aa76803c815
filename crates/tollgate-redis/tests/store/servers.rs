//! Stores for these tests, each with counters of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tollgate_redis::{RedisStore, RedisStoreBuilder};
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Served, Server, Settings, Software, SteeredServer};

/// A store that is patient, as a stall of a busy machine must not change a count.
pub(crate) fn store(server: &Server) -> RedisStoreBuilder {
    static STORES: AtomicU64 = AtomicU64::new(0);
    let prefix = format!("test-{}", STORES.fetch_add(1, Ordering::Relaxed));
    let url = format!("redis://testkit:testkit@{}", server.address());
    RedisStore::builder(url.parse().unwrap()).prefix(&prefix).deadline(Duration::from_secs(10))
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

/// A fresh store on a shared server.
pub(crate) fn served(software: Software) -> Served<RedisStore> {
    let server = shared(software);
    Served::new(build(store(&server)), server)
}

/// A fresh store on a server of its own whose clock is moved by hand. It remembers no denials: for how long it does
/// is told by this process's clock, which goes on while the server's stands still.
pub(crate) fn steered(software: Software) -> SteeredServer<RedisStore> {
    let server = Settings::new(software).steered_clock().start();
    SteeredServer::new(build(store(&server).local_denials(0)), server)
}
