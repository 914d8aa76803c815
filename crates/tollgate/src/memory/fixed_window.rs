//! The fixed window: a number of units in each interval.
//!
//! Pure functions of what is stored and the time. Every kind of quota defines three things of a counter at a time: what
//! is [`used`](Standing::used), what is stored after units are [added](Standing::add), and when usage will have fallen
//! to a target. Here that is the [window's](Standing::window) end for every target below the current usage. A decision
//! needs only these.

use crate::{Counter, Quota, Timestamp, Window};

/// How far a clock may step back without a counter leaving its window (rule 12).
pub(super) const STEP: u64 = 1_000;

/// The stored state of a counter: its usage, and its window's end. After that it holds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) used: u64,
    pub(super) end: Timestamp,
}

/// The state of a counter that a step finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredCounter {
    Held(State),
    /// Nothing. This counter may have been dropped; its window then ended no later than this.
    Absent {
        dropped_until: Timestamp,
    },
}

/// A counter at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// Units that count.
    pub(super) used: u64,
    /// The window in which they count. It may begin after the current time if the clock has stepped back by at most a
    /// second.
    pub(super) window: Window,
    pub(super) course: Course,
}

/// How a counter came into its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// It was in it.
    Stayed,
    /// It held nothing, or its window is over.
    Opened,
    /// It was in a window that begins more than a second after now, because the clock has stepped back; or it holds
    /// nothing, and a dropped counter ended that much later. Even steps that charge nothing write this. Otherwise the
    /// counter would deny in every window up to its own.
    MovedBack,
}

impl Standing {
    /// Moves the stored state into the current window.
    #[inline(always)]
    pub(super) fn at(counter: &Counter<'_>, stored: StoredCounter, now: Timestamp) -> Self {
        if let (StoredCounter::Held(state), Some(length)) = (stored, counter.quota().quota().fixed_millis())
            && let Some(standing) = Self::in_its_window(length, state, now)
        {
            return standing;
        }
        Self::in_another_window(counter, stored, now)
    }

    /// A counter whose window has this length and is open, as nearly always.
    #[inline(always)]
    pub(super) fn in_its_window(length: u64, state: State, now: Timestamp) -> Option<Self> {
        let left = state.end.as_unix_millis().wrapping_sub(now.as_unix_millis()).cast_unsigned();
        // 1 ..= length: what is below wraps to above.
        (left.wrapping_sub(1) < length).then(|| Self {
            used: state.used,
            window: Window::new(state.end.saturating_sub_millis(length), state.end),
            course: Course::Stayed,
        })
    }

    #[cold]
    #[inline(never)]
    fn in_another_window(counter: &Counter<'_>, stored: StoredCounter, now: Timestamp) -> Self {
        let quota = counter.quota().quota();
        let window_at = |time| quota.window_at(counter.key(), time);
        match stored {
            StoredCounter::Held(State { used, end }) if now < end => {
                let window = quota.window_ending(end);
                if window.start().millis_since(now) <= STEP {
                    Self { used, window, course: Course::Stayed }
                } else {
                    Self { used, window: window_at(now), course: Course::MovedBack }
                }
            }
            StoredCounter::Held(_) => Self { used: 0, window: window_at(now), course: Course::Opened },
            StoredCounter::Absent { dropped_until } => {
                let (opened_at, course) = match dropped_until.millis_since(now) {
                    0 => (now, Course::Opened),
                    1..=STEP => (dropped_until, Course::Opened),
                    _ => (now, Course::MovedBack),
                };
                Self { used: 0, window: window_at(opened_at), course }
            }
        }
    }

    /// Returns the state after adding units. It saturates at the largest limit, so that it fits wherever a limit does.
    #[inline(always)]
    pub(super) fn add(&self, units: u64) -> State {
        self.with_used(self.used.saturating_add(units).min(Quota::MAX_LIMIT)).stored()
    }

    /// Returns the same counter with this many units used.
    #[inline(always)]
    pub(super) fn with_used(self, used: u64) -> Self {
        Self { used, ..self }
    }

    /// Returns what a slot stores of it.
    #[inline(always)]
    pub(super) fn stored(&self) -> State {
        State { used: self.used, end: self.window.end() }
    }
}

#[cfg(test)]
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod tests {
    use super::*;
    use crate::{Key, PolicyQuota};

    const NOW: i64 = 1_700_000_000_000;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_unix_millis(millis)
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
                let held = StoredCounter::Held(State { used: 3, end: window.end() });
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
                    let Standing { used, window, course } = Standing::at(&counter, held, at(now));
                    assert_eq!((used, window, course), expected, "held, {quota} at {now}, until {end}");

                    let expected = if now >= end {
                        (0, opened, Course::Opened)
                    } else if now >= end - step {
                        (0, quota.window_at(&key, at(end)), Course::Opened)
                    } else {
                        (0, opened, Course::MovedBack)
                    };
                    let Standing { used, window, course } = Standing::at(&counter, absent, at(now));
                    assert_eq!((used, window, course), expected, "absent, {quota} at {now}, until {end}");
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
                let standing = Standing { used, window, course: Course::Stayed };
                assert_eq!(standing.add(units), State { used: sum.unwrap(), end: at(1) });
            }
        }
    }
}
