//! How far reads have come: a change waits for one that began after it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct ReadProgress {
    /// The number of reads that have begun.
    begun: AtomicU64,
    ended: watch::Sender<EndedReads>,
}

/// The last reads that have ended.
#[derive(Debug, Clone, Copy, Default)]
struct EndedReads {
    /// The number of the last one.
    last: u64,
    /// The number of the last one whose overrides are live.
    live: u64,
}

impl Default for ReadProgress {
    fn default() -> Self {
        Self { begun: AtomicU64::new(0), ended: watch::Sender::default() }
    }
}

impl ReadProgress {
    /// Notes that a read begins, and returns its number. One begins after the other.
    pub(super) fn begin(&self) -> u64 {
        // Sequentially consistent, as below: a change that was answered before a waiter looked is seen by a read that
        // has a higher number.
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Notes that it has ended, and whether its overrides are live.
    pub(super) fn end(&self, number: u64, is_live: bool) {
        self.ended.send_modify(|ended| {
            ended.last = number;
            if is_live {
                ended.live = number;
            }
        });
    }

    /// Returns a future that waits until a read is live that has not begun at this call. It returns whether one is,
    /// within this time.
    pub(super) fn next_live(&self, within: Duration) -> impl Future<Output = bool> + Send + use<> {
        let next = self.begun.load(Ordering::SeqCst) + 1;
        let mut ended = self.ended.subscribe();
        async move {
            let live = ended.wait_for(|ended| ended.live >= next);
            time::timeout(within, live).await.is_ok_and(|live| live.is_ok())
        }
    }

    /// Waits until a read is live, or until one that has not begun yet has failed.
    pub(super) async fn first(&self, within: Duration) {
        let next = self.begun.load(Ordering::SeqCst) + 1;
        let mut ended = self.ended.subscribe();
        let first = ended.wait_for(|ended| ended.live > 0 || ended.last >= next);
        // Late, or never: the service starts all the same.
        let _ = time::timeout(within, first).await;
    }
}
