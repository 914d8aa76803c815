//! An owned request to the script.

use smallvec::SmallVec;
use tollgate::Timestamp;

use super::hold::HoldShape;
use super::step::{CountChange, CounterStep};
use super::window_spec::{GRACE, MAY_BEGIN_LATER, WindowSpec};

/// The name of a counter in the store.
pub(crate) type KeyText = Box<[u8]>;

/// One step on one or several counters, all or nothing.
///
/// Ordered so that steps on holds are adjacent, and so are requests with the same shapes, and among them equal ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    /// What is done with a hold; else the request only has quotas.
    pub(crate) hold: Option<Box<HoldShape>>,
    /// The server's time before which it has to be taken: of charges and of holds that are reserved.
    pub(crate) before: Option<Timestamp>,
    /// The operation on each counter of a quota: the same kind for all, but for a hold that is settled.
    pub(crate) shapes: SmallVec<[Shape; 1]>,
    /// The name of each counter, no two alike. Of a hold, the names of its record and of its units in flight come first.
    pub(crate) keys: SmallVec<[KeyText; 1]>,
}

/// The operation on a counter, without its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub(crate) step: CounterStep,
    pub(crate) windows: WindowSpec,
}

impl Shape {
    /// The operation on a counter that both name: the sum of their units within the lesser limit, until the later end.
    pub(crate) fn with(self, other: Self) -> Self {
        let step = match (self.step, other.step) {
            (
                CounterStep::Charge { units, room, denials, is_renewal },
                CounterStep::Charge { units: more, room: second, denials: others, .. },
            ) => {
                let units = units + more;
                CounterStep::Charge {
                    units,
                    room: room.and(second),
                    denials: denials.and(others, units),
                    is_renewal,
                }
            }
            (CounterStep::Deny { units, denials }, CounterStep::Deny { units: more, denials: others }) => {
                let units = units + more;
                CounterStep::Deny { units, denials: denials.and(others, units) }
            }
            // Other operations have one counter, or are the same on both.
            (step, _) => step,
        };
        let windows = match (self.windows, other.windows) {
            (WindowSpec::Named { start, end }, WindowSpec::Named { end: other, .. }) => {
                WindowSpec::Named { start, end: end.max(other) }
            }
            (WindowSpec::SortedLog { length }, WindowSpec::SortedLog { length: other }) => {
                WindowSpec::SortedLog { length: length.max(other) }
            }
            (windows, _) => windows,
        };
        Self { step, windows }
    }
}

impl Request {
    /// Returns whether all windows that it names are open at this time.
    pub(crate) fn is_open_at(&self, now: impl Fn() -> Timestamp) -> bool {
        let is_open = |(start, end)| (start..end).contains(&now().as_unix_millis());
        self.shapes.iter().filter_map(|shape| shape.windows.bounds()).all(is_open)
    }

    /// Returns whether a window that it names has not begun at this time.
    pub(crate) fn is_early_at(&self, now: Timestamp) -> bool {
        let mut bounds = self.shapes.iter().filter_map(|shape| shape.windows.bounds());
        bounds.any(|(start, _)| now.as_unix_millis() < start)
    }

    /// Returns whether this time is too late for it.
    pub(super) fn is_too_late_at(&self, now: Timestamp) -> bool {
        self.before.is_some_and(|before| now >= before)
    }

    /// Returns whether the script takes it at this time, instead of calling it stale. A refund may be early, after a
    /// step back of the clock.
    pub(super) fn is_timely_at(&self, now: Timestamp) -> bool {
        let now = now.as_unix_millis();
        self.shapes.iter().all(|shape| {
            let early = if matches!(shape.step, CounterStep::Refund { .. }) { GRACE } else { 0 };
            let bounds = shape.windows.bounds();
            bounds.is_none_or(|(start, end)| (start.saturating_sub(early)..end).contains(&now))
        })
    }

    /// Returns whether the window that a refund names can be the counted one at this time; the script calls any other
    /// closed.
    pub(super) fn may_give_back_at(&self, now: Timestamp) -> bool {
        self.shapes.iter().all(|shape| match (shape.step, shape.windows) {
            (
                CounterStep::Refund { start, .. },
                WindowSpec::Grid { length, .. } | WindowSpec::FirstHit { length },
            ) => {
                let end = start.saturating_add_unsigned(length);
                (start.saturating_sub(GRACE)..end).contains(&now.as_unix_millis())
            }
            _ => true,
        })
    }

    /// Accepts the windows that its keys contain even if they have not begun.
    pub(crate) fn go_ahead(&mut self) {
        for shape in &mut self.shapes {
            if let WindowSpec::Named { start, .. } = &mut shape.windows {
                *start = MAY_BEGIN_LATER;
                // The script compares it with the start of the windows.
                if let CounterStep::Refund { start, .. } = &mut shape.step {
                    *start = MAY_BEGIN_LATER;
                }
            }
        }
    }

    /// Returns whether two of them are one step executed twice.
    pub(crate) fn merges(&self) -> bool {
        self.hold.is_none() && self.shapes.iter().all(|shape| shape.step.merges())
    }

    pub(crate) fn is_refund(&self) -> bool {
        self.shapes.iter().any(|shape| matches!(shape.step, CounterStep::Refund { .. }))
    }

    /// Executes the step as the script does: returns the usage of each counter after it, from the usage before.
    pub(super) fn step(&self, counters: &mut [CountChange]) {
        if let (Some(Shape { step: CounterStep::Block { units, limit }, .. }), [counter, block]) =
            (self.shapes.first(), &mut *counters)
        {
            counter.charge_or_block(block, *units, *limit);
            return;
        }
        let is_admitted =
            self.shapes.iter().zip(&*counters).all(|(shape, found)| shape.step.fits(found.before));
        for (shape, found) in self.shapes.iter().zip(counters) {
            found.take(shape.step, is_admitted, shape.windows.most_kept());
        }
    }
}
