//! Outages of a store, for the log.
//!
//! An outage has one line when it begins and one when it ends. Outages that begin within ten seconds of such a first
//! line share one line after that time, so a store that comes and goes does not flood the log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use tollgate::{Clock, SystemClock, Timestamp};
use tracing::{info, warn};

/// The time for which further outages are gathered after the first line about one.
pub const GAP: Duration = Duration::from_secs(10);

/// The outages of one store. It decides when to log a line.
///
/// A line is logged while other failed steps wait. So lines are in the order of their events, and no request is
/// admitted uncounted before the line about its outage. The function that logs must not note a step itself.
#[derive(Debug, Default)]
pub struct Outages {
    /// Whether an answer can be followed by a line. Readable without the lock, so that a working store costs nothing
    /// else.
    is_awaiting: AtomicBool,
    history: Mutex<OutageHistory>,
}

/// Logged outages, and those that are still to be logged.
#[derive(Debug, Default)]
struct OutageHistory {
    is_away: bool,
    /// Whether the last line reported that the store does not answer.
    is_logged_away: bool,
    /// Outages that begin before this time are gathered.
    quiet_until: Option<Timestamp>,
    /// Outages that were not logged yet.
    unlogged: u64,
    /// Failed steps since the last line.
    failed: u64,
}

/// A log line about outages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutageLine {
    /// An outage begins.
    Gone,
    /// The last logged outage has ended.
    Back {
        /// The steps that failed during it.
        failed: u64,
    },
    /// Outages were gathered since the last line.
    Again {
        /// Their number.
        outages: u64,
        /// The steps that failed.
        failed: u64,
        /// Whether the last one continues.
        is_away: bool,
    },
}

impl Outages {
    /// Notes a failed step. Passes the line to `log`, if there is one, and returns it.
    pub fn failed(&self, log: impl FnOnce(OutageLine)) -> Option<OutageLine> {
        self.change(self.history(), |history| history.failed(SystemClock.now()), log)
    }

    /// Notes an answered step. Passes the line to `log`, if there is one, and returns it.
    #[inline]
    pub fn answered(&self, log: impl FnOnce(OutageLine)) -> Option<OutageLine> {
        // Relaxed: the flag guards no other memory, and the next step sees what this one misses.
        if self.is_awaiting.load(Ordering::Relaxed) { self.answered_at_last(log) } else { None }
    }

    /// Passes the line about gathered outages to `log` if there are any and the gap is over, and returns it.
    pub fn due(&self, log: impl FnOnce(OutageLine)) -> Option<OutageLine> {
        self.change(self.history(), |history| history.due(SystemClock.now()), log)
    }

    /// Passes the line about gathered outages to `log` if there are any, even within the gap, and returns it.
    pub fn gathered(&self, log: impl FnOnce(OutageLine)) -> Option<OutageLine> {
        self.change(self.history(), |history| history.gathered_line(SystemClock.now()), log)
    }

    /// Returns whether outages are gathered that were not logged yet.
    pub fn are_gathered(&self) -> bool {
        self.history().unlogged > 0
    }

    #[cold]
    fn answered_at_last(&self, log: impl FnOnce(OutageLine)) -> Option<OutageLine> {
        // While outages are gathered, every answered step comes here. If the lock is taken, the step does not wait for
        // it: a later one notes the same.
        let history = match self.history.try_lock() {
            Ok(history) => history,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.change(history, |history| history.answered(SystemClock.now()), log)
    }

    fn history(&self) -> MutexGuard<'_, OutageHistory> {
        // No change under this lock can be left half made.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(
        &self,
        mut history: MutexGuard<'_, OutageHistory>,
        change: impl FnOnce(&mut OutageHistory) -> Option<OutageLine>,
        log: impl FnOnce(OutageLine),
    ) -> Option<OutageLine> {
        let line = change(&mut history);
        self.is_awaiting.store(history.is_away || history.unlogged > 0, Ordering::Relaxed);
        if let Some(line) = line {
            log(line);
        }
        line
    }
}

impl OutageLine {
    /// Logs the line, with the rule if there are several, and with the address of a page about the store if there is
    /// one. The line about the [beginning](Self::Gone) is up to the caller, who knows the reason and what decides now.
    #[cold]
    pub fn log(self, rule: Option<&str>, view: Option<&str>) {
        match self {
            Self::Gone => {}
            Self::Back { failed } => info!(rule, failed, view, "the store answers again"),
            Self::Again { outages, failed, is_away } => {
                let store = if is_away { "is away" } else { "answers" };
                warn!(
                    rule,
                    outages, failed, store, view, "the store failed again since the last line about it"
                );
            }
        }
    }
}

impl OutageHistory {
    fn failed(&mut self, now: Timestamp) -> Option<OutageLine> {
        let begins = !self.is_away;
        self.is_away = true;
        if begins && self.unlogged == 0 && !self.is_quiet(now) {
            *self = Self { is_away: true, is_logged_away: true, failed: 1, ..Self::quiet_from(now) };
            return Some(OutageLine::Gone);
        }
        self.failed += 1;
        self.unlogged += u64::from(begins);
        self.due(now)
    }

    fn answered(&mut self, now: Timestamp) -> Option<OutageLine> {
        self.is_away = false;
        if !self.is_logged_away {
            return self.due(now);
        }
        self.is_logged_away = false;
        let failed = std::mem::take(&mut self.failed);
        Some(OutageLine::Back { failed })
    }

    /// The line about gathered outages, once their time is up.
    fn due(&mut self, now: Timestamp) -> Option<OutageLine> {
        if self.is_quiet(now) { None } else { self.gathered_line(now) }
    }

    fn gathered_line(&mut self, now: Timestamp) -> Option<OutageLine> {
        let Self { is_away, unlogged: outages, failed, .. } = *self;
        if outages == 0 {
            return None;
        }
        *self = Self { is_away, is_logged_away: is_away, ..Self::quiet_from(now) };
        Some(OutageLine::Again { outages, failed, is_away })
    }

    fn is_quiet(&self, now: Timestamp) -> bool {
        // A clock that was set back does not make it quiet for longer.
        self.quiet_until.is_some_and(|until| now < until && until <= now + GAP)
    }

    fn quiet_from(now: Timestamp) -> Self {
        Self { quiet_until: Some(now + GAP), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc};
    use std::thread;

    use super::OutageLine::{Again, Back, Gone};
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_unix_millis(1_700_000_040_000) + Duration::from_secs(seconds)
    }

    /// A second outage within ten seconds of the last line was not logged at all, neither its beginning nor its end.
    #[test]
    fn outages_within_the_gap_are_logged_together() {
        let mut history = OutageHistory::default();
        assert_eq!(history.failed(at(0)), Some(Gone));
        assert_eq!(history.failed(at(1)), None);
        assert_eq!(history.answered(at(1)), Some(Back { failed: 2 }));
        for second in [2, 4] {
            assert_eq!(history.failed(at(second)), None);
            assert_eq!(history.failed(at(second)), None);
            assert_eq!(history.answered(at(second)), None);
        }
        assert_eq!(history.gathered_line(at(12)), Some(Again { outages: 2, failed: 4, is_away: false }));
        assert_eq!(history.gathered_line(at(24)), None, "each outage is logged once");
        assert_eq!(history.failed(at(13)), None, "a line about many is a line as well");
        assert_eq!(history.gathered_line(at(23)), Some(Again { outages: 1, failed: 1, is_away: true }));
        assert_eq!(history.failed(at(30)), None);
        assert_eq!(
            history.answered(at(30)),
            Some(Back { failed: 1 }),
            "a logged outage has a line about its end"
        );
    }

    #[test]
    fn an_outage_after_the_gap_has_lines_of_its_own() {
        let mut history = OutageHistory::default();
        assert_eq!(history.failed(at(0)), Some(Gone));
        assert_eq!(history.answered(at(1)), Some(Back { failed: 1 }));
        assert_eq!(history.failed(at(10)), Some(Gone));
        assert_eq!(history.answered(at(11)), Some(Back { failed: 1 }));
        assert_eq!(history.answered(at(12)), None);
    }

    /// The clock was set back by an hour. For that hour, neither outages nor gathered ones were logged.
    #[test]
    fn a_clock_that_was_set_back_hides_no_outage() {
        let mut history = OutageHistory::default();
        history.failed(at(7_200));
        history.answered(at(7_200));
        assert_eq!(history.failed(at(3_600)), Some(Gone));
    }

    /// Without a timer, the first step after the gap logs the gathered outages.
    #[test]
    fn gathered_outages_are_logged_by_the_first_step_after_the_gap() {
        for fails in [true, false] {
            let mut history = OutageHistory::default();
            history.failed(at(0));
            history.answered(at(0));
            history.failed(at(8));
            assert_eq!(history.answered(at(9)), None);
            let line = if fails { history.failed(at(11)) } else { history.answered(at(11)) };
            let (outages, failed) = if fails { (2, 2) } else { (1, 1) };
            assert_eq!(line, Some(Again { outages, failed, is_away: fails }));
        }
    }

    /// While outages were gathered, all answered steps of all threads waited for one lock.
    #[test]
    fn an_answer_does_not_wait_for_another() {
        let outages = Outages::default();
        outages.failed(drop);
        let (sender, answers) = mpsc::channel();
        let answer = thread::scope(|scope| {
            let history = outages.history();
            scope.spawn(|| sender.send(outages.answered(drop)));
            // If it waits, it would wait for ever.
            let answer = answers.recv_timeout(Duration::from_secs(60));
            drop(history);
            answer
        });
        assert_eq!(answer, Ok(None));
        assert_eq!(outages.answered(drop), Some(Back { failed: 1 }));
    }

    /// Requests were admitted uncounted before the line about the outage, and its end was logged before its beginning.
    #[test]
    fn steps_wait_for_the_line_about_the_outage() {
        let (outages, begun, is_logged) = (Outages::default(), Barrier::new(2), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                outages.failed(|line| {
                    assert_eq!(line, Gone);
                    begun.wait();
                    (0..10_000).for_each(|_| thread::yield_now());
                    is_logged.store(true, Ordering::SeqCst);
                });
            });
            begun.wait();
            assert_eq!((outages.failed(drop), is_logged.load(Ordering::SeqCst)), (None, true));
        });
    }

    #[test]
    fn an_answer_looks_at_the_story_only_if_it_may_end_an_outage() {
        let outages = Outages::default();
        let is_awaiting = || outages.is_awaiting.load(Ordering::Relaxed);
        assert_eq!((outages.answered(drop), is_awaiting()), (None, false));
        assert_eq!((outages.failed(drop), is_awaiting()), (Some(Gone), true));
        assert_eq!((outages.answered(drop), is_awaiting()), (Some(Back { failed: 1 }), false));
        assert_eq!((outages.failed(drop), outages.answered(drop)), (None, None));
        assert!(is_awaiting() && outages.are_gathered(), "a line is still to come");
        assert_eq!(outages.gathered(drop), Some(Again { outages: 1, failed: 1, is_away: false }));
        assert!(!is_awaiting() && !outages.are_gathered());
    }
}
