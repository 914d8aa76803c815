//! A period of talkers: five minutes of the keys of one policy or rule.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Key, Timestamp};

use super::memory::Memory;
use super::summary::Summary;

/// What talkers are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TalkersBy {
    /// All requests that the policy counted.
    Checks,
    /// Those that it denied.
    Denials,
}

/// Which period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeriodChoice {
    /// The one that runs.
    Current,
    /// The one before it.
    Last,
}

impl TalkersBy {
    pub(crate) const ALL: [Self; 2] = [Self::Checks, Self::Denials];

    /// Returns its name in queries and answers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Checks => "checks",
            Self::Denials => "denied",
        }
    }
}

impl PeriodChoice {
    pub(crate) const ALL: [Self; 2] = [Self::Current, Self::Last];

    /// Returns its name in queries and answers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Last => "last",
        }
    }
}

/// The requests of one period.
#[derive(Debug)]
pub(super) struct Period {
    /// Counted from the epoch, so that the periods of all processes begin at the same time.
    number: i64,
    /// Later than the beginning of the period if nothing was counted there.
    pub(super) since: Timestamp,
    pub(super) checks: PeriodCounts,
    pub(super) denials: PeriodCounts,
}

/// The requests of one period by one measure.
#[derive(Debug, Default)]
pub(super) struct PeriodCounts {
    /// `None` before the first request, or without memory.
    pub(super) summary: Option<Summary>,
    /// Requests that are in no summary, because another thread was counting or because there is no memory.
    pub(super) skipped: u64,
}

/// The period that runs, and the one before it.
#[derive(Debug)]
pub(super) struct Periods {
    pub(super) current: Period,
    pub(super) last: Period,
}

const PERIOD: Duration = Duration::from_secs(300);

const PERIOD_MS: i64 = PERIOD.as_millis() as i64;

/// The rows of a policy that began to count when memory was scarce.
const FEW_ROWS: usize = 32;

impl Periods {
    /// Nothing was counted before this time.
    pub(super) fn new(now: Timestamp) -> Self {
        let number = number_at(now);
        Self { current: Period::new(number, now), last: Period::new(number - 1, start_of(number)) }
    }

    /// Ends the current period if its time is over. Returns whether it was.
    pub(super) fn advance(&mut self, now: Timestamp) -> bool {
        let number = number_at(now);
        // The clock of a process never steps back.
        if number <= self.current.number {
            return false;
        }
        std::mem::swap(&mut self.current, &mut self.last);
        if self.last.number != number - 1 {
            self.last.restart(number - 1);
        }
        // In the memory of the period before the last one.
        self.current.restart(number);
        true
    }

    pub(super) const fn of(&self, choice: PeriodChoice) -> &Period {
        match choice {
            PeriodChoice::Current => &self.current,
            PeriodChoice::Last => &self.last,
        }
    }

    /// Returns the bytes in use.
    pub(super) fn memory_bytes(&self) -> usize {
        let counts = [&self.current.checks, &self.current.denials, &self.last.checks, &self.last.denials];
        counts.iter().filter_map(|counts| counts.summary.as_ref()).map(Summary::memory_bytes).sum()
    }
}

impl Period {
    fn new(number: i64, since: Timestamp) -> Self {
        Self { number, since, checks: PeriodCounts::default(), denials: PeriodCounts::default() }
    }

    fn restart(&mut self, number: i64) {
        (self.number, self.since) = (number, start_of(number));
        self.checks.clear();
        self.denials.clear();
    }

    pub(super) const fn by(&self, by: TalkersBy) -> &PeriodCounts {
        match by {
            TalkersBy::Checks => &self.checks,
            TalkersBy::Denials => &self.denials,
        }
    }

    /// Returns its end.
    pub(super) fn end(&self) -> Timestamp {
        start_of(self.number + 1)
    }
}

impl PeriodCounts {
    pub(super) fn count(&mut self, id: u64, key: &Key<'_>, memory: &Arc<Memory>) {
        let rows = || if memory.is_scarce() { FEW_ROWS } else { Summary::MAX_ROWS };
        if self.summary.is_none() {
            self.summary = Summary::new(rows(), memory);
        }
        match &mut self.summary {
            Some(summary) => summary.count(id, key, memory),
            None => self.skipped += 1,
        }
    }

    fn clear(&mut self) {
        self.summary.iter_mut().for_each(Summary::clear);
        self.skipped = 0;
    }
}

fn number_at(now: Timestamp) -> i64 {
    now.as_unix_millis().div_euclid(PERIOD_MS)
}

fn start_of(number: i64) -> Timestamp {
    Timestamp::from_unix_millis(number.saturating_mul(PERIOD_MS))
}
