//! What the service wants of a connection: that it ends because the service drains, or that it makes room.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::http::Budget;
use crate::metrics::OpenConnections;

/// Whether the service drains, which is set once, when the first signal comes. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phase {
    drain: Arc<Drain>,
    crowd: Option<Crowd>,
}

/// The connections of one listener, how many of them are many, and the memory that all of them share.
#[derive(Debug, Clone)]
struct Crowd {
    open: OpenConnections,
    many: u32,
    budget: Budget,
}

/// What is wanted of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Nothing.
    None,
    /// Those that are idle are to make room for others.
    Crowd,
    /// All are to end.
    Drain,
}

#[derive(Debug, Default)]
struct Drain {
    /// Whether load balancers are to send nothing more, because the drain comes.
    leaving: AtomicBool,
    draining: AtomicBool,
    changed: Notify,
}

impl Crowd {
    fn is_crowded(&self) -> bool {
        self.open.count() >= i64::from(self.many) || self.budget.is_scarce()
    }
}

impl Phase {
    /// The phase as the connections of one listener see it, of which there may be so many.
    pub(crate) fn of_listener(&self, open: OpenConnections, max_connections: u32, budget: Budget) -> Self {
        // The last sixteenth is kept free of those who only hold a place.
        let many = max_connections - max_connections / 16;
        Self { drain: Arc::clone(&self.drain), crowd: Some(Crowd { open, many, budget }) }
    }

    pub(crate) fn pressure(&self) -> Pressure {
        let is_crowded = || self.crowd.as_ref().is_some_and(Crowd::is_crowded);
        match self.is_draining() {
            true => Pressure::Drain,
            false if is_crowded() => Pressure::Crowd,
            false => Pressure::None,
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        // Relaxed, here and below: the flag guards no other memory, and a connection that sees it a moment
        // later only answers one request more.
        self.drain.draining.load(Ordering::Relaxed)
    }

    /// Whether the service drains, or will soon.
    pub(crate) fn is_leaving(&self) -> bool {
        self.drain.leaving.load(Ordering::Relaxed) || self.is_draining()
    }

    /// Tells load balancers that the drain comes.
    pub(crate) fn leave(&self) {
        self.drain.leaving.store(true, Ordering::Relaxed);
    }

    pub(crate) fn drain(&self) {
        self.drain.draining.store(true, Ordering::Relaxed);
        self.drain.changed.notify_waiters();
    }

    /// Waits until the service drains.
    pub(crate) async fn draining(&self) {
        let mut changed = pin!(self.drain.changed.notified());
        // Listening before looking: a change between the two is not missed.
        changed.as_mut().enable();
        if !self.is_draining() {
            changed.await;
        }
    }
}
