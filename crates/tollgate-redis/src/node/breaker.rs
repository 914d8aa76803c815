//! When a server that does not answer is left alone.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// Tells a server that is silent from one that lost a single call: no reply whatever for a while, although there
/// were calls.
///
/// It only watches. What follows from silence is up to the [`Node`](super::Node).
pub(super) struct Breaker {
    /// How long a silence has to be.
    patience: Duration,
    origin: Instant,
    /// When the first call was sent that has gone unanswered since the last reply, in nanoseconds since `origin`;
    /// [`ANSWERED`] if there is none. A lone atomic: nothing else is published with it.
    silent_since: AtomicU64,
}

const ANSWERED: u64 = u64::MAX;

impl Breaker {
    /// Three deadlines of silence, because one lost packet is not trouble yet; but never over 100 ms, because
    /// each call that is tried until then costs its caller the whole deadline.
    pub(super) fn new(deadline: Duration, origin: Instant) -> Self {
        let patience = (deadline * 3).min(Duration::from_millis(100));
        Self { patience, origin, silent_since: AtomicU64::new(ANSWERED) }
    }

    /// A reply came.
    pub(super) fn answered(&self) {
        // Nearly always there is nothing to change, and what is only read stays in every core's cache.
        if self.silent_since.load(Relaxed) != ANSWERED {
            self.silent_since.store(ANSWERED, Relaxed);
        }
    }

    /// The call sent at `sent` got no reply until `now`; says whether the server has been silent for too long.
    pub(super) fn unanswered(&self, sent: Instant, now: Instant) -> bool {
        let sent = self.nanos(sent);
        let since = self.silent_since.fetch_min(sent, Relaxed).min(sent);
        u128::from(self.nanos(now).saturating_sub(since)) >= self.patience.as_nanos()
    }

    /// Another connection to the server, over which all calls went, has been silent for too long. Until there is a
    /// reply over this one, the next call in vain is enough.
    pub(super) fn doubt(&self) {
        self.silent_since.store(0, Relaxed);
    }

    fn nanos(&self, at: Instant) -> u64 {
        // 584 years fit.
        u64::try_from(at.saturating_duration_since(self.origin).as_nanos()).unwrap_or(ANSWERED - 1)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the time of these tests stands still until it is moved")]
mod tests {
    use tokio::time::advance;

    use super::*;

    const DEADLINE: Duration = Duration::from_millis(20);

    async fn call_in_vain(breaker: &Breaker) -> bool {
        let sent = Instant::now();
        advance(DEADLINE).await;
        breaker.unanswered(sent, Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn opens_at_the_third_call_in_vain() {
        let breaker = Breaker::new(DEADLINE, Instant::now());
        for opens in [false, false, true] {
            assert_eq!(call_in_vain(&breaker).await, opens);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_calls_lost_at_once_are_one_silence() {
        let breaker = Breaker::new(DEADLINE, Instant::now());
        let sent = Instant::now();
        advance(DEADLINE).await;
        for _ in 0..1_000 {
            assert!(!breaker.unanswered(sent, Instant::now()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_ends_the_silence() {
        let breaker = Breaker::new(DEADLINE, Instant::now());
        for _ in 0..100 {
            assert!(!call_in_vain(&breaker).await);
            assert!(!call_in_vain(&breaker).await);
            breaker.answered();
        }
    }

    /// Each connection took its hundred milliseconds of calls in vain, one after another.
    #[tokio::test(start_paused = true)]
    async fn who_is_doubted_opens_at_the_first_call_in_vain_unless_it_answers() {
        let breaker = Breaker::new(DEADLINE, Instant::now());
        advance(Duration::from_secs(1)).await;
        breaker.doubt();
        assert!(call_in_vain(&breaker).await);
        breaker.doubt();
        breaker.answered();
        assert!(!call_in_vain(&breaker).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_generous_deadline_is_no_reason_for_more_patience() {
        let breaker = Breaker::new(Duration::from_secs(5), Instant::now());
        let sent = Instant::now();
        advance(Duration::from_millis(100)).await;
        assert!(breaker.unanswered(sent, Instant::now()));
    }
}
