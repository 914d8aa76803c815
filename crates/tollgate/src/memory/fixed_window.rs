//! The fixed window: so many units in each interval.
//!
//! Pure functions of what is stored and the time. Every kind of quota has to say three things of a counter at a time:
//! what is [`used`](Standing::used), what is stored once units are [added](Standing::add), and when no more than a target
//! will be used. Here that is the [window's](Standing::window) end for every target below what is used now. A decision
//! stands on these alone.

use crate::{Counter, Quota, Timestamp, Window};

/// How far a clock may step back without a counter leaving its window (rule 12).
pub(super) const STEP: u64 = 1_000;

/// What is stored of a counter: what it has used, and when its window ends. After that it holds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) used: u64,
    pub(super) end: Timestamp,
}

/// What a step finds of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    Held(State),
    /// Nothing. A counter that was dropped may have been this one, and its window ended no later than this.
    Absent {
        dropped_until: Timestamp,
    },
}

/// A counter at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// Units that count.
    pub(super) used: u64,
    /// The window in which they count. It begins after the time if the clock has stepped back by a second at most.
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
    /// It was in a window that begins more than a second after now, because the clock has stepped back; or it holds nothing,
    /// and a counter that was dropped ended so much later. This is to be written even by what charges nothing: left where
    /// it was, the counter would deny in every window up to its own.
    MovedBack,
}

impl Standing {
    /// Takes what is stored into the window that counts now.
    #[inline(always)]
    pub(super) fn at(counter: &Counter<'_>, stored: Stored, now: Timestamp) -> Self {
        if let (Stored::Held(state), Some(length)) = (stored, counter.quota().quota().fixed_millis())
            && let Some(standing) = Self::in_its_window(length, state, now)
        {
            return standing;
        }
        Self::in_another_window(counter, stored, now)
    }

    /// A counter whose window has this length and is open. So it is nearly always.
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
    fn in_another_window(counter: &Counter<'_>, stored: Stored, now: Timestamp) -> Self {
        let quota = counter.quota().quota();
        let window_at = |time| quota.window_at(counter.key(), time);
        match stored {
            Stored::Held(State { used, end }) if now < end => {
                let window = quota.window_ending(end);
                if window.start().millis_since(now) <= STEP {
                    Self { used, window, course: Course::Stayed }
                } else {
                    Self { used, window: window_at(now), course: Course::MovedBack }
                }
            }
            Stored::Held(_) => Self { used: 0, window: window_at(now), course: Course::Opened },
            Stored::Absent { dropped_until } => {
                let (opened_at, course) = match dropped_until.millis_since(now) {
                    0 => (now, Course::Opened),
                    1..=STEP => (dropped_until, Course::Opened),
                    _ => (now, Course::MovedBack),
                };
                Self { used: 0, window: window_at(opened_at), course }
            }
        }
    }

    /// What is stored once so many more units are used. It saturates where limits end, so that it fits wherever a limit
    /// does.
    #[inline(always)]
    pub(super) fn add(&self, units: u64) -> State {
        State { used: self.used.saturating_add(units).min(Quota::MAX_LIMIT), end: self.window.end() }
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

    /// Every time within two windows and a step of a counter's window, for all anchors of a fixed length and lengths below, at
    /// and above a step; for a counter that is held, and for one that is not where another one was dropped. What it comes
    /// to is said a second time here, by cases.
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
                let held = Stored::Held(State { used: 3, end: window.end() });
                let absent = Stored::Absent { dropped_until: window.end() };
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
