//! Stores on real servers, for the conformance suite.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Store, Timestamp};

use super::Server;
use crate::{SettableClock, StoreUnderTest};

/// A store on a server whose time can only be waited for.
///
/// Several may use one server, under prefixes of their own.
#[derive(Debug)]
pub struct ServerStore<S> {
    store: S,
    server: Arc<Server>,
}

impl<S: Store> ServerStore<S> {
    /// A fresh store that counts on this server.
    pub const fn new(store: S, server: Arc<Server>) -> Self {
        Self { store, server }
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }
}

impl<S: Store> StoreUnderTest for ServerStore<S> {
    type Store = S;

    fn store(&self) -> &S {
        &self.store
    }

    async fn reach(&self, time: Timestamp) {
        let mut now = self.server.time();
        while now < time {
            tokio::time::sleep(time.since(now)).await;
            now = self.server.time();
        }
    }

    fn short_window(&self) -> Duration {
        Duration::from_millis(250)
    }

    async fn now(&self) -> Timestamp {
        self.server.time()
    }
}

/// A store on a server of its own, whose clock stands still until it is set.
#[derive(Debug)]
pub struct SteeredServer<S> {
    store: S,
    server: Server,
}

impl<S: Store> SteeredServer<S> {
    /// A fresh store that counts on this server, whose clock is stopped.
    ///
    /// # Panics
    ///
    /// If the server was not started with [`steered_clock`](super::Settings::steered_clock).
    pub fn new(store: S, server: Server) -> Self {
        server.clock().set(server.time());
        Self { store, server }
    }

    /// The server.
    pub const fn server(&self) -> &Server {
        &self.server
    }
}

impl<S: Store> StoreUnderTest for SteeredServer<S> {
    type Store = S;

    fn store(&self) -> &S {
        &self.store
    }

    async fn reach(&self, time: Timestamp) {
        self.server.clock().set(time.max(self.server.time()));
    }

    fn short_window(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn remembers_closed(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn now(&self) -> Timestamp {
        self.server.time()
    }
}

impl<S: Store> SettableClock for SteeredServer<S> {
    fn set_time(&self, time: Timestamp) {
        self.server.clock().set(time);
    }
}
