//! Requests of the service to its connections: to end because of a drain, or to make room for others.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::metrics::OpenConnections;
use crate::net::budget::Budget;

/// Whether the service drains, set once by the first signal. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phase {
    drain: Arc<Drain>,
    crowd: Option<Crowd>,
}

/// The connections of one listener, the number that counts as crowded, and the memory that all connections share.
#[derive(Debug, Clone)]
struct Crowd {
    open: OpenConnections,
    many: u32,
    budget: Budget,
}

/// The service's request to connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Nothing.
    None,
    /// Idle connections should make room for others.
    Crowd,
    /// All connections should end.
    Drain,
}

#[derive(Debug, Default)]
struct Drain {
    /// Whether load balancers should stop sending requests, because a drain is coming.
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
    /// Returns the phase for the connections of one listener, which allows at most `max_connections`.
    pub(crate) fn of_listener(&self, open: OpenConnections, max_connections: u32, budget: Budget) -> Self {
        // The last sixteenth is reserved for active clients.
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
        // Relaxed, here and below: the flag guards no other memory, and a connection that sees it late only answers one
        // more request.
        self.drain.draining.load(Ordering::Relaxed)
    }

    /// Returns whether the service drains, or soon will.
    pub(crate) fn is_leaving(&self) -> bool {
        self.drain.leaving.load(Ordering::Relaxed) || self.is_draining()
    }

    /// Tells load balancers that a drain is coming.
    pub(crate) fn leave(&self) {
        self.drain.leaving.store(true, Ordering::Relaxed);
        self.drain.changed.notify_waiters();
    }

    pub(crate) fn drain(&self) {
        self.drain.draining.store(true, Ordering::Relaxed);
        self.drain.changed.notify_waiters();
    }

    /// Waits until the service drains.
    pub(crate) async fn draining(&self) {
        self.until(Self::is_draining).await;
    }

    /// Waits until the service drains, or until it is about to.
    pub(crate) async fn leaving(&self) {
        self.until(Self::is_leaving).await;
    }

    async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        loop {
            let mut changed = pin!(self.drain.changed.notified());
            // Subscribed before the check, so that a change in between is not missed.
            changed.as_mut().enable();
            if is_so(self) {
                return;
            }
            changed.await;
        }
    }
}
