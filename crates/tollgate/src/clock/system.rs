//! The wall clock without backward steps.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::Clock;
use crate::Timestamp;

/// The wall clock of this process, advanced by the monotonic one.
///
/// It never goes back: when the wall clock is set forward, this clock follows within a second; when the wall
/// clock is set back, this clock keeps its own time until the process is restarted. All `SystemClock`s of a
/// process show the same time.
///
/// [`now`](Clock::now) costs some 20 ns. On Linux, [`coarse_now`](Clock::coarse_now) costs a fifth of that and
/// shows the time of the kernel's last tick, 1 to 10 ms ago, or a little more when the machine is busy.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        TIMELINE.at(Clocks::monotonic)
    }

    #[inline]
    fn coarse_now(&self) -> Timestamp {
        TIMELINE.at(Clocks::monotonic_coarse)
    }

    fn coarse_resolution(&self) -> Duration {
        os::coarse_resolution()
    }

    fn steady_now(&self) -> Timestamp {
        TIMELINE.steady()
    }
}

static TIMELINE: Timeline<os::Clocks> = Timeline::new(os::Clocks::new());

/// The clocks of an operating system, in nanoseconds.
trait Clocks {
    /// Nanoseconds since an arbitrary instant; never goes back.
    fn monotonic(&self) -> i64;

    /// The same, or a little earlier.
    fn monotonic_coarse(&self) -> i64 {
        self.monotonic()
    }

    /// Since the Unix epoch; may be set forward and back.
    fn wall(&self) -> i64;
}

#[cfg(target_os = "linux")]
mod os {
    //! Linux has a coarse time, that of its last tick, which needs no reading of the processor's counter.

    use std::time::Duration;

    use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

    pub(super) struct Clocks;

    impl Clocks {
        pub(super) const fn new() -> Self {
            Self
        }
    }

    impl super::Clocks for Clocks {
        fn monotonic(&self) -> i64 {
            nanos(clock_gettime(ClockId::Monotonic))
        }

        #[inline]
        fn monotonic_coarse(&self) -> i64 {
            nanos(clock_gettime(ClockId::MonotonicCoarse))
        }

        fn wall(&self) -> i64 {
            let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
            tv_sec.saturating_mul(1_000_000_000).saturating_add(tv_nsec)
        }
    }

    pub(super) fn coarse_resolution() -> Duration {
        let nanos = nanos(clock_getres(ClockId::MonotonicCoarse)).unsigned_abs();
        // Rounded up to whole milliseconds, the unit of time.
        Duration::from_millis(nanos.div_ceil(1_000_000))
    }

    /// The clock starts with the machine, so its nanoseconds fit for 292 years.
    fn nanos(time: Timespec) -> i64 {
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    }
}

#[cfg(not(target_os = "linux"))]
mod os {
    //! The standard library's clocks; none of them is coarse.

    use std::sync::OnceLock;
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    pub(super) struct Clocks {
        start: OnceLock<Instant>,
    }

    impl Clocks {
        pub(super) const fn new() -> Self {
            Self { start: OnceLock::new() }
        }
    }

    impl super::Clocks for Clocks {
        #[expect(clippy::disallowed_methods, reason = "this is the clock module")]
        fn monotonic(&self) -> i64 {
            let now = Instant::now();
            nanos(now.saturating_duration_since(*self.start.get_or_init(|| now)))
        }

        #[expect(clippy::disallowed_methods, reason = "this is the clock module")]
        fn wall(&self) -> i64 {
            match SystemTime::now().duration_since(UNIX_EPOCH) {
                Ok(after) => nanos(after),
                Err(before) => -nanos(before.duration()),
            }
        }
    }

    pub(super) fn coarse_resolution() -> Duration {
        Duration::ZERO
    }

    fn nanos(duration: Duration) -> i64 {
        i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
    }
}

/// How long the wall clock goes unread: long enough to cost nothing, short enough to follow a step soon.
const WALL_INTERVAL: i64 = 1_000_000_000;

/// The most that the wall clock may differ from the monotonic one: 146 years, so that no sum overflows.
const FARTHEST: i64 = i64::MAX / 2;

/// The time as `monotonic + offset`, where the offset only grows.
struct Timeline<C> {
    clocks: C,
    /// How far the wall clock is ahead of the monotonic one.
    offset: AtomicI64,
    /// The monotonic time at which the wall clock is read next: at once, to begin with.
    next_wall_reading: AtomicI64,
}

impl<C: Clocks> Timeline<C> {
    const fn new(clocks: C) -> Self {
        Self { clocks, offset: AtomicI64::new(-FARTHEST), next_wall_reading: AtomicI64::new(i64::MIN) }
    }

    /// The time by this reading of the monotonic clock.
    #[inline]
    fn at(&self, read: impl Fn(&C) -> i64) -> Timestamp {
        let monotonic = read(&self.clocks);
        // Acquire, with the release where it is set: the offset is the one found then, or a later one. It is harmless
        // if two threads read the wall clock.
        if monotonic >= self.next_wall_reading.load(Ordering::Acquire) {
            self.follow_wall();
        }
        // Acquire, with the release of `fetch_max`: a thread that got a time from another one sees the offset behind
        // it, and so returns no earlier time.
        let nanos = monotonic + self.offset.load(Ordering::Acquire);
        // Outside of tests the time is positive, and unsigned division takes half the time.
        let millis = u64::try_from(nanos)
            .map_or_else(|_| nanos.div_euclid(1_000_000), |nanos| (nanos / 1_000_000).cast_signed());
        Timestamp::from_unix_millis(millis)
    }

    /// The monotonic clock alone.
    fn steady(&self) -> Timestamp {
        Timestamp::from_unix_millis(self.clocks.monotonic().div_euclid(1_000_000))
    }

    /// Adopts a forward step of the wall clock.
    #[cold]
    fn follow_wall(&self) {
        let wall = self.clocks.wall();
        // Read second: a pause between the two readings makes the offset too small, never too large, and a later
        // reading corrects it.
        let monotonic = self.clocks.monotonic();
        let offset = wall.saturating_sub(monotonic).clamp(-FARTHEST, FARTHEST);
        self.offset.fetch_max(offset, Ordering::AcqRel);
        self.next_wall_reading.store(monotonic + WALL_INTERVAL, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[derive(Default)]
    struct TestClocks {
        monotonic: Cell<i64>,
        wall: Cell<i64>,
    }

    impl TestClocks {
        fn pass(&self, nanos: i64) {
            self.monotonic.set(self.monotonic.get() + nanos);
            self.wall.set(self.wall.get() + nanos);
        }
    }

    impl Clocks for &TestClocks {
        fn monotonic(&self) -> i64 {
            self.monotonic.get()
        }

        fn wall(&self) -> i64 {
            self.wall.get()
        }
    }

    #[test]
    fn adopts_a_step_forward_within_a_second_and_ignores_one_back() {
        let clocks = TestClocks::default();
        clocks.wall.set(1_700_000_000 * SECOND);
        let timeline = Timeline::new(&clocks);
        let seconds = || timeline.at(|clocks| clocks.monotonic()).as_unix_millis() / 1000;

        assert_eq!(seconds(), 1_700_000_000);
        clocks.wall.set(clocks.wall.get() + 3600 * SECOND);
        clocks.pass(SECOND);
        assert_eq!(seconds(), 1_700_003_601);

        clocks.wall.set(clocks.wall.get() - 7200 * SECOND);
        for passed in 1..=5 {
            clocks.pass(SECOND);
            assert_eq!(seconds(), 1_700_003_601 + passed);
        }
    }

    #[test]
    fn steps_of_the_wall_clock_do_not_move_the_steady_time() {
        let clocks = TestClocks::default();
        let timeline = Timeline::new(&clocks);
        let start = timeline.steady();
        clocks.wall.set(clocks.wall.get() + 3600 * SECOND);
        clocks.pass(SECOND);
        timeline.at(|clocks| clocks.monotonic());
        assert_eq!(timeline.steady().since(start), Duration::from_secs(1));
        assert!(SystemClock.steady_now() <= SystemClock.steady_now());
    }

    #[test]
    fn a_pause_between_the_two_readings_never_puts_the_clock_ahead() {
        /// Pauses for ten seconds whenever the wall clock has been read.
        struct Pausing(TestClocks);

        impl Clocks for &Pausing {
            fn monotonic(&self) -> i64 {
                self.0.monotonic.get()
            }

            fn wall(&self) -> i64 {
                let wall = self.0.wall.get();
                self.0.pass(10 * SECOND);
                wall
            }
        }

        let clocks = Pausing(TestClocks::default());
        let timeline = Timeline::new(&clocks);
        for _ in 0..5 {
            clocks.0.pass(2 * SECOND);
            assert!(
                timeline.at(|clocks| clocks.monotonic()).as_unix_millis() <= clocks.0.wall.get() / 1_000_000
            );
        }
    }

    #[test]
    fn coarse_time_is_behind_and_follows() {
        let start = SystemClock.coarse_now();
        while SystemClock.coarse_now() == start {
            assert!(SystemClock.coarse_now() <= SystemClock.now());
            std::thread::yield_now();
        }
        assert!(SystemClock.coarse_now() > start);
    }

    #[test]
    fn shows_the_time_of_the_operating_system() {
        let clocks = os::Clocks::new();
        let wall = || clocks.wall() / 1_000_000;
        let (before, system, after) = (wall(), SystemClock.now().as_unix_millis(), wall());
        assert!((before - 1_000..after + 1_000).contains(&system), "{system} between {before} and {after}");
    }
}
