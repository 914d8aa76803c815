//! The status of a store: which servers are connected, and whether they answer in time.

use std::time::Duration;

use crate::advice::Advice;
use crate::node::{Health, Node};
use crate::trouble::ConnectTrouble;
use crate::trouble::advice::on_unconnected;

/// The connection status of a store's servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStatus {
    servers: Box<[ServerStatus]>,
    late_replies: u64,
}

/// The connection status of a server. A server without a connection is retried continually.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    name: Box<str>,
    trying: Option<MissingConnection>,
    clock_offset: Option<i64>,
}

/// The reason for no connection, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MissingConnection {
    since: Duration,
    trouble: Box<str>,
    advice: Advice,
}

impl StoreStatus {
    pub(super) fn new(servers: Vec<ServerStatus>, late_replies: u64) -> Self {
        Self { servers: servers.into(), late_replies }
    }

    /// Returns the number of replies that came after their deadline. If it grows, the store is too slow for the
    /// deadline of a decision, but not down.
    #[must_use]
    pub const fn late_replies(&self) -> u64 {
        self.late_replies
    }

    /// Returns whether all servers with counters are connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.servers.iter().all(ServerStatus::is_connected)
    }

    /// Returns the servers that count. Never empty: if they are not known yet, one entry shows this.
    #[must_use]
    pub fn servers(&self) -> &[ServerStatus] {
        &self.servers
    }
}

impl ServerStatus {
    pub(super) fn of(node: &Node) -> Self {
        let trying = match node.health() {
            Health::Connected => None,
            Health::Trying { since, trouble } => Some(MissingConnection::new(since.elapsed(), &trouble)),
        };
        let clock_offset = node.lane().time().offset_millis();
        Self { name: node.address().to_string().into(), trying, clock_offset }
    }

    pub(super) fn unknown(name: &str, trouble: &ConnectTrouble) -> Self {
        Self {
            name: name.into(),
            trying: Some(MissingConnection::new(Duration::ZERO, trouble)),
            clock_offset: None,
        }
    }

    /// Returns its address, or a description if the address is not known.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether calls can be sent to it.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.trying.is_none()
    }

    /// Returns how long there has been no connection to it.
    #[must_use]
    pub fn trying_for(&self) -> Option<Duration> {
        self.trying.as_ref().map(|trying| trying.since)
    }

    /// Returns why there is no connection to it: the error of the last attempt. Contains no password and no key.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trying.as_ref().map(|trying| &*trying.trouble)
    }

    /// Returns by how many milliseconds its clock is ahead of this machine's; negative if it is behind. Windows open and
    /// close by its clock. An estimate from replies, as exact as a round trip is short; `None` before the first one.
    #[must_use]
    pub fn clock_offset_millis(&self) -> Option<i64> {
        self.clock_offset
    }

    /// Advice about that.
    #[must_use]
    pub fn advice(&self) -> Option<&Advice> {
        self.trying.as_ref().map(|trying| &trying.advice)
    }
}

impl MissingConnection {
    fn new(since: Duration, trouble: &ConnectTrouble) -> Self {
        Self { since, trouble: trouble.to_string().into(), advice: on_unconnected(trouble) }
    }
}
