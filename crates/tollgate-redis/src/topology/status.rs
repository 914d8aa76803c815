//! Which servers are connected, for whoever asks whether the store is ready, and whether they answer in time.

use std::time::Duration;

use crate::doctor::{Advice, advice};
use crate::node::{Health, Node};
use crate::trouble::Unconnected;

/// Which servers of a store are connected, as of now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStatus {
    servers: Box<[ServerStatus]>,
    late_replies: u64,
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
    pub(super) fn new(servers: Vec<ServerStatus>, late_replies: u64) -> Self {
        Self { servers: servers.into(), late_replies }
    }

    /// How many replies came so far for which nobody waited any more. Where they grow, the store is too slow for the
    /// deadline of a decision, and not away.
    #[must_use]
    pub const fn late_replies(&self) -> u64 {
        self.late_replies
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
