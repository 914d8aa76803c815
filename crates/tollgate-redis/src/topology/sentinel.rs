//! A primary that Sentinels name.
//!
//! The store listens to all sentinels: one that has a new primary announces it, and is then asked for the address. Only
//! while no sentinel can be listened to, they are asked every second.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::finder::Finder;
use super::listener::listen;
use super::primary_search::PrimarySearch;
use super::status::ServerStatus;
use crate::address::Address;
use crate::node::Node;
use crate::settings::CheckedSettings;
use crate::trouble::{ConnectTrouble, Trouble};

/// A primary that Sentinels name.
///
/// The Sentinels' answer is not enough: a server must itself report that it is the primary on every connection.
pub(crate) struct Sentinel {
    name: Box<str>,
    finder: Finder<Arc<Node>>,
    /// One task for each sentinel.
    _listeners: JoinSet<()>,
}

impl Sentinel {
    pub(super) fn start(sentinels: Vec<Address>, name: Box<str>, checked: Arc<CheckedSettings>) -> Self {
        let search = Arc::new(PrimarySearch::new(sentinels, &name, checked));
        let finder = Finder::start(Arc::clone(&search));
        let start = |sentinel: &Address| listen(sentinel.clone(), Arc::clone(&search), finder.again());
        let listeners = search.sentinels().iter().map(start).collect();
        Self { name, finder, _listeners: listeners }
    }

    pub(super) async fn primary(&self, deadline: Instant) -> Result<Arc<Node>, Trouble> {
        self.finder.found(deadline).await
    }

    /// The primary, if one is known by now.
    pub(super) fn primary_already(&self) -> Option<Arc<Node>> {
        self.finder.found_already()
    }

    /// Returns the primary, if it is not the server that was asked. Waits for the sentinels if there is time.
    pub(super) async fn resolve(&self, asked: &Arc<Node>, patience: Option<Instant>) -> Option<Arc<Node>> {
        let other =
            |primary: &Arc<Node>| Some(primary).filter(|primary| !Arc::ptr_eq(primary, asked)).cloned();
        match patience {
            Some(deadline) => self.finder.found_anew(deadline, other).await,
            None => {
                self.finder.look_again();
                self.finder.with_found(|primary| primary.and_then(other))
            }
        }
    }

    pub(super) fn status(&self) -> ServerStatus {
        match (self.finder.found_already(), self.finder.trouble()) {
            (Some(primary), _) => ServerStatus::of(&primary),
            (None, trouble) => ServerStatus::unknown(&self.name, &trouble.unwrap_or(ConnectTrouble::Untried)),
        }
    }
}
