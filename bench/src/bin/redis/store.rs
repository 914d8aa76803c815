//! The store: a separate server on core 0.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use tollgate_bench_harness::affinity::pin_this_thread;
use tollgate_bench_harness::cpu_time::cpu_time;
use tollgate_redis::{RedisStore, RedisStoreBuilder};
use tollgate_testkit::servers::{Server, Software, cluster_of_one};

/// The core of the store.
pub(crate) const STORE: usize = 0;

/// The limit for a decision, so long that a machine that is busy for a moment fails no bench.
pub(crate) const DEADLINE: Duration = Duration::from_secs(2);

pub(crate) struct Store {
    server: Server,
    /// Whether the keys of a call must share a slot.
    has_slots: bool,
    process: u32,
}

impl Store {
    pub(crate) fn start(software: Software) -> Result<Self> {
        Self::of(false, || Server::start(software))
    }

    /// Starts a node of a Cluster that has all its slots.
    pub(crate) fn start_with_slots(software: Software) -> Result<Self> {
        Self::of(true, || cluster_of_one(software))
    }

    fn of(has_slots: bool, start: impl FnOnce() -> Server) -> Result<Self> {
        pin_this_thread(STORE)?;
        let server = start();
        let process = server.info("process_id").parse().context("no number of the store's process")?;
        Ok(Self { server, has_slots, process })
    }

    /// Returns the URL for a client that follows no redirection.
    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.server.address())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub(crate) fn builder(&self) -> Result<RedisStoreBuilder> {
        self.builder_at(self.address())
    }

    /// Returns the builder of a store that is reached at another address.
    pub(crate) fn builder_at(&self, address: SocketAddr) -> Result<RedisStoreBuilder> {
        let scheme = if self.has_slots { "redis+cluster" } else { "redis" };
        Ok(RedisStore::builder(format!("{scheme}://{address}").parse()?).deadline(DEADLINE))
    }

    /// Returns the user and system time so far.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        cpu_time(self.process)
    }

    /// Returns the number of script calls so far.
    pub(crate) fn script_calls(&self) -> u64 {
        self.server.calls_of("evalsha")
    }

    pub(crate) fn used_bytes(&self) -> Result<u64> {
        self.server.info("used_memory").parse().context("no number of used bytes")
    }

    pub(crate) fn keys(&self) -> u64 {
        self.server.command(["DBSIZE"])
    }
}
