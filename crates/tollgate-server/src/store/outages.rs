//! Logs when a shared store stops answering, and when it answers again.
//!
//! An outage has one line when it begins and one when it ends. Outages that begin within ten seconds of such a first
//! line share one line at the end of that time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time;
use tollgate::{Clock, SystemClock, Timestamp};
use tracing::{info, warn};

/// How long further outages are gathered after the first line of one.
const GAP: Duration = Duration::from_secs(10);

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Outages {
    /// A copy of the story's field, readable without its lock. While the store works, nothing else is read.
    is_away: AtomicBool,
    story: Mutex<Story>,
    gathered: Notify,
}

/// What was logged, and what is still to be logged.
#[derive(Debug, Default)]
struct Story {
    is_away: bool,
    /// Whether the last line said that the store does not answer.
    is_told_away: bool,
    /// Outages that begin before this time are gathered.
    quiet_until: Option<Timestamp>,
    /// Outages that were not logged yet.
    untold: u64,
    /// Failed steps since the last line.
    failed: u64,
}

/// A log line about outages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// An outage begins.
    Gone,
    /// The last logged outage has ended; this many steps failed during it.
    Back { failed: u64 },
    /// This many outages began since the last line, with this many failed steps. The last one may continue.
    Again { outages: u64, failed: u64, is_away: bool },
}

impl Outages {
    /// Notes a failed step. Returns whether to log the beginning of an outage, with its reason.
    pub(super) fn failed(&self, now: Timestamp) -> bool {
        let line = self.change(|story| {
            let line = story.failed(now);
            if story.untold > 0 {
                self.gathered.notify_one();
            }
            line
        });
        line == Some(Line::Gone)
    }

    /// Notes an answered step, and logs the end of an outage.
    pub(super) fn answered(&self) {
        // Relaxed: the flag guards no other memory, and the next step sees what this one misses.
        if self.is_away.load(Ordering::Relaxed)
            && let Some(Line::Back { failed }) = self.change(Story::answered)
        {
            info!(failed, "the store answers again");
        }
    }

    /// Keeps logging gathered outages, each time after the gap.
    pub(crate) async fn keep_telling(&self) {
        loop {
            self.gathered.notified().await;
            time::sleep(GAP).await;
            self.tell();
        }
    }

    /// Logs the gathered outages.
    pub(crate) fn tell(&self) {
        if let Some(Line::Again { outages, failed, is_away }) =
            self.change(|story| story.told(SystemClock.now()))
        {
            let store = if is_away { "is away" } else { "answers" };
            warn!(outages, failed, store, "the store was away again since the last line about it");
        }
    }

    fn change(&self, change: impl FnOnce(&mut Story) -> Option<Line>) -> Option<Line> {
        // No change under this lock can be left half made.
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        let line = change(&mut story);
        self.is_away.store(story.is_away, Ordering::Relaxed);
        line
    }
}

impl Story {
    fn failed(&mut self, now: Timestamp) -> Option<Line> {
        let begins = !self.is_away;
        self.is_away = true;
        if begins && self.untold == 0 && self.quiet_until.is_none_or(|until| now >= until) {
            *self = Self { is_away: true, is_told_away: true, failed: 1, ..Self::quiet_from(now) };
            return Some(Line::Gone);
        }
        self.failed += 1;
        self.untold += u64::from(begins);
        None
    }

    fn answered(&mut self) -> Option<Line> {
        self.is_away = false;
        if !self.is_told_away {
            return None;
        }
        self.is_told_away = false;
        let failed = std::mem::take(&mut self.failed);
        Some(Line::Back { failed })
    }

    fn told(&mut self, now: Timestamp) -> Option<Line> {
        let Self { is_away, untold: outages, failed, .. } = *self;
        if outages == 0 {
            return None;
        }
        *self = Self { is_away, is_told_away: is_away, ..Self::quiet_from(now) };
        Some(Line::Again { outages, failed, is_away })
    }

    fn quiet_from(now: Timestamp) -> Self {
        Self { quiet_until: Some(now + GAP), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_unix_millis(1_700_000_040_000) + Duration::from_secs(seconds)
    }

    /// A second outage within ten seconds of the last line was not logged at all, neither its beginning nor its end.
    #[test]
    fn outages_within_the_gap_are_logged_together() {
        let mut story = Story::default();
        assert_eq!(story.failed(at(0)), Some(Line::Gone));
        assert_eq!(story.failed(at(1)), None);
        assert_eq!(story.answered(), Some(Line::Back { failed: 2 }));
        for second in [2, 4] {
            assert_eq!(story.failed(at(second)), None);
            assert_eq!(story.failed(at(second)), None);
            assert_eq!(story.answered(), None);
        }
        assert_eq!(story.told(at(12)), Some(Line::Again { outages: 2, failed: 4, is_away: false }));
        assert_eq!(story.told(at(24)), None, "it is told once");
        assert_eq!(story.failed(at(13)), None, "a line about many is a line as well");
        assert_eq!(story.told(at(23)), Some(Line::Again { outages: 1, failed: 1, is_away: true }));
        assert_eq!(story.failed(at(30)), None);
        assert_eq!(story.answered(), Some(Line::Back { failed: 1 }), "one that is told ends with a line");
    }

    #[test]
    fn an_outage_after_the_gap_has_lines_of_its_own() {
        let mut story = Story::default();
        assert_eq!(story.failed(at(0)), Some(Line::Gone));
        assert_eq!(story.answered(), Some(Line::Back { failed: 1 }));
        assert_eq!(story.failed(at(10)), Some(Line::Gone));
        assert_eq!(story.answered(), Some(Line::Back { failed: 1 }));
        assert_eq!(story.answered(), None);
    }

    /// Gathered outages would have been logged after later events.
    #[test]
    fn gathered_outages_are_logged_before_the_next() {
        let mut story = Story::default();
        story.failed(at(0));
        story.answered();
        story.failed(at(9));
        story.answered();
        assert_eq!(story.failed(at(11)), None);
        assert_eq!(story.told(at(19)), Some(Line::Again { outages: 2, failed: 2, is_away: true }));
    }
}
