//! Whether the service runs or drains: one flag that every connection sees.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Set once, when the first signal comes. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phase(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    draining: AtomicBool,
    changed: Notify,
}

impl Phase {
    pub(crate) fn is_draining(&self) -> bool {
        // Relaxed, here and below: the flag guards no other memory, and a connection that sees it a moment
        // later only answers one request more.
        self.0.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn drain(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
        self.0.changed.notify_waiters();
    }

    /// Waits until the service drains.
    pub(crate) async fn draining(&self) {
        let mut changed = pin!(self.0.changed.notified());
        // Listening before looking: a change between the two is not missed.
        changed.as_mut().enable();
        if !self.is_draining() {
            changed.await;
        }
    }
}
