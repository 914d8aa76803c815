//! The pace of attempts.

use std::time::Duration;

use tokio::time::sleep_until;

use crate::time::{Instant, instant};

/// Limits attempts to reach a server or to find the topology: at most ten a second, fewer while they fail. Each comes
/// after a random wait, so that processes that lost a server at the same time do not all return at the same time.
#[derive(Default)]
pub(crate) struct Backoff {
    last: Option<Instant>,
    failures: u32,
    /// The number of attempts that are still to be made immediately.
    at_once: usize,
}

/// The shortest time between two attempts.
const GAP: Duration = Duration::from_millis(100);

/// The longest extra wait. With it, a server that is back is noticed within half a second.
const LONGEST: Duration = Duration::from_millis(400);

impl Backoff {
    /// Creates a backoff that makes this many first attempts without waits between them.
    pub(crate) fn with_first(attempts: usize) -> Self {
        Self { at_once: attempts, ..Self::default() }
    }

    /// Waits until the next attempt is due, and counts it.
    pub(crate) async fn wait(&mut self) {
        if self.at_once > 0 {
            self.at_once -= 1;
        } else if self.last.is_some() {
            sleep_until(self.due()).await;
        }
        self.begin();
    }

    /// Returns when the next attempt is due, with a new random wait at each call.
    pub(crate) fn due(&self) -> Instant {
        self.last.map_or_else(instant, |last| last + GAP + self.extra())
    }

    /// Records that an attempt is made now.
    pub(crate) fn begin(&mut self) {
        self.last = Some(instant());
        self.failures = self.failures.saturating_add(1);
    }

    /// The last attempt succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }

    fn extra(&self) -> Duration {
        let longest = (GAP / 2 * 2_u32.saturating_pow(self.failures)).min(LONGEST);
        longest.mul_f64(fastrand::f64())
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the time of these tests stands still until it is moved")]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_attempt_is_made_at_once() {
        let start = Instant::now();
        Backoff::default().wait().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    /// A service whose store was there had its second connection a tenth of a second after the first.
    #[tokio::test(start_paused = true)]
    async fn as_many_first_attempts_are_made_at_once_as_there_are_connections() {
        let (mut backoff, start) = (Backoff::with_first(3), Instant::now());
        for _ in 0..3 {
            backoff.wait().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        backoff.wait().await;
        assert!(start.elapsed() >= GAP);
    }

    #[tokio::test(start_paused = true)]
    async fn at_most_ten_attempts_a_second_and_at_least_two() {
        let mut backoff = Backoff::default();
        let start = Instant::now();
        for _ in 0..=1_000 {
            backoff.wait().await;
        }
        let mean = start.elapsed() / 1_000;
        assert!((Duration::from_millis(250)..Duration::from_millis(350)).contains(&mean), "{mean:?}");
        for _ in 0..100 {
            let before = Instant::now();
            backoff.wait().await;
            let gap = before.elapsed();
            assert!((GAP..=GAP + LONGEST).contains(&gap), "{gap:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_succeed_are_kept_apart_too() {
        // Otherwise a server that accepts and hangs up at once would be flooded.
        let mut backoff = Backoff::default();
        for _ in 0..100 {
            backoff.wait().await;
            backoff.succeeded();
            let before = Instant::now();
            backoff.wait().await;
            assert!(before.elapsed() >= GAP);
            backoff.succeeded();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_are_random() {
        let mut waits = Vec::new();
        for _ in 0..20 {
            let mut backoff = Backoff::default();
            backoff.wait().await;
            let before = Instant::now();
            backoff.wait().await;
            waits.push(before.elapsed());
        }
        waits.sort();
        waits.dedup();
        assert!(waits.len() > 10, "{waits:?}");
    }
}
