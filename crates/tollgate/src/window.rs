//! One concrete interval of a quota, and the arithmetic that finds it.
//!
//! Pure functions of the time, without clocks and counts.

use std::time::Duration;

use crate::Timestamp;

/// One interval `[start, end)` in which units are counted: `start` belongs to it, `end` to the next one.
///
/// At `start + length - 1 ms` a unit still counts in this window, one millisecond later in the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    start: Timestamp,
    end: Timestamp,
}

impl Window {
    /// Returns the interval from `start` up to but not including `end`; empty if `end` is not after `start`.
    #[must_use]
    pub const fn new(start: Timestamp, end: Timestamp) -> Self {
        Self { start, end }
    }

    /// Returns the aligned window that holds `now`: `start = now - ((now - offset) mod length)`, Euclidean, so that it
    /// works before 1970 too. A length below 1 ms counts as 1 ms.
    #[must_use]
    pub fn aligned(now: Timestamp, length: Duration, offset: Duration) -> Self {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self::aligned_millis(now, millis(length).max(1), millis(offset))
    }

    pub(crate) fn aligned_millis(now: Timestamp, length: u64, offset: u64) -> Self {
        // The offset is subtracted from the remainder, not from the time, so that nothing can wrap.
        let signed_length = i64::try_from(length).unwrap_or(i64::MAX);
        let length = signed_length.unsigned_abs();
        let remainder = now.as_unix_millis().rem_euclid(signed_length).unsigned_abs();
        let offset = offset % length;
        let since_start =
            if remainder >= offset { remainder - offset } else { length - (offset - remainder) };
        Self {
            start: now.saturating_sub_millis(since_start),
            end: now.saturating_add_millis(length - since_start),
        }
    }

    /// The window of this length that opens now.
    pub(crate) fn opening_at(now: Timestamp, length: u64) -> Self {
        Self { start: now, end: now.saturating_add_millis(length) }
    }

    /// Returns the first millisecond that belongs to the window.
    #[must_use]
    pub const fn start(&self) -> Timestamp {
        self.start
    }

    /// Returns the first millisecond that no longer belongs to the window: the next window's start.
    #[must_use]
    pub const fn end(&self) -> Timestamp {
        self.end
    }

    /// From `start` to `end`. A calendar day may have 23 or 25 hours.
    #[must_use]
    pub const fn length(&self) -> Duration {
        self.end.since(self.start)
    }

    /// Returns whether `start <= time < end`.
    #[must_use]
    pub fn contains(&self, time: Timestamp) -> bool {
        self.start <= time && time < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains_its_start_and_not_its_end() {
        let at = Timestamp::from_unix_millis;
        let window = Window::new(at(1_000), at(2_000));
        assert_eq!(
            [999, 1_000, 1_999, 2_000].map(|time| window.contains(at(time))),
            [false, true, true, false]
        );
    }

    /// Every time from -60 to 60, every length up to 13 and every offset up to 40, so below, at and above the length;
    /// and the same around the times where the arithmetic could wrap. The definition is searched for: the one interval
    /// of this length that holds the time and begins a whole number of lengths from the offset.
    #[test]
    fn is_the_interval_of_the_definition() {
        let farthest = i128::from(i64::MAX) - 100;
        let spots = [0, 1 << 31, -(1 << 31), 1 << 53, -(1 << 53), farthest, -farthest];
        let times = spots.into_iter().flat_map(|spot| (-60..=60_i128).map(move |near| spot + near));
        for now in times {
            for (length, offset) in
                (1..=13_i128).flat_map(|length| (0..=40).map(move |offset| (length, offset)))
            {
                let mut starts = now - length + 1..=now;
                let start = starts.find(|start| (start - offset) % length == 0).expect("one of them is");
                let at = |time: i128| Timestamp::from_unix_millis(i64::try_from(time).unwrap());
                let expected = Window::new(at(start), at(start + length));
                let found = Window::aligned_millis(at(now), length as u64, offset as u64);
                assert_eq!(found, expected, "now {now}, length {length}, offset {offset}");
            }
        }
    }

    #[test]
    fn stays_ordered_at_the_ends_of_time() {
        for now in [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX] {
            let now = Timestamp::from_unix_millis(now);
            let window = Window::aligned_millis(now, 60_000, 59_999);
            assert!(window.start() <= now && now <= window.end(), "{window:?}");
        }
    }
}
