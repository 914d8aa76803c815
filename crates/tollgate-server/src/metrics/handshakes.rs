//! Failed TLS handshakes, by reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::tls::HandshakeFailure;

/// Failed handshakes of a listener. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Handshakes {
    listener: &'static str,
    failed: Arc<[AtomicU64; HandshakeFailure::ALL.len()]>,
}

impl Handshakes {
    pub(super) fn new(listener: &'static str) -> Self {
        Self { listener, failed: Arc::default() }
    }

    pub(crate) fn listener(&self) -> &'static str {
        self.listener
    }

    pub(crate) fn failed(&self, failure: HandshakeFailure) {
        // Relaxed, like all metrics.
        if let Some(count) = self.failed.get(failure as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the count of each reason.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = HandshakeFailure::ALL.into_iter().zip(self.failed.iter());
        counts.map(|(failure, count)| (failure.name(), count.load(Ordering::Relaxed)))
    }
}
