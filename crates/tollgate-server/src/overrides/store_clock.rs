//! An estimate of a shared store's clock, for decisions in which no step compares an end with it.
//!
//! Each read of the overrides brings the store's time. Between two reads, the estimate passes as this process's
//! monotonic clock does.

use std::time::Duration;

use arc_swap::ArcSwapOption;
use tollgate::{Clock, SystemClock, Timestamp};

use crate::observe::stopwatch::Stopwatch;

/// The part of a millisecond that the store's answer does not show.
const RESOLUTION: Duration = Duration::from_millis(1);

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct StoreClock(ArcSwapOption<ClockReading>);

/// The estimate from one read.
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    /// The store's time when the read was answered, in microseconds since the epoch.
    micros: i64,
    /// Runs since then.
    since: Stopwatch,
    /// The estimate is not earlier than this, in microseconds since the epoch.
    floor: i64,
}

impl StoreClock {
    /// Notes the store's time in the answer to a call that took this long and has just ended.
    ///
    /// The estimate then is the middle of what is possible. It runs back only if the store's clock has: if the old
    /// estimate is possible, the new one stands still until it has caught up. One task notes times.
    pub(crate) fn note(&self, time: Timestamp, call: Duration) {
        let least = time.as_unix_millis().saturating_mul(1000);
        let span = micros(call.saturating_add(RESOLUTION));
        let most = least.saturating_add(span);
        let since = Stopwatch::start();
        let floor = match self.0.load_full() {
            None => least,
            Some(old) => old.at(old.since.elapsed()).min(most),
        };
        let micros = least.saturating_add(span / 2);
        self.0.store(Some(ClockReading { micros, since, floor }.into()));
    }
}

impl ClockReading {
    /// Returns the estimate this long after the read, in microseconds since the epoch.
    fn at(&self, elapsed: Duration) -> i64 {
        self.micros.saturating_add(micros(elapsed)).max(self.floor)
    }
}

impl Clock for StoreClock {
    /// Until the first read, this is the time of this machine.
    fn now(&self) -> Timestamp {
        match self.0.load().as_ref() {
            Some(reading) => {
                Timestamp::from_unix_millis(reading.at(reading.since.elapsed()).div_euclid(1000))
            }
            None => SystemClock.now(),
        }
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_unix_millis(millis)
    }

    /// The bound of what a machine that stands still adds.
    fn since_noted(clock: &StoreClock, note: impl FnOnce(&StoreClock)) -> (Timestamp, Duration) {
        let noting = Stopwatch::start();
        note(clock);
        (clock.now(), noting.elapsed())
    }

    #[test]
    fn the_estimate_is_the_middle_of_what_is_possible() {
        let clock = StoreClock::default();
        let (now, spent) = since_noted(&clock, |clock| clock.note(at(5_000), Duration::from_millis(20)));
        assert!(now >= at(5_010) && now <= at(5_011) + spent, "{now:?}");
    }

    #[test]
    fn it_stands_still_rather_than_run_back() {
        let clock = StoreClock::default();
        clock.note(at(5_000), Duration::from_millis(400));
        let before = clock.now();
        // The middle is 5,150 now, and 5,200 is still possible.
        let (now, spent) = since_noted(&clock, |clock| clock.note(at(5_100), Duration::from_millis(100)));
        assert!(now >= before && now <= at(5_201) + spent, "{now:?}");
    }

    #[test]
    fn it_runs_back_with_the_clock_of_the_store() {
        let clock = StoreClock::default();
        clock.note(at(50_000), Duration::ZERO);
        let (now, spent) = since_noted(&clock, |clock| clock.note(at(20_000), Duration::from_millis(8)));
        assert!(now >= at(20_008) && now <= at(20_009) + spent, "{now:?}");
    }
}
