//! Memory for what waits in the service on behalf of clients, all connections together.
//!
//! A body that arrives whole with its head needs none of it, so ordinary checks are answered even while slow clients
//! hold all of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::{StatusCode, Version};
use tollgate::{Clock, SystemClock};
use tracing::warn;

use super::rejection::Rejection;
use crate::log_gap::LogGap;

/// Bytes that the answer to one request of a batch usually has.
const BATCH_ENTRY: usize = 640;

const LOG_GAP: Duration = Duration::from_secs(60);

/// Bytes that may be held at once. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Account>);

/// Every access is relaxed: the figures guard no other memory.
#[derive(Debug)]
struct Account {
    max: usize,
    held: AtomicUsize,
    refused: AtomicU64,
    refusal_logged: LogGap,
}

/// Bytes of a budget, given back when this is dropped.
pub(super) struct Held {
    account: Arc<Account>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Self {
        let (held, refused, refusal_logged) = Default::default();
        Self(Arc::new(Account { max, held, refused, refusal_logged }))
    }

    pub(crate) fn max(&self) -> usize {
        self.0.max
    }

    /// Bytes that are held now.
    pub(crate) fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// How often there was no room.
    pub(crate) fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Whether half of it is held, so that clients who are slow have to make room.
    pub(crate) fn is_scarce(&self) -> bool {
        self.held() > self.max() / 2
    }

    /// Holds what the answer to a batch of so many requests will take. It is asked before anything is counted. An answer that
    /// has it among its extensions holds it until it is sent.
    ///
    /// # Errors
    ///
    /// If there is no room.
    pub(super) fn for_batch(&self, version: Version, requests: usize) -> Result<Arc<Held>, Rejection> {
        let mut held = self.none();
        // Over HTTP/1.1 there is one answer at a time, and the next request waits until it is read.
        if version == Version::HTTP_2 && !held.resize(requests * BATCH_ENTRY) {
            self.note_refusal();
            let detail = "there is no memory for the answer: too many others wait to be read";
            return Err(Rejection::new(StatusCode::SERVICE_UNAVAILABLE, detail));
        }
        Ok(Arc::new(held))
    }

    /// Notes that a request is refused because there is no room.
    #[cold]
    pub(super) fn note_refusal(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        if self.0.refusal_logged.passes(SystemClock.now(), LOG_GAP) {
            warn!(
                body_memory = self.0.max,
                "clients hold all of --body-memory with bodies that are on their way: others are answered 503"
            );
        }
    }

    /// Holds nothing yet.
    pub(super) fn none(&self) -> Held {
        Held { account: Arc::clone(&self.0), bytes: 0 }
    }
}

impl Held {
    /// Holds so many bytes from now on, if there is room for them. Otherwise holds what it did, and returns false.
    #[must_use]
    pub(super) fn resize(&mut self, bytes: usize) -> bool {
        let (held, max) = (&self.account.held, self.account.max);
        let (more, less) = (bytes.saturating_sub(self.bytes), self.bytes.saturating_sub(bytes));
        if more == 0 {
            held.fetch_sub(less, Ordering::Relaxed);
        } else {
            let grown = |held: usize| held.checked_add(more).filter(|held| *held <= max);
            if held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_err() {
                return false;
            }
        }
        self.bytes = bytes;
        true
    }

    /// Holds so many bytes from now on, also beyond what the budget has: for what is there already.
    pub(super) fn resize_anyway(&mut self, bytes: usize) {
        let held = &self.account.held;
        if bytes >= self.bytes {
            held.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.account.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_stays_within_the_budget_and_is_given_back() {
        let budget = Budget::new(100);
        let (mut first, mut second) = (budget.none(), budget.none());
        assert!(first.resize(60) && second.resize(40));
        assert!(!second.resize(41), "there is no room");
        assert_eq!(budget.held(), 100);
        assert!(first.resize(10) && second.resize(90));
        drop(second);
        assert_eq!(budget.held(), 10);
        first.resize_anyway(200);
        assert!(budget.is_scarce() && !budget.none().resize(1));
        first.resize_anyway(50);
        assert!(!budget.is_scarce());
        drop(first);
        assert_eq!(budget.held(), 0);
    }
}
