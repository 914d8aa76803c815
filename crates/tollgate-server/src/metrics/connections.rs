//! Connections of each listener: those that are open, had to wait, or were refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The number of open connections of a listener. Clones share it.
///
/// Every access is relaxed: the counts are independent and guard no other memory.
#[derive(Debug, Clone)]
pub(crate) struct OpenConnections {
    listener: &'static str,
    open: Arc<AtomicI64>,
    /// Connections that had to wait because the listener was full.
    full: Arc<AtomicU64>,
    /// Connections that were closed because their client had too many.
    refused: Arc<AtomicU64>,
}

/// One connection, which counts as open until the value is dropped.
pub(crate) struct OpenConnection(Arc<AtomicI64>);

impl OpenConnections {
    pub(super) fn new(listener: &'static str) -> Self {
        Self { listener, open: Arc::default(), full: Arc::default(), refused: Arc::default() }
    }

    pub(crate) fn listener(&self) -> &'static str {
        self.listener
    }

    /// Returns the number of open connections.
    pub(crate) fn count(&self) -> i64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Counts a connection that waits until another one ends.
    pub(crate) fn full(&self) {
        self.full.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that is closed because its client has too many.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn full_count(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    pub(super) fn refused_count(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts another open connection.
    pub(crate) fn one(&self) -> OpenConnection {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(&self.open))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
