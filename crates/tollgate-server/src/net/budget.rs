//! The memory budget for requests and answers of all connections.
//!
//! A body that arrives complete with its head needs no budget. Nor does an answer of the usual size to the only request
//! of its connection. So ordinary checks are answered even while slow clients use up the budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::Version;
use tracing::warn;

use crate::observe::log_gap::LogGap;

/// The usual size of one answer in a batch.
pub(crate) const BATCH_ENTRY: usize = 640;

/// The memory of an HTTP/2 stream from its head until its answer is sent: its task with room for the largest handler,
/// the protocol's state, and an answer of the usual size.
const STREAM: usize = 6 * 1024;

/// The memory of an entry in a gRPC message in addition to its bytes: once decoded, it is two texts and an attribute.
const ENTRY: usize = 192;

/// The memory of a descriptor in a gRPC message in addition to its entries, and of its status in the answer.
const DESCRIPTOR: usize = 256;

/// The memory of a decoded message and its statuses that is part of [`STREAM`].
const USUAL_MESSAGE: usize = 4 * 1024;

/// The same for the only stream of a connection.
const OWN_MESSAGE: usize = 16 * 1024;

/// The size of the pieces of a body. Over HTTP/1.1 each piece is copied, and the next one waits until the client has
/// read the copy.
pub(crate) const PIECE: usize = 16 * 1024;

/// Most answers are smaller.
const USUAL_ANSWER: usize = 1024;

const LOG_GAP: Duration = Duration::from_secs(60);

/// The bytes that may be held at the same time. Clones share them.
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

/// All of the budget is held.
pub(crate) struct NoRoom;

/// Bytes of a budget, which are returned on drop.
pub(crate) struct HeldBytes {
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

    /// Returns the bytes that are held now.
    pub(crate) fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Returns how often there was no room.
    pub(crate) fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Returns whether more than half is held, so that slow clients must make room.
    pub(crate) fn is_scarce(&self) -> bool {
        self.held() > self.max() / 2
    }

    /// Holds the memory of an HTTP/2 stream on a connection with this many others. Called before the request is read.
    /// The only stream of a connection needs no budget, like a request over HTTP/1.1.
    pub(crate) fn for_stream(&self, others: u32) -> Result<HeldBytes, NoRoom> {
        if others == 0 { Ok(self.none()) } else { self.hold(STREAM) }
    }

    /// Holds this many bytes until the result is dropped.
    pub(crate) fn hold(&self, bytes: usize) -> Result<HeldBytes, NoRoom> {
        let mut held = self.none();
        if held.resize(bytes) {
            return Ok(held);
        }
        self.note_refusal();
        Err(NoRoom)
    }

    /// Holds the memory for an answer of this many bytes, if a connection's own share is too small. The answer holds
    /// the result until it is sent.
    ///
    /// # Errors
    ///
    /// If there is no room.
    pub(crate) fn for_answer(&self, version: Version, bytes: usize) -> Result<Option<HeldBytes>, NoRoom> {
        let own = if version == Version::HTTP_2 { USUAL_ANSWER } else { PIECE };
        if bytes <= own {
            return Ok(None);
        }
        let mut held = self.none();
        if !held.resize(bytes) {
            self.note_refusal();
            return Err(NoRoom);
        }
        Ok(Some(held))
    }

    /// Counts a request that is refused for lack of room.
    #[cold]
    pub(crate) fn note_refusal(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        if self.0.refusal_logged.passes(LOG_GAP) {
            warn!(
                body_memory = self.0.max,
                "clients hold all of --body-memory with incomplete bodies and unread answers: others are answered 503"
            );
        }
    }

    /// Returns a value that holds nothing yet.
    pub(crate) fn none(&self) -> HeldBytes {
        HeldBytes { account: Arc::clone(&self.0), bytes: 0 }
    }
}

impl HeldBytes {
    /// Changes the number of bytes held, if there is room. Otherwise holds the same number as before, and returns
    /// `false`.
    #[must_use]
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
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

    /// Also holds the memory of a decoded gRPC message and of its answer. Called before anything is counted.
    pub(crate) fn note_message(
        &mut self,
        length: usize,
        descriptors: usize,
        entries: usize,
    ) -> Result<(), NoRoom> {
        // The only stream of a connection holds nothing, and may take a little more.
        let own = if self.bytes == 0 { OWN_MESSAGE } else { USUAL_MESSAGE };
        let more = (length + DESCRIPTOR * descriptors + ENTRY * entries).saturating_sub(own);
        if more == 0 || self.resize(self.bytes + more) {
            return Ok(());
        }
        Budget(Arc::clone(&self.account)).note_refusal();
        Err(NoRoom)
    }

    /// Gives up what is held beyond this many bytes.
    pub(crate) fn shrunk(mut self, bytes: usize) -> Self {
        self.resize_anyway(bytes.min(self.bytes));
        self
    }

    /// Also holds the part of the answer that exceeds the usual size.
    pub(crate) fn note_answer(&mut self, bytes: usize) {
        self.resize_anyway(self.bytes + bytes.saturating_sub(USUAL_ANSWER));
    }

    /// Changes the number of bytes held, even beyond the budget, because they already exist.
    fn resize_anyway(&mut self, bytes: usize) {
        let held = &self.account.held;
        if bytes >= self.bytes {
            held.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.account.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_stay_within_the_budget_and_are_returned() {
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

    #[test]
    fn the_share_of_a_connection_needs_no_room() {
        let budget = Budget::new(STREAM);
        let all = budget.for_stream(1).ok().expect("there is room for one");
        assert!(budget.for_stream(0).is_ok() && budget.for_stream(1).is_err());
        let (http1, http2) = (Version::HTTP_11, Version::HTTP_2);
        assert!(matches!(budget.for_answer(http1, PIECE), Ok(None)));
        assert!(matches!(budget.for_answer(http2, USUAL_ANSWER), Ok(None)));
        assert!(budget.for_answer(http1, PIECE + 1).is_err());
        assert!(budget.for_answer(http2, USUAL_ANSWER + 1).is_err());
        assert_eq!((budget.held(), budget.refused()), (STREAM, 3));
        drop(all);
        assert!(matches!(budget.for_answer(http2, USUAL_ANSWER + 1), Ok(Some(_))));
        let mut own = budget.for_stream(0).ok().expect("it needs no room");
        own.note_answer(USUAL_ANSWER + 10);
        assert_eq!(budget.held(), 10, "what is there is held, even if nobody asked for room");
    }
}
