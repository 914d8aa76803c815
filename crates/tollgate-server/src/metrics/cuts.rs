//! Connections that ended before their clients had their answers, by reason.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing::warn;

/// The time between two log lines.
const LOG_GAP: Duration = Duration::from_secs(60);

/// Why a connection was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The client or the network ended the connection.
    Broken,
    /// The connection reached its maximum age and did not end when requested.
    Expired,
    /// A head is too long: answered 431, or 414 if the target alone is too long.
    HeadTooLarge,
    /// No request came for too long.
    Idle,
    /// The input is not HTTP: answered 400, or GOAWAY over HTTP/2.
    Malformed,
    /// A head did not arrive in time.
    SlowHead,
    /// The client does not read its answers.
    Stalled,
}

/// A count for each reason. Every access is relaxed: the counts are independent and guard no other memory.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    counts: [AtomicU64; Cut::ALL.len()],
    /// The counts in the last log line.
    logged: Mutex<[u64; Cut::ALL.len()]>,
}

impl Cut {
    const ALL: [Self; 7] = [
        Self::Broken,
        Self::Expired,
        Self::HeadTooLarge,
        Self::Idle,
        Self::Malformed,
        Self::SlowHead,
        Self::Stalled,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Expired => "expired",
            Self::HeadTooLarge => "head_too_large",
            Self::Idle => "idle",
            Self::Malformed => "malformed",
            Self::SlowHead => "slow_head",
            Self::Stalled => "stalled",
        }
    }
}

impl Cuts {
    pub(crate) fn count(&self, cut: Cut) {
        let counters = Cut::ALL.iter().zip(&self.counts);
        if let Some((_, counter)) = counters.into_iter().find(|(counted, _)| **counted == cut) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Logs the new cuts once a minute, if there are any.
    pub(crate) async fn keep_logging(&self) {
        loop {
            tokio::time::sleep(LOG_GAP).await;
            self.log_new();
        }
    }

    /// Logs the cuts since the last line. Broken, idle and expired connections are normal, so they alone cause no line.
    pub(crate) fn log_new(&self) {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let mut since = counts;
        since.iter_mut().zip(*logged).for_each(|(count, logged)| *count -= logged);
        let [broken, expired, head_too_large, idle, malformed, slow_head, stalled] = since;
        if head_too_large + malformed + slow_head + stalled > 0 {
            *logged = counts;
            warn!(
                malformed,
                head_too_large, slow_head, stalled, idle, expired, broken, "connections of clients were cut"
            );
        }
    }

    /// Returns the count of each reason.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Cut::ALL.iter().zip(&self.counts).map(|(cut, count)| (cut.name(), count.load(Ordering::Relaxed)))
    }
}
