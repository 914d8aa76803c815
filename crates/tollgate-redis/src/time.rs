//! Two times: this process's monotonic clock, and its estimate of the server's.
//!
//! No count depends on either: the script counts by the server's own clock. They bound the wait for a reply and the
//! repetition of a denial, choose the calendar window to declare, and spare the script a question for the expiry.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

pub(crate) use tokio::time::Instant;
use tollgate::{AnswerError, Clock, StepDeadline, StoreError, SystemClock, Timestamp};

/// When a call began, until when its caller waits, and the time now: for a new call, one reading of the clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallTime {
    pub(crate) begun: Instant,
    pub(crate) now: Instant,
    /// `None` if the caller waits for the store's whole deadline.
    pub(crate) waits_until: Option<Instant>,
}

impl CallTime {
    /// The time of a call that begins now.
    pub(crate) fn begins(deadline: Option<StepDeadline>) -> Self {
        let now = instant();
        let waits_until = deadline.map(|deadline| Instant::from_std(deadline.until()));
        Self { begun: now, now, waits_until }
    }

    /// The time of the same call now.
    pub(crate) fn continued(self) -> Self {
        Self { now: instant(), ..self }
    }

    /// The time of the same call, which goes on after its caller has stopped waiting.
    pub(crate) fn without_caller(self) -> Self {
        Self { waits_until: None, ..self }
    }

    /// Returns until when the caller waits for a step that begins now, if it has said so.
    ///
    /// # Errors
    ///
    /// If that time is over. Nothing is charged then.
    pub(crate) fn wait_for_step(&self) -> Result<Option<Instant>, StoreError> {
        match self.waits_until {
            Some(until) if until <= self.now => Err(StoreError::trouble(AnswerError::Late)),
            until => Ok(until),
        }
    }
}

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// The latest time that a server may report: the end of the year 9999, where calendars end. The script's numbers are
/// exact far beyond it.
const LAST: i64 = 253_402_300_799_999;

/// Returns the time that a server reports in Unix milliseconds; `None` if no server has this time.
pub(crate) fn server_time(millis: i64) -> Option<Timestamp> {
    (0..=LAST).contains(&millis).then_some(Timestamp::from_unix_millis(millis))
}

/// How long calls may carry a probable time before the server is asked for its own, in milliseconds.
const ASKED_EVERY: i64 = 1_000;

/// By how much an estimate may be off.
const MOST_OFF: Duration = Duration::from_secs(1);

/// The server's probable time, for a call that is sent now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probable {
    pub(crate) now: Timestamp,
    /// Counters of windows that began before this may have been moved to the server from another one. `MIGRATE` moves
    /// their remaining life, so they may expire too early or too late, and the time derived from that would be wrong.
    pub(crate) settled: Timestamp,
}

/// The server's time as this process estimates it, corrected by every reply.
#[derive(Debug)]
pub(crate) struct ServerTime {
    base: Instant,
    /// The server's time at `base`, in Unix milliseconds. Relaxed: an independent number.
    at_base: AtomicI64,
    /// When the server was last asked for its time, in milliseconds since `base`. Relaxed: nothing depends on it but
    /// how soon it is asked again.
    asked: AtomicI64,
    /// When a reply last moved the estimate further than it may be off, in milliseconds since `base`. Relaxed: as
    /// `asked`.
    moved: AtomicI64,
}

impl ServerTime {
    /// Until the first reply, this machine's clock.
    pub(crate) fn new() -> Self {
        let at_base = AtomicI64::new(SystemClock.now().as_unix_millis());
        Self { base: instant(), at_base, asked: AtomicI64::new(-ASKED_EVERY), moved: AtomicI64::new(-1) }
    }

    /// Returns the estimated time at this instant, past or future.
    pub(crate) fn estimate_at(&self, instant: Instant) -> Timestamp {
        let since_base = self.millis(instant);
        Timestamp::from_unix_millis(self.at_base.load(Ordering::Relaxed).saturating_add(since_base))
    }

    /// Returns by how many milliseconds the server's clock is ahead of this machine's, or behind if it is negative, as far
    /// as replies tell it; `None` before the first one.
    pub(crate) fn offset_millis(&self) -> Option<i64> {
        let is_known = self.asked.load(Ordering::Relaxed) >= 0;
        let estimate = self.estimate_at(instant()).as_unix_millis();
        is_known.then(|| estimate.saturating_sub(SystemClock.now().as_unix_millis()))
    }

    /// Records that the server's time was `now` at some point between these instants. An estimate that can be true is
    /// kept, so that it does not tremble with every round trip; else it is moved to the nearest that can.
    pub(crate) fn learn(&self, now: Timestamp, sent: Instant, received: Instant) {
        let now = now.as_unix_millis();
        let earliest = now.saturating_sub(self.millis(received));
        let latest = now.saturating_sub(self.millis(sent)).max(earliest);
        let known = self.at_base.load(Ordering::Relaxed);
        let nearest = known.clamp(earliest, latest);
        if nearest != known {
            self.at_base.store(nearest, Ordering::Relaxed);
            if nearest.abs_diff(known) > MOST_OFF.as_millis() as u64 {
                self.moved.store(self.millis(received), Ordering::Relaxed);
            }
        }
    }

    /// Returns the estimated time now, if a call may rely on it, of a server whose counters have been with it since
    /// `settled`. The server proves by a counter's life and window number that the probable time is in the open window.
    /// Those numbers repeat, so after a jump of its clock by many windows it might prove a time that is as far off. So
    /// once a second it is asked for the time itself, and again after a reply that contradicts the estimate: the reply
    /// may be nonsense.
    pub(crate) fn probable_at(&self, now: Instant, settled: Option<Instant>) -> Option<Probable> {
        let asked = self.asked.load(Ordering::Relaxed);
        let is_fresh = self.millis(now) < asked + ASKED_EVERY && asked > self.moved.load(Ordering::Relaxed);
        let settled = settled.map_or(Timestamp::EPOCH, |settled| self.estimate_at(settled) + MOST_OFF);
        is_fresh.then(|| Probable { now: self.estimate_at(now), settled })
    }

    /// Records that a call without a probable time, sent then, was answered.
    pub(crate) fn confirm(&self, sent: Instant) {
        self.asked.fetch_max(self.millis(sent), Ordering::Relaxed);
    }

    fn millis(&self, instant: Instant) -> i64 {
        i64::try_from(instant.saturating_duration_since(self.base).as_millis()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_estimate_goes_on_and_follows_the_server_both_ways() {
        let time = ServerTime::new();
        for said in [1_000_000, 2_000_000, 500_000] {
            let sent = instant();
            tokio::time::advance(Duration::from_millis(2)).await;
            time.learn(Timestamp::from_unix_millis(said), sent, instant());
            let estimate = time.estimate_at(instant()).as_unix_millis();
            assert!((said..=said + 2).contains(&estimate), "{estimate} of {said}");
            tokio::time::advance(Duration::from_secs(7)).await;
            assert_eq!(time.estimate_at(instant()).as_unix_millis(), estimate + 7_000);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_may_rely_on_an_estimate_for_a_second_after_the_server_told_its_time() {
        let time = ServerTime::new();
        assert!(time.probable_at(instant(), None).is_none());
        let sent = instant();
        tokio::time::advance(Duration::from_millis(300)).await;
        time.learn(Timestamp::from_unix_millis(5_000), sent, instant());
        assert!(time.probable_at(instant(), None).is_none(), "the server was given a probable time");
        time.confirm(sent);
        assert!(time.probable_at(instant(), None).is_none(), "the reply may be nonsense");
        let sent = instant() + Duration::from_millis(1);
        time.confirm(sent);
        let settled = instant();
        let probable = time.probable_at(settled, Some(settled)).expect("it is fresh");
        let now = time.estimate_at(settled);
        assert_eq!((probable.now, probable.settled), (now, now + MOST_OFF));
        tokio::time::advance(Duration::from_millis(1_000)).await;
        assert!(time.probable_at(instant(), None).is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(time.probable_at(instant(), None).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_offset_of_a_clock_is_known_once_the_server_told_its_time() {
        let time = ServerTime::new();
        assert_eq!(time.offset_millis(), None);
        for ahead in [90_000, -90_000] {
            let sent = instant();
            let said = SystemClock.now().as_unix_millis() + ahead;
            time.learn(Timestamp::from_unix_millis(said), sent, sent);
            time.confirm(sent);
            // This machine's clock goes on meanwhile.
            assert!(time.offset_millis().is_some_and(|offset| offset.abs_diff(ahead) < 30_000), "{time:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_reply_does_not_move_an_estimate_that_can_be_true() {
        let time = ServerTime::new();
        let sent = instant();
        time.learn(Timestamp::from_unix_millis(1_000), sent, sent);
        tokio::time::advance(Duration::from_millis(500)).await;
        // Said at any time since; 200 ms after the command is the truth.
        time.learn(Timestamp::from_unix_millis(1_200), sent, instant());
        assert_eq!(time.estimate_at(instant()).as_unix_millis(), 1_500);
    }
}
