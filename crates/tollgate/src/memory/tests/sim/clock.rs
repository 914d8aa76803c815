//! The clock of a world: it stands still until the world moves it, and writes down every reading.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(tollgate_shuttle)]
use shuttle::thread_local;

use super::answer::Reading;
use super::world::{Move, Ticks, World};
use crate::{Clock, Timestamp};

/// Clones share the time.
#[derive(Clone)]
pub(super) struct WorldClock(Arc<Mutex<Log>>);

/// Everything that the clock knows.
pub(super) struct Log {
    now: i64,
    ticks: Ticks,
    /// The last first, so that the next one is at the end.
    drifts: Vec<(usize, Move)>,
    /// Counts readings, calls and returns: their order.
    moment: u64,
    pub(super) readings: Vec<Reading>,
    /// Ends of windows that answers have named.
    ends: Vec<i64>,
    /// Whether the clock has ever moved back.
    pub(super) has_stepped_back: bool,
}

thread_local! {
    /// The number of this thread in its world.
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

/// Says which thread of the world this is.
pub(super) fn be_thread(number: usize) {
    THREAD.with(|thread| thread.set(number));
}

impl WorldClock {
    pub(super) fn new(world: &World) -> Self {
        let mut drifts = world.drifts.clone();
        drifts.sort_by_key(|(reading, _)| std::cmp::Reverse(*reading));
        Self(Arc::new(Mutex::new(Log {
            now: world.start,
            ticks: world.ticks,
            drifts,
            moment: 0,
            readings: Vec::new(),
            ends: Vec::new(),
            has_stepped_back: false,
        })))
    }

    /// Never held while another thread may be chosen to go on.
    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn moment(&self) -> u64 {
        self.log().next_moment()
    }

    /// The moment of a call, and the time.
    pub(super) fn call(&self) -> (u64, i64) {
        let mut log = self.log();
        (log.next_moment(), log.now)
    }

    /// The readings that this thread has taken since a moment.
    pub(super) fn readings_of(&self, thread: usize, since: u64) -> Vec<Reading> {
        let log = self.log();
        let since = log.readings.iter().rev().take_while(|reading| reading.moment > since);
        let mut readings: Vec<_> = since.filter(|reading| reading.thread == thread).copied().collect();
        readings.reverse();
        readings
    }

    fn read(&self, is_coarse: bool) -> Timestamp {
        let mut log = self.log();
        while log.drifts.last().is_some_and(|(reading, _)| *reading <= log.readings.len()) {
            if let Some((_, by)) = log.drifts.pop() {
                log.make(by);
            }
        }
        let time = if is_coarse { log.ticks.last_before(log.now) } else { log.now };
        let (moment, truth) = (log.next_moment(), log.now);
        let thread = THREAD.with(Cell::get);
        log.readings.push(Reading { moment, thread, is_coarse, time, truth });
        Timestamp::from_unix_millis(time)
    }
}

impl Clock for WorldClock {
    fn now(&self) -> Timestamp {
        self.read(false)
    }

    fn coarse_now(&self) -> Timestamp {
        self.read(true)
    }

    fn coarse_resolution(&self) -> Duration {
        Duration::from_millis(self.log().ticks.length.unsigned_abs())
    }
}

impl Log {
    fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Notes that an answer has named a window with this end.
    pub(super) fn note_end(&mut self, end: i64) {
        // Few, so that an end is most likely one that still matters.
        if !self.ends.contains(&end) {
            self.ends.push(end);
        }
        if self.ends.len() > 6 {
            self.ends.remove(0);
        }
    }

    /// The time to which this move brings the clock.
    pub(super) fn target(&self, by: Move) -> i64 {
        let ends = || self.ends.iter().copied();
        let to = match by {
            Move::By(millis) => self.now + millis,
            Move::NextEnd(more) => {
                ends().filter(|end| *end > self.now).min().map_or(self.now, |end| end + more)
            }
            Move::LastEnd(more) => {
                ends().filter(|end| *end <= self.now).max().map_or(self.now, |end| end + more)
            }
        };
        // The store's clock stands still some 8,900 years from 1970; the ledger's does not.
        to.clamp(-LAST, LAST)
    }

    /// Moves the clock.
    pub(super) fn make(&mut self, by: Move) {
        let to = self.target(by);
        self.has_stepped_back |= to < self.now;
        self.now = to;
    }
}

/// 5,000 years from 1970.
const LAST: i64 = 5_000 * 365 * 86_400_000;

impl Ticks {
    /// The tick that a coarse reading shows. It is a function of the time alone, so it goes back only if the time does.
    fn last_before(self, now: i64) -> i64 {
        if self.length == 0 {
            return now;
        }
        let between = self.length * (self.missed + 1);
        now - now.rem_euclid(between)
    }
}
