//! The bucket, `100/1m~burst:20`: up to `burst` units at once, and the limit in each window's length over time.
//!
//! The token bucket, the leaky bucket as a meter and GCRA are this one rule. A bucket fills by the units that are
//! charged and drains at the limit's rate: one unit in `p/q` milliseconds, with `p/q = window / limit` in lowest terms.
//! Its state is one instant, at which all units are back: whole milliseconds and a fraction in `1/q`. So nothing is
//! rounded, and rates do not drift.

use super::Mark;
use crate::{Quota, Timestamp};

/// The largest `q`, so that a fraction of a millisecond fits into 22 bits.
const MAX_PARTS: u64 = 1 << 22;
/// The largest `burst * p`, so that twice of it is exact in a double, which Lua counts with.
const MAX_LEVEL: u64 = 1 << 51;
/// The longest time that a full bucket takes to drain, in milliseconds: ten years.
const MAX_DRAIN: u64 = 3_653 * 24 * 60 * 60 * 1_000;

/// The rate and the size of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    /// With `parts`, the time of one unit: `unit / parts` milliseconds.
    unit: u64,
    parts: u64,
    burst: u64,
    /// What drains in a window, as a level, or as much of it as a level can be.
    window: u64,
}

/// The reason why there is no such bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BucketError {
    /// The limit and the window have no common divisor that is large enough.
    TooFine,
    /// A full bucket takes more than ten years to drain.
    TooSlow,
}

/// An instant as exact as a bucket needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExactInstant {
    /// Whole milliseconds, rounded down.
    pub millis: Timestamp,
    /// The rest, in [parts](Bucket::parts) of a millisecond.
    pub parts: u64,
}

/// A bucket at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstStanding {
    bucket: Bucket,
    now: Timestamp,
    /// The time until all units are back, in parts of a millisecond.
    level: u64,
    /// The units that this is, rounded up: kept, because a division takes as long as the rest of a decision.
    used: u64,
}

impl Bucket {
    /// Returns the bucket that drains `limit` units in this many milliseconds, and holds `burst` units. Without a limit
    /// or a burst, it has no room for any.
    pub(crate) fn new(limit: u64, window: u64, burst: u64) -> Result<Self, BucketError> {
        let exact = Self::reduced(limit, window, burst);
        if exact.parts > MAX_PARTS {
            Err(BucketError::TooFine)
        } else if exact.burst > exact.largest_burst() {
            Err(BucketError::TooSlow)
        } else {
            Ok(exact)
        }
    }

    /// Returns the bucket with these numbers or, if there is none, with the nearest lower rate and the largest burst.
    pub(crate) fn near(limit: u64, window: u64, burst: u64) -> Self {
        let mut bucket = Self::reduced(limit, window, burst);
        if bucket.parts > MAX_PARTS {
            let unit = u128::from(bucket.unit) * u128::from(MAX_PARTS);
            // No more than before, because the parts are fewer.
            bucket.unit = u64::try_from(unit.div_ceil(u128::from(bucket.parts))).unwrap_or(bucket.unit);
            bucket.parts = MAX_PARTS;
            bucket.window = window.saturating_mul(MAX_PARTS).min(2 * MAX_LEVEL);
        }
        Self { burst: bucket.burst.min(bucket.largest_burst()), ..bucket }
    }

    /// Returns the bucket that has these numbers: [`unit`](Self::unit), [`parts`](Self::parts),
    /// [`highest_level`](Self::highest_level) and [`kept_level`](Self::kept_level), or `None` if there is none. A store
    /// that remembers the level of a bucket remembers these, because the limit may change.
    #[must_use]
    pub fn with_numbers([unit, parts, highest, kept]: [u64; 4]) -> Option<Self> {
        let is_possible = unit > 0 && (1..=MAX_PARTS).contains(&parts) && highest.max(kept) <= 2 * MAX_LEVEL;
        let burst = is_possible.then(|| (highest / unit).div_ceil(2))?;
        let bucket = Self { unit, parts, burst, window: kept };
        (bucket.highest_level() == highest && bucket.kept_level() == kept).then_some(bucket)
    }

    fn reduced(limit: u64, window: u64, burst: u64) -> Self {
        let (burst, limit) = if limit == 0 { (0, 1) } else { (burst, limit) };
        let divisor = greatest_common_divisor(limit, window);
        let (unit, parts) = (window / divisor, limit / divisor);
        Self { unit, parts, burst, window: window.saturating_mul(parts).min(2 * MAX_LEVEL) }
    }

    fn largest_burst(&self) -> u64 {
        // Parts fit into 22 bits, and ten years in milliseconds into 39.
        MAX_LEVEL.min(MAX_DRAIN * self.parts) / self.unit
    }

    /// Returns the numerator of the time of one unit, in [parts](Self::parts) of a millisecond.
    #[must_use]
    pub const fn unit(&self) -> u64 {
        self.unit
    }

    /// Returns the number of parts in which a millisecond is counted, at most 2^22.
    #[must_use]
    pub const fn parts(&self) -> u64 {
        self.parts
    }

    /// Returns the units that it holds.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// Returns the highest level that charges reach which do not ask for room: twice the burst, or 2^40 - 1 units if that
    /// is less.
    #[must_use]
    pub const fn highest_level(&self) -> u64 {
        // A bucket for nothing still drains what an earlier limit admitted.
        let most = if self.burst == 0 { 2 } else { 2 * self.burst };
        self.unit * if most < Quota::MAX_LIMIT { most } else { Quota::MAX_LIMIT }
    }

    /// Returns the highest level that is kept: twice the burst, or what drains in a window if that is more. Above it, the
    /// clock has stepped back, and the level falls to twice the burst. Below it, a request with a larger burst may have
    /// charged the same counter.
    #[must_use]
    pub const fn kept_level(&self) -> u64 {
        let highest = self.highest_level();
        if self.window > highest { self.window } else { highest }
    }
}

impl BurstStanding {
    /// Returns the bucket now, if all units are back at that instant, and whether it had to be brought back to its
    /// [highest level](Bucket::highest_level), because it was above what is [kept](Bucket::kept_level).
    #[must_use]
    #[inline]
    pub fn at(bucket: Bucket, all_back: ExactInstant, now: Timestamp) -> (Self, bool) {
        let whole = all_back.millis.as_unix_millis().saturating_sub(now.as_unix_millis());
        let level = match u64::try_from(whole) {
            Ok(whole) => whole.saturating_mul(bucket.parts).saturating_add(all_back.parts),
            Err(_) => 0,
        };
        let is_above = level > bucket.kept_level();
        (Self::with_level(bucket, if is_above { bucket.highest_level() } else { level }, now), is_above)
    }

    /// Returns the bucket with this level, in parts of a millisecond.
    #[must_use]
    #[inline]
    pub fn with_level(bucket: Bucket, level: u64, now: Timestamp) -> Self {
        let level = level.min(bucket.kept_level());
        Self { bucket, now, level, used: level.div_ceil(bucket.unit) }
    }

    pub(crate) const fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// Returns whether all units are back.
    pub(crate) const fn is_empty(&self) -> bool {
        self.level == 0
    }

    /// Returns the same bucket at a later time.
    #[must_use]
    pub fn later(&self, now: Timestamp) -> Self {
        let drained = now.millis_since(self.now).saturating_mul(self.bucket.parts);
        Self::with_level(self.bucket, self.level.saturating_sub(drained), now)
    }

    /// Returns the units that are not back, rounded up.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Returns the bucket with this many more units.
    #[must_use]
    #[inline]
    pub fn add(&self, units: u64) -> Self {
        let level = self.level.saturating_add(units.saturating_mul(self.bucket.unit));
        if level <= self.bucket.highest_level() {
            // Whole units are added, so usage needs no division.
            Self { level, used: self.used + units, ..*self }
        } else {
            // Whole units are added, up to the most that a count can have.
            let units = units.min(Quota::MAX_LIMIT.saturating_sub(self.used));
            let level = self.level.saturating_add(units.saturating_mul(self.bucket.unit));
            Self::with_level(self.bucket, level.min(self.bucket.highest_level().max(self.level)), self.now)
        }
    }

    /// Returns the first millisecond at which no more than `target` units are used, if none are charged until then.
    #[must_use]
    #[inline]
    pub const fn when(&self, target: u64) -> Timestamp {
        let above = self.level.saturating_sub(target.saturating_mul(self.bucket.unit));
        // Usual rates take whole milliseconds, and a division takes long.
        let millis = if self.bucket.parts == 1 { above } else { above.div_ceil(self.bucket.parts) };
        self.now.saturating_add_millis(millis)
    }

    /// Returns what a refund of at most `units` gives back of a charge with this mark, and the bucket after it: only
    /// what has not come back by itself.
    #[must_use]
    pub fn give_back(&self, units: u64, mark: Mark) -> (u64, Self) {
        let outstanding = mark.time().millis_since(self.now);
        let outstanding =
            u128::from(outstanding) * u128::from(self.bucket.parts) / u128::from(self.bucket.unit);
        let given = units.min(self.used()).min(u64::try_from(outstanding).unwrap_or(u64::MAX));
        let level = self.level.saturating_sub(given.saturating_mul(self.bucket.unit));
        (given, Self::with_level(self.bucket, level, self.now))
    }

    /// Returns the bucket with exactly this many units, or as many as it can hold.
    #[must_use]
    pub fn set(&self, units: u64) -> Self {
        let level = units.saturating_mul(self.bucket.unit).min(self.bucket.highest_level());
        Self::with_level(self.bucket, level, self.now)
    }

    /// Returns the instant at which all units are back.
    #[must_use]
    #[inline]
    pub const fn all_back(&self) -> ExactInstant {
        let (whole, parts) = match self.bucket.parts {
            1 => (self.level, 0),
            parts => (self.level / parts, self.level % parts),
        };
        ExactInstant { millis: self.now.saturating_add_millis(whole), parts }
    }

    /// Returns the mark of the last charge: the first millisecond at which all units are back.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        Mark::at(self.when(0))
    }
}

const fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}
