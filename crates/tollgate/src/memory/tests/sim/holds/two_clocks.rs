//! A clock of two times, which stand still until the world moves them.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

#[cfg(tollgate_shuttle)]
use shuttle::thread_local;

use crate::{Clock, Timestamp};

/// When the wall clock begins: at the start of an hour. The steady one begins at 0.
pub(super) const START: i64 = 1_700_002_800_000;

/// Clones share the times.
#[derive(Clone)]
pub(super) struct TwoClocks(Arc<Times>);

struct Times {
    wall: AtomicI64,
    steady: AtomicI64,
    /// Counts calls and returns: their order.
    moment: AtomicU64,
}

thread_local! {
    static WALL: Cell<Option<i64>> = const { Cell::new(None) };
    static STEADY: Cell<Option<i64>> = const { Cell::new(None) };
}

impl TwoClocks {
    pub(super) fn new() -> Self {
        let (wall, steady) = (AtomicI64::new(START), AtomicI64::new(0));
        Self(Arc::new(Times { wall, steady, moment: AtomicU64::new(0) }))
    }

    /// Moves the clocks.
    pub(super) fn pass(&self, wall: i64, steady: i64) {
        self.0.wall.fetch_add(wall, Ordering::SeqCst);
        self.0.steady.fetch_add(steady, Ordering::SeqCst);
    }

    /// What the wall clock shows, for the world. It is no reading of a call.
    pub(super) fn wall(&self) -> i64 {
        self.0.wall.load(Ordering::SeqCst)
    }

    pub(super) fn moment(&self) -> u64 {
        self.0.moment.fetch_add(1, Ordering::SeqCst)
    }

    /// Begins a call of this thread. Returns its moment, and the steady time.
    pub(super) fn call(&self) -> (u64, i64) {
        WALL.with(|last| last.set(None));
        STEADY.with(|last| last.set(None));
        (self.moment(), self.0.steady.load(Ordering::SeqCst))
    }

    /// Returns the last readings of the wall clock and the steady one that this thread has taken in its call.
    pub(super) fn last_readings(&self) -> (Option<i64>, Option<i64>) {
        (WALL.with(Cell::get), STEADY.with(Cell::get))
    }
}

impl Clock for TwoClocks {
    fn now(&self) -> Timestamp {
        let time = self.0.wall.load(Ordering::SeqCst);
        WALL.with(|last| last.set(Some(time)));
        Timestamp::from_unix_millis(time)
    }

    fn steady_now(&self) -> Timestamp {
        let time = self.0.steady.load(Ordering::SeqCst);
        STEADY.with(|last| last.set(Some(time)));
        Timestamp::from_unix_millis(time)
    }
}
