//! Which servers are connected, for whoever asks whether the store is ready.

use std::time::Duration;

use crate::doctor::{Advice, advice};
use crate::node::{Health, Node};
use crate::trouble::Unconnected;

/// Which servers of a store are connected, as of now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStatus {
    servers: Box<[ServerStatus]>,
}

/// Whether one server is connected. One that is not is tried again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    name: Box<str>,
    trying: Option<Trying>,
}

/// Why there is no connection, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Trying {
    since: Duration,
    trouble: Box<str>,
    advice: Advice,
}

impl StoreStatus {
    pub(super) fn new(servers: Vec<ServerStatus>) -> Self {
        Self { servers: servers.into() }
    }

    /// Whether all servers that count are connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.servers.iter().all(ServerStatus::is_connected)
    }

    /// The servers that count. Never empty: where it is not known yet who counts, there is one that says so.
    #[must_use]
    pub fn servers(&self) -> &[ServerStatus] {
        &self.servers
    }
}

impl ServerStatus {
    pub(super) fn of(node: &Node) -> Self {
        let trying = match node.health() {
            Health::Connected => None,
            Health::Trying { since, trouble } => Some(Trying::new(since.elapsed(), &trouble)),
        };
        Self { name: node.address().to_string().into(), trying }
    }

    pub(super) fn unknown(name: &str, trouble: &Unconnected) -> Self {
        Self { name: name.into(), trying: Some(Trying::new(Duration::ZERO, trouble)) }
    }

    /// Its address; or what is looked for, where the address is not known.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether calls can be sent to it.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.trying.is_none()
    }

    /// How long there has been no connection to it.
    #[must_use]
    pub fn trying_for(&self) -> Option<Duration> {
        self.trying.as_ref().map(|trying| trying.since)
    }

    /// Why there is no connection to it: what the last attempt ran into. Holds no password and no key.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trying.as_ref().map(|trying| &*trying.trouble)
    }

    /// What can be done about that.
    #[must_use]
    pub fn advice(&self) -> Option<&Advice> {
        self.trying.as_ref().map(|trying| &trying.advice)
    }
}

impl Trying {
    fn new(since: Duration, trouble: &Unconnected) -> Self {
        Self { since, trouble: trouble.to_string().into(), advice: advice::on_unconnected(trouble) }
    }
}
