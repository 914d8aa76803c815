//! The log, `3/1m~log`: every charge counts until exactly one window's length has passed since it.
//!
//! So never more than the limit is admitted in any time that is shorter than a window. For large limits, charges are
//! logged in steps, `5000/1h~log:1m`: those of one step are one entry, and leave a window's length after the step's last
//! millisecond. The promise is the same; a unit may come back later by up to a step.

use super::Mark;
use crate::Timestamp;

/// The bits of an entry's units; the others have its step.
const UNITS: u32 = 24;

/// Room is taken for so many entries at a time.
const BLOCK: usize = 3;

/// Charges that count until they leave, the oldest first: for each step its number since the epoch, and its units.
///
/// An entry takes eight bytes. Room is taken and given back for three at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogEntries {
    /// The step from which those of the entries are counted.
    base: i64,
    /// The distance from it, then the units.
    packed: Vec<u64>,
}

/// A log at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogStanding {
    entries: LogEntries,
    used: u64,
    /// The lengths of a window and of a step, in milliseconds.
    window: u64,
    step: u64,
    now: Timestamp,
}

impl LogEntries {
    /// The most entries, 256. More would take long to read, and too much memory for one key.
    pub const MAX_LEN: usize = 256;

    /// The largest count of a log, and so its largest limit: 2^24 - 1.
    pub const MAX_UNITS: u64 = (1 << UNITS) - 1;

    /// Returns an empty log.
    #[must_use]
    pub const fn new() -> Self {
        Self { base: 0, packed: Vec::new() }
    }

    /// Returns the steps, numbered since the epoch, with their units.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (i64, u64)> {
        let entry =
            |packed: &u64| (self.base.saturating_add_unsigned(packed >> UNITS), packed & Self::MAX_UNITS);
        self.packed.iter().map(entry)
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packed.len()
    }

    /// Returns whether nothing is logged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// Adds units to a step that is not before the last one.
    pub fn push(&mut self, step: i64, units: u64) {
        let units = units.min(Self::MAX_UNITS);
        if let Some(last) = self.packed.last_mut()
            && self.base.saturating_add_unsigned(*last >> UNITS) >= step
        {
            *last += units.min(Self::MAX_UNITS - (*last & Self::MAX_UNITS));
            return;
        }
        if self.packed.len() >= Self::MAX_LEN {
            self.join_oldest();
        }
        if self.packed.is_empty() {
            self.base = step;
        } else if step.abs_diff(self.base) >= 1 << (64 - UNITS) {
            self.rebase();
        }
        if self.packed.len() == self.packed.capacity() {
            self.packed.reserve_exact(BLOCK - self.packed.len() % BLOCK);
        }
        self.packed.push(step.abs_diff(self.base) << UNITS | units);
    }

    /// Makes one of the two oldest, in the later step, so that they leave later and never earlier.
    fn join_oldest(&mut self) {
        if let [first, second, ..] = self.packed.as_mut_slice() {
            let units = (*first & Self::MAX_UNITS) + (*second & Self::MAX_UNITS);
            *second = *second & !Self::MAX_UNITS | units.min(Self::MAX_UNITS);
            self.packed.remove(0);
        }
    }

    fn rebase(&mut self) {
        let first = self.packed.first().map_or(0, |first| first >> UNITS);
        self.base = self.base.saturating_add_unsigned(first);
        self.packed.iter_mut().for_each(|entry| *entry -= first << UNITS);
    }

    /// Removes the entries that have left.
    fn retain_from(&mut self, first: usize) {
        if first > 0 {
            self.packed.drain(..first);
            self.give_back_room();
        }
    }

    /// Removes the latest entries, so many of them, and returns their units.
    fn take_latest(&mut self, entries: usize) -> u64 {
        let first = self.packed.len().saturating_sub(entries);
        self.packed.drain(first..).map(|entry| entry & Self::MAX_UNITS).sum()
    }

    /// Gives back the room of entries that are gone, but for one block, which the next entries would take again.
    fn give_back_room(&mut self) {
        if self.packed.capacity() - self.packed.len() > BLOCK {
            self.packed.shrink_to(self.packed.len().next_multiple_of(BLOCK));
        }
    }

    fn take_units(&mut self, step: i64, units: u64) -> u64 {
        let base = self.base;
        let place = self.packed.iter().position(|entry| base.saturating_add_unsigned(entry >> UNITS) == step);
        let Some(place) = place else { return 0 };
        let given = units.min(self.packed[place] & Self::MAX_UNITS);
        self.packed[place] -= given;
        if self.packed[place] & Self::MAX_UNITS == 0 {
            self.packed.remove(place);
            self.give_back_room();
        }
        given
    }
}

/// Collects steps, numbered since the epoch and in ascending order, with their units.
impl FromIterator<(i64, u64)> for LogEntries {
    fn from_iter<I: IntoIterator<Item = (i64, u64)>>(entries: I) -> Self {
        let mut log = Self::default();
        entries.into_iter().for_each(|(step, units)| log.push(step, units));
        log
    }
}

impl LogStanding {
    /// Returns the log now, with lengths in milliseconds, and whether some of its entries lay in the future, because the
    /// clock has stepped back. These count from now.
    #[must_use]
    pub fn at(mut entries: LogEntries, window: u64, step: u64, now: Timestamp) -> (Self, bool) {
        let current = step_of(now, step);
        let mut standing = Self { entries: LogEntries::default(), used: 0, window, step, now };
        let left = entries.iter().take_while(|(entry, _)| standing.leaves(*entry) <= now).count();
        entries.retain_from(left);
        let ahead = entries.iter().rev().take_while(|(entry, _)| *entry > current).count();
        if ahead > 0 {
            let units = entries.take_latest(ahead);
            entries.push(current, units);
            entries.give_back_room();
        }
        standing.used = entries.iter().map(|(_, units)| units).sum();
        standing.entries = entries;
        (standing, ahead > 0)
    }

    /// The first millisecond at which the units of a step do not count any more.
    fn leaves(&self, entry: i64) -> Timestamp {
        let last = entry.saturating_add(1).saturating_mul(self.step.cast_signed()).saturating_sub(1);
        Timestamp::from_unix_millis(last).saturating_add_millis(self.window)
    }

    /// Returns the units that count.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Returns the log with this many more units, up to the largest count.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "units are no log")]
    pub fn add(mut self, units: u64) -> Self {
        let units = units.min(LogEntries::MAX_UNITS.saturating_sub(self.used));
        if units > 0 {
            self.entries.push(step_of(self.now, self.step), units);
            self.used += units;
        }
        self
    }

    /// Returns the first millisecond at which no more than `target` units count, if none are charged until then.
    #[must_use]
    pub fn when(&self, target: u64) -> Timestamp {
        let mut used = self.used;
        for (entry, units) in self.entries.iter() {
            if used <= target {
                break;
            }
            used -= units;
            if used <= target {
                return self.leaves(entry);
            }
        }
        self.now
    }

    /// Returns the time from which nothing counts.
    #[must_use]
    pub fn reset_at(&self) -> Timestamp {
        self.entries.iter().next_back().map_or(self.now, |(last, _)| self.leaves(last))
    }

    /// Returns what a refund of at most `units` gives back of the charges in the marked step, and the log after it.
    #[must_use]
    pub fn give_back(mut self, units: u64, mark: Mark) -> (u64, Self) {
        let given = self.entries.take_units(step_of(mark.time(), self.step), units);
        self.used -= given;
        (given, self)
    }

    /// Returns the log with exactly this many units, all charged now.
    #[must_use]
    pub fn set(mut self, units: u64) -> Self {
        (self.entries, self.used) = (LogEntries::default(), 0);
        self.add(units)
    }

    /// Returns the log at a later time.
    #[must_use]
    pub fn later(self, now: Timestamp) -> Self {
        Self::at(self.entries, self.window, self.step, now).0
    }

    /// Returns how many entries there are after another charge.
    pub(crate) fn entries_with_another(&self) -> usize {
        let last = self.entries.iter().next_back();
        let is_new = last.is_none_or(|(last, _)| last < step_of(self.now, self.step));
        (self.entries.len() + usize::from(is_new)).min(LogEntries::MAX_LEN)
    }

    /// Returns the entries that count.
    #[must_use]
    pub const fn entries(&self) -> &LogEntries {
        &self.entries
    }

    /// Returns the entries that count, for a store to keep.
    #[must_use]
    pub fn into_entries(self) -> LogEntries {
        self.entries
    }

    /// Returns the mark of a charge that is made now.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        Mark::at(self.now)
    }
}

fn step_of(time: Timestamp, step: u64) -> i64 {
    time.as_unix_millis().div_euclid(step.cast_signed())
}

/// Returns the most entries that a log of this limit holds, if no charge goes without asking for room.
pub(crate) fn max_entries(limit: u64, window: u64, step: u64) -> u64 {
    limit.min(window / step + 2)
}

/// Returns the shortest round step with which a log of windows of this length fits, in milliseconds.
pub(crate) fn fitting_step(window: u64) -> u64 {
    const ROUND: [u64; 7] = [1, 2, 5, 10, 15, 20, 30];
    const UNITS: [u64; 5] = [1, 100, 1_000, 60_000, 3_600_000];
    let least = window.div_ceil(LogEntries::MAX_LEN as u64 - 2);
    let mut steps = UNITS.iter().flat_map(|unit| ROUND.iter().map(move |round| round * unit));
    let day = 86_400_000;
    steps.find(|step| *step >= least).unwrap_or_else(|| least.next_multiple_of(day))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_unix_millis(NOW + millis)
    }

    /// A log whose entries a step back had put together kept the room of all of them, and so did one whose charges were
    /// given back, while their places of the cap were free for others.
    #[test]
    fn a_log_has_room_only_for_the_entries_that_it_counts() {
        let log = || (0..100).map(|millis| (NOW + millis, 1)).collect();
        let placed = |now| LogStanding::at(log(), 60_000, 1, at(now)).0;
        let check = |log: &LogStanding, entries: usize| {
            assert_eq!(log.entries.len(), entries);
            assert!(log.entries.packed.capacity() <= entries + BLOCK);
        };
        check(&placed(-5_000), 1);
        check(&placed(9), 10);
        check(&placed(60_097), 2);
        check(&placed(99).set(7), 1);
        let mut log = placed(99);
        for millis in 0..100 {
            (_, log) = log.give_back(1, Mark::at(at(millis)));
            check(&log, 99 - millis.unsigned_abs() as usize);
        }
        // A copy has no spare room, wherever it ends.
        let mut copy = placed(99).set(1).later(at(100));
        for entries in 2..20 {
            copy = copy.clone().later(at(99 + i64::from(entries))).add(1);
            check(&copy, entries as usize);
        }
    }
}
