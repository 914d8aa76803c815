//! The circuit breaker for silent servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// Distinguishes a silent server from one that lost a single call or is too slow: silent means no reply at all over a
/// connection for a while, in spite of calls.
///
/// It only observes; the [`Node`](super::Node) reacts.
pub(super) struct Breaker {
    /// The length of a silence.
    patience: Duration,
    origin: Instant,
    /// The time of the first unanswered call since the last reply, in nanoseconds since `origin`; [`ANSWERED`] if there
    /// is none. Like all of these, it is an independent atomic: nothing else is published with it.
    silent_since: AtomicU64,
    /// The time of the last reply.
    last_reply: AtomicU64,
    /// Whether the last reply arrived after its deadline.
    is_late: AtomicBool,
    /// Replies of the whole store that came after their deadline.
    late_replies: Arc<AtomicU64>,
}

const ANSWERED: u64 = u64::MAX;

/// The longest silence of three deadlines.
const THREE_DEADLINES: Duration = Duration::from_millis(100);

impl Breaker {
    /// Two deadlines of silence: a reply may be late by as long as a caller waits for it, or the server is too slow
    /// rather than silent. Short deadlines get a third one, up to 100 ms, because one lost packet is not trouble yet.
    /// Nothing gets more, because each call that is tried until then costs its caller the whole deadline.
    pub(super) fn new(deadline: Duration, origin: Instant, late_replies: Arc<AtomicU64>) -> Self {
        Self {
            patience: (deadline * 3).min(THREE_DEADLINES).max(deadline * 2),
            origin,
            silent_since: AtomicU64::new(ANSWERED),
            last_reply: AtomicU64::new(0),
            is_late: AtomicBool::new(false),
            late_replies,
        }
    }

    /// Records replies, of which this many arrived after their deadline.
    pub(super) fn answered(&self, now: Instant, late: u64) {
        self.last_reply.store(self.nanos(now), Relaxed);
        // The value rarely changes, and a line that is only read stays in every core's cache.
        if self.silent_since.load(Relaxed) != ANSWERED {
            self.silent_since.store(ANSWERED, Relaxed);
        }
        if late > 0 {
            self.late_replies.fetch_add(late, Relaxed);
        }
        if self.is_late.load(Relaxed) != (late > 0) {
            self.is_late.store(late > 0, Relaxed);
        }
    }

    /// Returns whether the last reply arrived too late: the server is too slow, but not down.
    pub(super) fn is_late(&self) -> bool {
        self.is_late.load(Relaxed)
    }

    /// Records that the call sent at `sent` got no reply until `now`. Returns whether the server has been silent for
    /// too long.
    pub(super) fn unanswered(&self, sent: Instant, now: Instant) -> bool {
        // What was sent before the last reply is no sign of silence before it.
        let sent = self.nanos(sent).max(self.last_reply.load(Relaxed));
        let since = self.silent_since.fetch_min(sent, Relaxed).min(sent);
        u128::from(self.nanos(now).saturating_sub(since)) >= self.patience.as_nanos()
    }

    /// Records that the connection in use was silent for too long. Until this one has a reply, a single unanswered call
    /// is enough.
    pub(super) fn doubt(&self) {
        self.silent_since.store(0, Relaxed);
    }

    fn nanos(&self, at: Instant) -> u64 {
        // Enough for 584 years.
        u64::try_from(at.saturating_duration_since(self.origin).as_nanos()).unwrap_or(ANSWERED - 1)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the time of these tests stands still until it is moved")]
mod tests {
    use tokio::time::advance;

    use super::*;

    const DEADLINE: Duration = Duration::from_millis(20);

    fn breaker(deadline: Duration) -> Breaker {
        Breaker::new(deadline, Instant::now(), Arc::default())
    }

    async fn call_in_vain(breaker: &Breaker) -> bool {
        let sent = Instant::now();
        advance(DEADLINE).await;
        breaker.unanswered(sent, Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn opens_at_the_third_call_in_vain() {
        let breaker = breaker(DEADLINE);
        for opens in [false, false, true] {
            assert_eq!(call_in_vain(&breaker).await, opens);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_calls_lost_at_once_are_one_silence() {
        let breaker = breaker(DEADLINE);
        let sent = Instant::now();
        advance(DEADLINE).await;
        for _ in 0..1_000 {
            assert!(!breaker.unanswered(sent, Instant::now()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_ends_the_silence() {
        let breaker = breaker(DEADLINE);
        for _ in 0..100 {
            assert!(!call_in_vain(&breaker).await);
            assert!(!call_in_vain(&breaker).await);
            breaker.answered(Instant::now(), 0);
        }
    }

    /// A server that answers in 25 ms, of which each call gets 20, was left as silent after the third call.
    #[tokio::test(start_paused = true)]
    async fn late_replies_are_no_silence() {
        let breaker = breaker(DEADLINE);
        assert!(!breaker.is_late());
        for calls in 1..100 {
            assert!(!call_in_vain(&breaker).await);
            // One more is in flight when the reply comes, and goes on waiting after it.
            let sent = Instant::now();
            advance(Duration::from_millis(5)).await;
            breaker.answered(Instant::now(), 1);
            assert!(breaker.is_late());
            advance(DEADLINE - Duration::from_millis(5)).await;
            assert!(!breaker.unanswered(sent, Instant::now()));
            advance(Duration::from_millis(5)).await;
            breaker.answered(Instant::now(), 1);
            assert_eq!(breaker.late_replies.load(Relaxed), 2 * calls);
        }
        breaker.answered(Instant::now(), 0);
        assert!(!breaker.is_late());
        for opens in [false, false, true] {
            assert_eq!(call_in_vain(&breaker).await, opens, "now it is silent");
        }
    }

    /// Each connection took its hundred milliseconds of calls in vain, one after another.
    #[tokio::test(start_paused = true)]
    async fn a_doubted_connection_opens_after_one_unanswered_call() {
        let breaker = breaker(DEADLINE);
        advance(Duration::from_secs(1)).await;
        breaker.doubt();
        assert!(call_in_vain(&breaker).await);
        breaker.doubt();
        breaker.answered(Instant::now(), 0);
        assert!(!call_in_vain(&breaker).await);
    }

    /// A server that answers in 125 ms was left as silent after the first call, if that had a deadline of 100 ms.
    #[tokio::test(start_paused = true)]
    async fn a_reply_may_be_late_by_a_whole_deadline() {
        for deadline in [20, 33, 50, 100, 5_000].map(Duration::from_millis) {
            let breaker = breaker(deadline);
            let sent = Instant::now();
            advance(deadline * 2 - Duration::from_millis(1)).await;
            assert!(!breaker.unanswered(sent, Instant::now()), "{deadline:?}");
            breaker.answered(Instant::now(), 1);
            let sent = Instant::now();
            advance((deadline * 2).max(Duration::from_millis(100))).await;
            assert!(breaker.unanswered(sent, Instant::now()), "{deadline:?}: silent");
        }
    }
}
