//! The search for a primary at its Sentinels.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::finder::Find;
use crate::address::Address;
use crate::node::{Node, PeerRole, ask_once};
use crate::resp::{Command, FromReply, RespValue, command};
use crate::settings::CheckedSettings;
use crate::trouble::ConnectTrouble;

/// The search for the primary with one name, at all its sentinels.
pub(super) struct PrimarySearch {
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
pub(super) struct ListeningGuard<'a>(&'a PrimarySearch);

impl PrimarySearch {
    pub(super) fn new(sentinels: Vec<Address>, name: &str, checked: Arc<CheckedSettings>) -> Self {
        let command = command("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        let (last, newest, listened_to) = Default::default();
        Self { sentinels, command, checked, last, newest, listened_to }
    }

    pub(super) fn sentinels(&self) -> &[Address] {
        &self.sentinels
    }

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

impl Find for PrimarySearch {
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
                Ok(reply) => match address(sentinel, reply) {
                    Some(primary) => return Ok(self.node(primary)),
                    None => trouble = sentinel_trouble(ConnectTrouble::Unfit("a sentinel names no address")),
                },
                Err(other) => trouble = sentinel_trouble(other),
            }
        }
        Err(trouble)
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

fn address(sentinel: &Address, reply: RespValue) -> Option<Address> {
    let (host, port) = <(String, i64)>::from_reply(reply)?;
    sentinel.at(&host, u16::try_from(port).ok()?)
}
