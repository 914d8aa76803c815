//! A primary that Sentinels name.
//!
//! The store listens to all sentinels: one that has a new primary announces it, and is then asked for the address. Only
//! while no sentinel can be listened to, they are asked every second.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::finder::{Find, Finder};
use super::listener::listen;
use super::status::ServerStatus;
use crate::address::Address;
use crate::node::{Node, PeerRole, ask_once};
use crate::resp::{Command, FromReply, RespValue, command};
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

pub(super) struct Search {
    sentinels: Vec<Address>,
    command: Command,
    pub(super) checked: Arc<CheckedSettings>,
    /// The primary that was named last.
    last: Mutex<Option<Arc<Node>>>,
    /// The sentinel with the latest announcement, which has newer information than the others.
    newest: Mutex<Option<Address>>,
    /// The number of sentinels that are listened to. It guards no other memory.
    listened_to: AtomicUsize,
}

/// A sentinel is listened to until this is dropped.
pub(super) struct ListeningGuard<'a>(&'a Search);

impl Sentinel {
    pub(super) fn start(sentinels: Vec<Address>, name: Box<str>, checked: Arc<CheckedSettings>) -> Self {
        let command = command("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&*name);
        let (last, newest, listened_to) = Default::default();
        let search = Arc::new(Search { sentinels, command, checked, last, newest, listened_to });
        let finder = Finder::start(Arc::clone(&search));
        let start = |sentinel: &Address| listen(sentinel.clone(), Arc::clone(&search), finder.again());
        let listeners = search.sentinels.iter().map(start).collect();
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

impl Find for Search {
    type Found = Arc<Node>;

    /// A primary that was cut off from the others, and from the sentinels, keeps accepting writes that will be lost.
    /// Learning of a new one immediately, or asking this often, bounds the time in which we send such writes.
    fn keeps(&self) -> Option<Duration> {
        (self.listened_to.load(Relaxed) == 0).then_some(Duration::from_secs(1))
    }

    async fn find(&self) -> Result<Arc<Node>, ConnectTrouble> {
        let mut sentinels: Vec<_> = self.sentinels.iter().collect();
        fastrand::shuffle(&mut sentinels);
        let newest = lock(&self.newest).take();
        sentinels.sort_by_key(|sentinel| Some(*sentinel) != newest.as_ref());
        let mut trouble = ConnectTrouble::NoPrimary;
        for sentinel in sentinels {
            let sentinel_trouble = |other| ConnectTrouble::OfSentinel(sentinel.clone(), Box::new(other));
            match ask_once(sentinel, PeerRole::Sentinel, &self.checked, &self.command).await {
                Ok(RespValue::Nil) => trouble = ConnectTrouble::NoPrimary,
                Ok(told) => match address(sentinel, told) {
                    Some(primary) => return Ok(self.node(primary)),
                    None => trouble = sentinel_trouble(ConnectTrouble::Unfit("a sentinel names no address")),
                },
                Err(other) => trouble = sentinel_trouble(other),
            }
        }
        Err(trouble)
    }
}

impl Search {
    /// Records that a sentinel is listened to.
    pub(super) fn listens(&self) -> ListeningGuard<'_> {
        self.listened_to.fetch_add(1, Relaxed);
        ListeningGuard(self)
    }

    /// Makes the next search for the primary ask this sentinel first.
    pub(super) fn ask_first(&self, sentinel: &Address) {
        *lock(&self.newest) = Some(sentinel.clone());
    }

    /// Returns the existing node if it is still the primary.
    fn node(&self, primary: Address) -> Arc<Node> {
        let mut last = lock(&self.last);
        match &*last {
            Some(node) if *node.address() == primary => node.clone(),
            _ => last.insert(Arc::new(Node::start(primary, self.checked.clone()))).clone(),
        }
    }
}

impl Drop for ListeningGuard<'_> {
    fn drop(&mut self) {
        self.0.listened_to.fetch_sub(1, Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds it can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn address(sentinel: &Address, told: RespValue) -> Option<Address> {
    let (host, port) = <(String, i64)>::from_reply(told)?;
    sentinel.at(&host, u16::try_from(port).ok()?)
}
