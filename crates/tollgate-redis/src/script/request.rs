//! One step to be taken, with all it needs: it outlives whoever asked for it.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate::{Anchor, Counter, Quota, Timestamp, WindowLength};

use super::Found;
use crate::keys::KeyText;

/// One step on one or several counters, all or nothing.
///
/// Ordered so that requests with the same shapes stand together, and among them those that are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    pub(crate) step: Step,
    /// What is asked of each counter.
    pub(crate) shapes: SmallVec<[Shape; 1]>,
    /// The name of each counter, no two alike.
    pub(crate) keys: SmallVec<[KeyText; 1]>,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// Takes the units of all counters, if all have room.
    Charge,
    /// Takes nothing.
    Look,
    /// Writes `bound` as the count.
    Set,
    /// Gives back the units, at most what is used, if the window is the one that starts at `bound`.
    Refund,
    /// Forgets the counter.
    Reset,
}

/// What is asked of one counter, whosever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    /// Units of all charges on the counter together.
    pub(crate) units: u64,
    /// The least limit of these charges. [`Step::Set`] has the count here, [`Step::Refund`] the start of a window.
    pub(crate) bound: i64,
    /// The least limit among charges that count their denials and can pass; 0 if there is none.
    pub(crate) counted: u64,
    pub(crate) windows: Windows,
}

/// Which window is meant; times and lengths in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Windows {
    /// The one that is open by the server's clock, of windows that follow each other from `origin` on.
    Grid { origin: i64, length: u64 },
    /// The one that the first unit opened or opens.
    FirstHit { length: u64 },
    /// This one and no other; if it is not open, the request is stale.
    Given { start: i64, end: i64 },
    /// As `Given`, and the key says it: when it expires says nothing.
    Named { start: i64, end: i64 },
}

impl Shape {
    /// A bound that no count reaches.
    pub(crate) const UNBOUNDED: i64 = 1 << 53;

    /// A bound that leaves no room: nothing is taken, but denials are counted where they are. For what is denied
    /// elsewhere.
    pub(crate) const NO_ROOM: i64 = -1;

    /// Whether the counter has room for this.
    fn fits(&self, used: u64) -> bool {
        i64::try_from(used.saturating_add(self.units.max(1))).is_ok_and(|after| after <= self.bound)
    }

    /// Whether a denial is charged to the counter.
    fn counts_denial(&self, used: u64) -> bool {
        self.units > 0 && self.counted > 0 && used.saturating_add(self.units) > self.counted
    }
}

impl Windows {
    /// Those of a counter whose key does not say them. Of a calendar the one that is open at `now`.
    pub(crate) fn of(counter: &Counter<'_>, now: Timestamp) -> Self {
        let quota = counter.quota().quota();
        let window_at = |time| quota.window_at(counter.key(), time);
        match (quota.anchor(), quota.window()) {
            (Anchor::Epoch, WindowLength::Fixed(length)) => Self::Grid { origin: 0, length: millis(length) },
            (Anchor::Staggered, WindowLength::Fixed(length)) => {
                let origin = window_at(Timestamp::EPOCH).start().as_unix_millis();
                Self::Grid { origin, length: millis(length) }
            }
            (Anchor::FirstHit, WindowLength::Fixed(length)) => Self::FirstHit { length: millis(length) },
            _ => {
                let window = window_at(now);
                Self::Given { start: window.start().as_unix_millis(), end: window.end().as_unix_millis() }
            }
        }
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

impl Request {
    /// Whether all windows that it names are open then.
    pub(crate) fn is_open_at(&self, now: Timestamp) -> bool {
        let now = now.as_unix_millis();
        self.shapes.iter().all(|shape| match shape.windows {
            Windows::Grid { .. } | Windows::FirstHit { .. } => true,
            Windows::Given { start, end } | Windows::Named { start, end } => (start..end).contains(&now),
        })
    }

    /// Takes the step as the script does: says of each counter what is used after it, by what was used before.
    pub(super) fn step(&self, counters: &mut [Found]) {
        let admitted = self.shapes.iter().zip(&*counters).all(|(shape, found)| shape.fits(found.before));
        for (shape, found) in self.shapes.iter().zip(counters) {
            let used = found.before;
            found.after = match self.step {
                Step::Charge if admitted || shape.counts_denial(used) => {
                    used.saturating_add(shape.units).min(Quota::MAX_LIMIT)
                }
                Step::Charge | Step::Look => used,
                Step::Set => shape.bound.unsigned_abs(),
                Step::Refund => used.saturating_sub(shape.units),
                Step::Reset => 0,
            };
        }
    }
}
