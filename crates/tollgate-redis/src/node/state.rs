//! The state of a server: its connections, or the reason why there are none.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::{Mutex, Notify, watch};

use super::connection::Connection;
use crate::address::Address;
use crate::backoff::Backoff;
use crate::settings::CheckedSettings;
use crate::time::{Instant, instant};
use crate::trouble::ConnectTrouble;

/// What a server's handle, its exchanges and its keepers share.
pub(super) struct NodeState {
    pub(super) address: Address,
    pub(super) checked: Arc<CheckedSettings>,
    pub(super) links: watch::Sender<Links>,
    /// Held while connecting, so that there is one attempt at a time.
    pub(super) backoff: Mutex<Backoff>,
    pub(super) script: Script,
}

/// The working connections, and the reason if there are none.
pub(super) struct Links {
    pub(super) up: Vec<Arc<Link>>,
    /// The error of the last attempt, if there is no connection.
    pub(super) trouble: Option<ConnectTrouble>,
    /// The time since which there have been connections, or none.
    pub(super) since: Instant,
    /// Whether there was ever a connection.
    pub(super) was_up: bool,
}

/// A working connection.
pub(super) struct Link {
    pub(super) connection: Connection,
    /// Notified when the connection should be replaced.
    pub(super) renew: Notify,
}

/// Loads of the script, so that many calls without it load it once.
pub(super) struct Script {
    pub(super) loading: Mutex<()>,
    /// The number of times that it was loaded because a call missed it.
    pub(super) loads: AtomicU64,
}

impl Links {
    /// Returns the connection for calls: always the same while it works. One connection carries all that a server can
    /// count, and its memory stays in the caches of both sides.
    pub(super) fn first(&self) -> Result<Option<Arc<Link>>, ConnectTrouble> {
        match self.up.first() {
            Some(link) => Ok(Some(link.clone())),
            None => self.trouble.clone().map_or(Ok(None), Err),
        }
    }
}

impl NodeState {
    pub(super) fn new(address: Address, checked: Arc<CheckedSettings>) -> Self {
        let links = Links { up: Vec::new(), trouble: None, since: instant(), was_up: false };
        Self {
            address,
            links: watch::Sender::new(links),
            backoff: Mutex::new(Backoff::with_first(checked.settings.connections)),
            script: Script { loading: Mutex::new(()), loads: AtomicU64::new(0) },
            checked,
        }
    }

    pub(super) fn open(&self, link: Arc<Link>) {
        self.links.send_modify(|links| {
            if links.up.is_empty() {
                links.since = instant();
            }
            links.up.push(link);
            links.trouble = None;
            links.was_up = true;
        });
    }

    /// Stops using this connection. If it was the last one, calls fail with this error until there is another.
    pub(super) fn close(&self, link: &Arc<Link>, trouble: Option<ConnectTrouble>) {
        self.links.send_if_modified(|links| {
            let count = links.up.len();
            links.up.retain(|other| !Arc::ptr_eq(other, link));
            if links.up.len() == count {
                return false;
            }
            if links.up.is_empty() {
                links.trouble = trouble;
                links.since = instant();
            }
            true
        });
        // Only now: the task that keeps the connection closes it as well, and knows of no trouble.
        link.renew.notify_one();
    }

    pub(super) fn fail(&self, trouble: ConnectTrouble) {
        self.links.send_modify(|links| {
            // While there are other connections, calls go on over those.
            if links.up.is_empty() {
                links.trouble = Some(trouble);
            }
        });
    }

    pub(super) fn is_away(&self) -> bool {
        self.links.borrow().trouble.is_some()
    }
}
