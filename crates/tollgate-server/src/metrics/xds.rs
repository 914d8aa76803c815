//! The state of the client of xDS, for metrics and operations.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tollgate::{Clock, SystemClock, Timestamp};

/// The longest version that is reported; servers choose versions.
const MAX_VERSION: usize = 128;

/// The state of the client. Every access is relaxed: the figures are independent and guard no other memory.
#[derive(Debug)]
pub(crate) struct XdsStatus {
    server: Box<str>,
    is_connected: AtomicBool,
    accepted: AtomicU64,
    rejected: AtomicU64,
    last: Mutex<Option<AcceptedUpdate>>,
}

/// An update that became live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AcceptedUpdate {
    /// The server's name for it.
    pub(crate) version: Box<str>,
    pub(crate) at: Timestamp,
}

impl XdsStatus {
    /// Creates the status of a client that is not connected to this server.
    pub(crate) fn new(server: &str) -> Self {
        let (is_connected, accepted, rejected, last) = Default::default();
        Self { server: server.into(), is_connected, accepted, rejected, last }
    }

    /// Returns the URL of the server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }

    /// Returns the number of updates by outcome.
    pub(crate) fn updates(&self) -> [(&'static str, u64); 2] {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [("accepted", count(&self.accepted)), ("rejected", count(&self.rejected))]
    }

    /// Returns the last update that was accepted.
    pub(crate) fn last_accepted(&self) -> Option<AcceptedUpdate> {
        // No change under this lock can be left half made.
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes whether the client is connected.
    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.is_connected.store(is_connected, Ordering::Relaxed);
    }

    pub(crate) fn note_accepted(&self, version: &str) {
        let version = version.chars().take(MAX_VERSION).collect::<String>().into();
        let update = AcceptedUpdate { version, at: SystemClock.now() };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(update);
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }
}
