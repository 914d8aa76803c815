//! The denials of all limits of fixed windows at once.

use tollgate::{Anchor, Key, Quota, Timestamp, Window};
use tollgate_simulate::Histogram;

use super::time_limit::{OutOfTime, TimeLimit};
use super::traffic::Traffic;

/// The units in windows.
#[derive(Debug, Default)]
pub(super) struct WindowUnits {
    /// In each window of each key.
    pub(super) windows: Histogram,
    /// The most in a window of each key.
    pub(super) maxima: Histogram,
}

/// The windows of a quota.
struct Windows<'a> {
    quota: &'a Quota,
    /// Those of a calendar: few, and slow to find.
    calendar: Vec<Window>,
}

impl WindowUnits {
    /// Adds up what keys use in the windows of a quota.
    ///
    /// # Errors
    ///
    /// If it takes too long.
    pub(super) fn of(traffic: &Traffic, quota: &Quota, limit: TimeLimit) -> Result<Self, OutOfTime> {
        let mut units = Self::default();
        let mut windows = Windows { quota, calendar: Vec::new() };
        for requests in traffic.keys() {
            limit.check()?;
            let (mut window, mut used, mut most) = (None::<Window>, 0_u64, 0_u64);
            for request in requests {
                if !window.is_some_and(|window| window.contains(request.at)) {
                    units.windows.add_times(used, u64::from(window.is_some()));
                    (window, used) = (Some(windows.at(request.key, request.at)), 0);
                }
                used += u64::from(request.cost);
                most = most.max(used);
            }
            units.windows.add(used);
            units.maxima.add(most);
        }
        Ok(units)
    }
}

impl Windows<'_> {
    /// Returns the window of a key, or the one that opens then. Where windows begin at another time for each key, its hash
    /// stands for the key.
    fn at(&mut self, key: u64, time: Timestamp) -> Window {
        let known = self.calendar.iter().find(|window| window.contains(time));
        known.copied().unwrap_or_else(|| {
            let window = self.quota.window_at(&Key::from(key), time);
            if self.quota.anchor() == Anchor::Calendar {
                self.calendar.push(window);
            }
            window
        })
    }
}
