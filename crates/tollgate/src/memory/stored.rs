//! The state of a counter as its slot keeps it, and what it comes to at a time.
//!
//! Pure functions. A slot keeps two numbers of a counter whatever its [kind](crate::kind): a level, and the time from
//! which the counter surely holds nothing, so that counters are swept without asking which kind they are.

use crate::kind::{
    Bucket, BurstStanding, ExactInstant, KindStanding, LogEntries, LogStanding, MAX_COUNT, STEP,
    SlidingStanding, SlidingState, Standing, WindowStanding,
};
use crate::quota::Series;
use crate::{Counter, Key, Quota, Timestamp, Window};

/// The stored state of a counter: a level, and the time from which it holds nothing.
///
/// | kind | level | end |
/// |---|---|---|
/// | window | units used | the window's end |
/// | burst | milliseconds from the end back to the instant at which all units are back, then its fraction in 22 bits | the first whole second after that instant |
/// | log | none: it is [kept apart](super::logs) | |
/// | sliding | the units of the previous and of the current window, in 16 bits each if they fit | the end of the next window |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) level: u64,
    pub(super) end: Timestamp,
}

/// The state of a counter that a step finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StoredCounter {
    Held(State),
    /// A log, which no slot can hold.
    Log(Box<LogEntries>),
    /// Nothing. This counter may have been dropped; its window then ended no later than this.
    Absent {
        dropped_until: Timestamp,
    },
}

/// A counter at one time, and how it came there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlacedCounter<S = Standing> {
    pub(super) standing: S,
    pub(super) course: Course,
}

/// How a counter came to what it holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// It was in its window, or its bucket still holds units.
    Stayed,
    /// It held nothing, or what it held is over; a sliding window has moved on.
    Opened,
    /// It was in a window that begins more than a second after now, or its bucket held more than it can, because the
    /// clock has stepped back; or it holds nothing, and a dropped counter ended that much later. Even steps that charge
    /// nothing write this. Otherwise the counter would deny for as long as the step.
    MovedBack,
}

impl PlacedCounter<WindowStanding> {
    /// A counter of fixed windows of this length whose window is open, as nearly always.
    #[inline(always)]
    pub(super) fn in_its_window(length: u64, state: State, now: Timestamp) -> Option<Self> {
        let left = state.end.as_unix_millis().wrapping_sub(now.as_unix_millis()).cast_unsigned();
        // 1 ..= length: what is below wraps to above.
        (left.wrapping_sub(1) < length).then(|| {
            let window = Window::new(state.end.saturating_sub_millis(length), state.end);
            Self { standing: WindowStanding::new(state.level, window), course: Course::Stayed }
        })
    }
}

impl PlacedCounter<BurstStanding> {
    /// A counter of a bucket.
    #[inline(always)]
    pub(super) fn in_bucket(bucket: Bucket, state: State, now: Timestamp) -> Self {
        let (standing, was_above) = BurstStanding::at(bucket, all_back(bucket, state), now);
        let course = if was_above {
            Course::MovedBack
        } else if standing.is_empty() {
            Course::Opened
        } else {
            Course::Stayed
        };
        Self { standing, course }
    }
}

impl PlacedCounter<SlidingStanding> {
    /// A counter of sliding windows of this length whose current window is open, as nearly always.
    #[inline(always)]
    pub(super) fn in_two_windows(window: u64, state: State, now: Timestamp) -> Option<Self> {
        let state = sliding_state(window, state);
        let passed = now.as_unix_millis().wrapping_sub(state.start.as_unix_millis()).cast_unsigned();
        // What is before the start wraps to above.
        (passed < window)
            .then(|| Self { standing: SlidingStanding::of(state, window, now), course: Course::Stayed })
    }
}

impl PlacedCounter<LogStanding> {
    /// A log, with lengths in milliseconds.
    pub(super) fn in_log(entries: LogEntries, window: u64, step: u64, now: Timestamp) -> Self {
        let (log, was_ahead) = LogStanding::at(entries, window, step, now);
        let course = match (was_ahead, log.entries().is_empty()) {
            (true, _) => Course::MovedBack,
            (false, true) => Course::Opened,
            (false, false) => Course::Stayed,
        };
        Self { standing: log, course }
    }
}

impl From<PlacedCounter<WindowStanding>> for PlacedCounter {
    #[inline(always)]
    fn from(PlacedCounter { standing, course }: PlacedCounter<WindowStanding>) -> Self {
        Self { standing: Standing::Window(standing), course }
    }
}

impl From<PlacedCounter<BurstStanding>> for PlacedCounter {
    fn from(PlacedCounter { standing, course }: PlacedCounter<BurstStanding>) -> Self {
        Self { standing: Standing::Burst(standing), course }
    }
}

impl From<PlacedCounter<LogStanding>> for PlacedCounter {
    fn from(PlacedCounter { standing, course }: PlacedCounter<LogStanding>) -> Self {
        Self { standing: Standing::Log(Box::new(standing)), course }
    }
}

impl PlacedCounter {
    /// Returns what the stored state comes to now.
    #[inline(always)]
    pub(super) fn at(counter: &Counter<'_>, stored: &StoredCounter, now: Timestamp) -> Self {
        if let (StoredCounter::Held(state), Some(length)) = (stored, counter.quota().quota().window_millis())
            && let Some(placed) = PlacedCounter::in_its_window(length, *state, now)
        {
            return placed.into();
        }
        Self::elsewhere(counter.quota().quota(), counter.key(), stored, now)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn elsewhere(quota: &Quota, key: &Key<'_>, stored: &StoredCounter, now: Timestamp) -> Self {
        match (quota.series(), stored) {
            (Series::Burst(series), StoredCounter::Held(state)) => {
                PlacedCounter::in_bucket(series.bucket(), *state, now).into()
            }
            (Series::Burst(_), _) => Self { standing: quota.unused_at(key, now), course: Course::Opened },
            (Series::Log { window, step }, stored) => {
                let entries = match stored {
                    StoredCounter::Log(entries) => LogEntries::clone(entries),
                    _ => LogEntries::default(),
                };
                PlacedCounter::in_log(entries, *window, *step, now).into()
            }
            (Series::Sliding { window, .. }, stored) => {
                let state = match stored {
                    StoredCounter::Held(state) => Some(sliding_state(*window, *state)),
                    _ => None,
                };
                let held = state.map(|state| {
                    let end = state.start.saturating_add_millis(*window);
                    (0, Window::new(state.start, end))
                });
                let (_, current, course) = place(quota, key, held, stored, now);
                Self { standing: Standing::Sliding(SlidingStanding::at(state, current, now)), course }
            }
            (_, stored) => {
                let held = match stored {
                    StoredCounter::Held(state) => Some((state.level, quota.window_ending(state.end))),
                    _ => None,
                };
                let (used, window, course) = place(quota, key, held, stored, now);
                Self { standing: Standing::Window(WindowStanding::new(used, window)), course }
            }
        }
    }
}

/// Returns the window that a counter is in now, with what it still has of this usage in this window, and how it came
/// there.
fn place(
    quota: &Quota,
    key: &Key<'_>,
    held: Option<(u64, Window)>,
    stored: &StoredCounter,
    now: Timestamp,
) -> (u64, Window, Course) {
    let window_at = |time| quota.window_at(key, time);
    match (held, stored) {
        (Some((used, window)), _) if now < window.end() => {
            if window.start().millis_since(now) <= STEP {
                (used, window, Course::Stayed)
            } else {
                (used, window_at(now), Course::MovedBack)
            }
        }
        (_, StoredCounter::Absent { dropped_until }) => {
            let (opened_at, course) = match dropped_until.millis_since(now) {
                0 => (now, Course::Opened),
                1..=STEP => (*dropped_until, Course::Opened),
                _ => (now, Course::MovedBack),
            };
            (0, window_at(opened_at), course)
        }
        _ => (0, window_at(now), Course::Opened),
    }
}

/// A counter of which a slot keeps a state.
pub(super) trait SlotStanding: KindStanding {
    /// Whether the level is the number of units used, so that units are added to it.
    const IS_COUNT: bool;

    /// Returns what a slot keeps of it.
    fn state(&self) -> State;
}

impl SlotStanding for WindowStanding {
    const IS_COUNT: bool = true;

    #[inline(always)]
    fn state(&self) -> State {
        State { level: self.used, end: self.window.end() }
    }
}

impl SlotStanding for BurstStanding {
    const IS_COUNT: bool = false;

    #[inline(always)]
    fn state(&self) -> State {
        state_of_bucket(self)
    }
}

/// Kept apart from slots: see [`logs`](super::logs).
impl SlotStanding for LogStanding {
    const IS_COUNT: bool = false;

    fn state(&self) -> State {
        State { level: 0, end: self.reset_at() }
    }
}

impl SlotStanding for SlidingStanding {
    const IS_COUNT: bool = false;

    #[inline(always)]
    fn state(&self) -> State {
        let SlidingState { start, current, previous } = self.state();
        let end = start.saturating_add_millis(2 * self.window_millis());
        State { level: two_counts(current, previous), end }
    }
}

impl SlotStanding for Standing {
    const IS_COUNT: bool = false;

    fn state(&self) -> State {
        match self {
            Self::Window(window) => window.state(),
            Self::Burst(bucket) => state_of_bucket(bucket),
            Self::Sliding(sliding) => SlotStanding::state(sliding),
            Self::Log(log) => log.state(),
        }
    }
}

/// The bits of a bucket's fraction of a millisecond.
const FRACTION: u32 = 22;

#[inline(always)]
fn state_of_bucket(standing: &BurstStanding) -> State {
    let (ExactInstant { millis, parts }, all_parts) = (standing.all_back(), standing.bucket().parts());
    let millis = millis.as_unix_millis();
    // The first whole second that is not before it.
    let end = (millis + i64::from(parts > 0)).div_euclid(1_000);
    let end = (end + i64::from(end * 1_000 < millis + i64::from(parts > 0))) * 1_000;
    // Exact both ways, because there are at most 2^22 parts.
    let fraction = if parts == 0 { 0 } else { (parts << FRACTION).div_ceil(all_parts) };
    State {
        level: (end - millis).cast_unsigned() << FRACTION | fraction,
        end: Timestamp::from_unix_millis(end),
    }
}

/// The instant at which all units of a bucket are back. If it was written under another limit, its fraction is rounded up
/// to the parts of this one.
#[inline(always)]
fn all_back(bucket: Bucket, State { level, end }: State) -> ExactInstant {
    let (before_end, fraction) = (level >> FRACTION, level & ((1 << FRACTION) - 1));
    let parts = fraction * bucket.parts();
    // Fractions that are written under this limit are rounded up by less than a part.
    let is_another = parts & ((1 << FRACTION) - 1) >= bucket.parts();
    ExactInstant {
        millis: end.saturating_sub_millis(before_end),
        parts: (parts >> FRACTION) + u64::from(is_another),
    }
}

/// Two counts of a sliding window in one level: in 32 bits, which is compact, or in 40.
fn two_counts(current: u64, previous: u64) -> u64 {
    if current.max(previous) < SHORT_COUNT {
        previous << 16 | current
    } else {
        WIDE_COUNTS + previous * COUNTS + current
    }
}

const SHORT_COUNT: u64 = 1 << 16;
const WIDE_COUNTS: u64 = 1 << 32;
const COUNTS: u64 = MAX_COUNT + 1;

fn sliding_state(window: u64, State { level, end }: State) -> SlidingState {
    let start = end.saturating_sub_millis(2 * window);
    let (previous, current) = match level.checked_sub(WIDE_COUNTS) {
        Some(wide) => (wide / COUNTS, wide % COUNTS),
        None => (level >> 16, level % SHORT_COUNT),
    };
    SlidingState { start, current, previous }
}

#[cfg(test)]
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::{Key, PolicyQuota, Quota};

    const NOW: i64 = 1_700_000_000_000;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_unix_millis(millis)
    }

    fn placed(counter: &Counter<'_>, stored: &StoredCounter, now: Timestamp) -> (u64, Window, Course) {
        let PlacedCounter { standing, course } = PlacedCounter::at(counter, stored, now);
        let Standing::Window(window) = standing else { panic!("a fixed window, not {standing:?}") };
        (window.used, window.window, course)
    }

    /// Every time within two windows and a step of a counter's window, for all anchors of a fixed length and lengths
    /// below, at and above a step; for a counter that is held, and for one that is not where another one was dropped.
    /// States the same rule a second time, by cases.
    #[test]
    fn comes_to_what_the_rules_say_at_every_time() {
        let key = Key::from("alice");
        let step = STEP.cast_signed();
        for written in ["1ms", "2ms", "7ms", "999ms", "1s", "1001ms", "3s"] {
            for anchor in ["", "@staggered", "@first_hit"] {
                let quota = PolicyQuota::new("", format!("5/{written}{anchor}").parse().unwrap());
                let (counter, quota) = (Counter::new(&quota, &key), quota.quota());
                let length = quota.fixed_millis().unwrap().cast_signed();
                let window = quota.window_at(&key, at(NOW));
                let (start, end) = (window.start().as_unix_millis(), window.end().as_unix_millis());
                let held = StoredCounter::Held(State { level: 3, end: window.end() });
                let absent = StoredCounter::Absent { dropped_until: window.end() };
                for now in start - 2 * length - step - 2..=end + 2 * length + 2 {
                    let opened = quota.window_at(&key, at(now));
                    let expected = if now >= end {
                        (0, opened, Course::Opened)
                    } else if now >= start - step {
                        (3, window, Course::Stayed)
                    } else {
                        (3, opened, Course::MovedBack)
                    };
                    assert_eq!(
                        placed(&counter, &held, at(now)),
                        expected,
                        "held, {quota} at {now}, until {end}"
                    );

                    let expected = if now >= end {
                        (0, opened, Course::Opened)
                    } else if now >= end - step {
                        (0, quota.window_at(&key, at(end)), Course::Opened)
                    } else {
                        (0, opened, Course::MovedBack)
                    };
                    assert_eq!(
                        placed(&counter, &absent, at(now)),
                        expected,
                        "absent, {quota} at {now}, until {end}"
                    );
                }
            }
        }
    }

    /// Every sum around the largest count.
    #[test]
    fn adds_up_to_the_largest_count() {
        let window = Window::new(at(0), at(1));
        for used in Quota::MAX_LIMIT - 5..=Quota::MAX_LIMIT {
            for units in (0..10).chain([u64::from(u32::MAX), u64::MAX]) {
                let sum =
                    u64::try_from((u128::from(used) + u128::from(units)).min(u128::from(Quota::MAX_LIMIT)));
                let after = Standing::in_window(used, window).add(units).state();
                assert_eq!(after, State { level: sum.unwrap(), end: at(1) });
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// A bucket's level is read back exactly, whatever the parts of a millisecond. It fits into a compact word, and
        /// nothing is left of it at its end, which is the first whole second of which this holds.
        #[test]
        fn the_level_of_a_bucket_is_kept_exactly(
            limit in prop_oneof![1..10_u64, 1..=(1_u64 << 22), Just((1 << 22) - 1), Just(999_983)],
            window in prop_oneof![1..2_000_u64, Just(60_000), Just(86_400_000)],
            share in 0..=1_000_u64,
            now in NOW - 2_000..NOW + 2_000,
        ) {
            let Ok(quota) = Quota::new(limit, Duration::from_millis(window)).unwrap().with_burst(None) else {
                return Ok(());
            };
            let bucket = quota.bucket().unwrap();
            let level = u64::try_from(u128::from(bucket.highest_level()) * u128::from(share) / 1_000).unwrap();
            let standing = BurstStanding::with_level(bucket, level, at(now));
            let state = Standing::Burst(standing).state();
            prop_assert_eq!(all_back(bucket, state), standing.all_back());
            prop_assert!(state.level < 1 << 32);
            let (end, all_back) = (state.end.as_unix_millis(), standing.when(0).as_unix_millis());
            prop_assert!(end % 1_000 == 0 && end >= all_back && end < all_back + 1_000);
            let found = PlacedCounter::in_bucket(bucket, state, at(now));
            prop_assert_eq!(found.standing, standing);
            prop_assert_eq!(PlacedCounter::in_bucket(bucket, state, state.end).course, Course::Opened);
        }

        /// Both counts of a sliding window are read back. Up to 65,535 of each are compact.
        #[test]
        fn the_counts_of_a_sliding_window_are_kept(
            current in prop_oneof![0..3_u64, 65_534..65_538_u64, Just(MAX_COUNT), 0..=MAX_COUNT],
            previous in prop_oneof![0..3_u64, 65_534..65_538_u64, Just(MAX_COUNT), 0..=MAX_COUNT],
        ) {
            let level = two_counts(current, previous);
            prop_assert!(level < 1 << 40);
            prop_assert_eq!(level < 1 << 32, current.max(previous) < 65_536);
            let state = sliding_state(60_000, State { level, end: at(NOW) });
            prop_assert_eq!(state, SlidingState { start: at(NOW - 120_000), current, previous });
        }
    }
}
