//! An owned request to the script.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate::{Anchor, Charge, CountDenied, Counter, Quota, Reason, Timestamp, WindowLength};

use super::CountChange;
use super::encode::SHORTEST_NUMBERED;

/// How far the clock may step back without reopening a window, in milliseconds (`GRACE` in the script).
const GRACE: i64 = 1_000;

/// More than any count (`SPAN` in the script).
const SPAN: u64 = 10_000_000_000_000;

/// The name of a counter in the store.
pub(crate) type KeyText = Box<[u8]>;

/// One step on one or several counters, all or nothing.
///
/// Ordered so that requests with the same shapes are adjacent, and among them equal ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    /// The operation on each counter: the same kind for all.
    pub(crate) shapes: SmallVec<[Shape; 1]>,
    /// The name of each counter, no two alike.
    pub(crate) keys: SmallVec<[KeyText; 1]>,
}

/// The operation on a counter, without its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub(crate) step: CounterStep,
    pub(crate) windows: WindowSpec,
}

/// An operation on a counter. Units are those of all charges on the counter together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CounterStep {
    /// Charges the units, if all counters of the request have room. A renewal is likely to be denied, so the script
    /// reads the counter first. Any other charge of one existing counter is made first, and undone if there was no
    /// room.
    Charge { units: u64, room: Room, denials: ChargedDenials, is_renewal: bool },
    /// Charges the units, whether or not there is room.
    Record { units: u64 },
    /// Charges nothing, but counts the denial if denials are counted. For requests that are denied elsewhere.
    Deny { units: u64, denials: ChargedDenials },
    /// Charges nothing.
    Look,
    /// Writes this as the count.
    Set { used: u64 },
    /// Gives back the units, at most the used ones, if the window is the one with this start.
    Refund { units: u64, start: i64 },
    /// Resets the counter.
    Reset,
}

/// What the charges on a counter need to be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Room {
    /// The least limit among overdrafts, which `used` must be below.
    pub(super) below: u64,
    /// The least limit among the others, under which all units must fit.
    pub(super) within: u64,
}

/// The count above which a denied charge is counted: the least limit among charges that count their denials and can
/// pass. An overdraft counts above 0, so always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChargedDenials {
    pub(super) above: u64,
}

/// The start of a window that may not have begun by the server's clock. The script uses the start only to refuse what
/// is too early. No window that a key names starts then.
pub(super) const MAY_BEGIN_LATER: i64 = -1;

/// No count reaches this. Lua's integers are exact up to here.
pub(super) const NEVER: u64 = (1 << 53) - 1;

/// Which window is meant; times and lengths in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WindowSpec {
    /// The one that is open by the server's clock, of windows that follow each other from `origin` on.
    Grid { origin: i64, length: u64 },
    /// The one that the first unit opened or opens.
    FirstHit { length: u64 },
    /// This one and no other; if it is not open, the request is stale.
    Given { start: i64, end: i64 },
    /// Like `Given`, but the key contains the window, so the expiry does not identify it. If the start is
    /// [`MAY_BEGIN_LATER`], the window may not have begun by the server's clock.
    Named { start: i64, end: i64 },
}

impl Room {
    /// Returns what all these charges need together.
    pub(crate) fn of<'a>(charges: impl Iterator<Item = &'a Charge<'a>>) -> Self {
        let mut room = Self { below: NEVER, within: NEVER };
        for charge in charges {
            let limit = match charge.counter().quota().count_denied() {
                CountDenied::Overdraft => &mut room.below,
                CountDenied::No | CountDenied::Yes => &mut room.within,
            };
            *limit = charge.limit().min(*limit);
        }
        room
    }

    /// Returns the limit under which these units fit if and only if there is room.
    pub(super) fn limit(self, units: u64) -> u64 {
        // One unit needs to be left for an overdraft.
        self.within.min((self.below + units.max(1)).saturating_sub(1))
    }

    fn and(self, other: Self) -> Self {
        Self { below: self.below.min(other.below), within: self.within.min(other.within) }
    }
}

impl ChargedDenials {
    /// Returns the denials that these charges of so many units count.
    pub(crate) fn of<'a>(charges: impl Iterator<Item = &'a Charge<'a>>, units: u64) -> Self {
        let above = charges.filter_map(|charge| match charge.counter().quota().count_denied() {
            CountDenied::No => None,
            CountDenied::Yes => Some(charge.limit()).filter(|limit| *limit >= units.max(1)),
            CountDenied::Overdraft => Some(0),
        });
        Self { above: above.min().unwrap_or(NEVER) }
    }

    /// Returns whether all denials are counted, so that the units are charged whatever the verdict.
    pub(super) const fn are_all(self) -> bool {
        self.above == 0
    }

    /// The denials that both count, of so many units together.
    fn and(self, other: Self, units: u64) -> Self {
        let above = self.above.min(other.above);
        Self { above: if above == 0 || above >= units { above } else { NEVER } }
    }
}

impl CounterStep {
    /// Returns whether the counter has room for this.
    fn fits(self, used: u64) -> bool {
        match self {
            Self::Charge { units, room, .. } => Reason::of(used, units.max(1), room.limit(units)).is_none(),
            Self::Deny { .. } => false,
            _ => true,
        }
    }

    /// The count after the step, by the count before it and whether all counters of the request have room.
    fn after(self, used: u64, is_admitted: bool) -> u64 {
        let with = |units: u64| used.saturating_add(units).min(Quota::MAX_LIMIT);
        match self {
            Self::Charge { units, .. } | Self::Record { units } if is_admitted => with(units),
            Self::Charge { units, denials, .. } | Self::Deny { units, denials }
                if units > 0 && used.saturating_add(units) > denials.above =>
            {
                with(units)
            }
            Self::Charge { .. } | Self::Record { .. } | Self::Deny { .. } | Self::Look => used,
            Self::Set { used } => used,
            Self::Refund { units, .. } => used.saturating_sub(units),
            Self::Reset => 0,
        }
    }

    /// Returns whether two of them are one step executed twice.
    const fn merges(self) -> bool {
        matches!(self, Self::Charge { .. } | Self::Look)
    }
}

impl WindowSpec {
    /// Returns whether the key of the counter contains the window.
    pub(super) const fn are_named(&self) -> bool {
        matches!(self, Self::Named { .. })
    }

    /// Returns the largest count that the script reports. If the counter has no number of its window, another program
    /// may have counted further than we do.
    pub(super) const fn most_used(&self) -> u64 {
        match self {
            Self::Grid { length, .. } if *length >= SHORTEST_NUMBERED.unsigned_abs() => Quota::MAX_LIMIT,
            _ => SPAN - 1,
        }
    }

    /// Returns whether a window can end then of which the script says the end: the one that a first unit has opened, or
    /// one that has not begun by a clock that has stepped back.
    pub(super) fn may_end(&self, end: Option<i64>, now: Timestamp) -> bool {
        let Some(end) = end else { return true };
        // An end that overflows is far from any time.
        let (now, until_end) = (now.as_unix_millis(), end.saturating_sub(now.as_unix_millis()));
        match *self {
            Self::FirstHit { length } => {
                (1..=length.cast_signed().saturating_add(GRACE)).contains(&until_end)
            }
            Self::Grid { origin, length } => {
                let length = length.cast_signed();
                let until_start = until_end.saturating_sub(length);
                (1..=GRACE).contains(&until_start) && until_end.saturating_add(now - origin) % length == 0
            }
            // The script does not know how long the next window is, but that it is less than half as long again.
            Self::Given { start, end: own } => {
                let next = end.saturating_sub(own);
                own - now <= GRACE && next > 0 && next.saturating_mul(2) < (own - start).saturating_mul(3)
            }
            Self::Named { .. } => false,
        }
    }

    /// Returns those of a counter whose key does not contain them. Of a calendar the one that is open at `now`.
    pub(crate) fn of(counter: &Counter<'_>, now: impl FnOnce() -> Timestamp) -> Self {
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
                let window = window_at(now());
                Self::Given { start: window.start().as_unix_millis(), end: window.end().as_unix_millis() }
            }
        }
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
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
            (windows, _) => windows,
        };
        Self { step, windows }
    }
}

impl Request {
    /// Returns whether all windows that it names are open at this time.
    pub(crate) fn is_open_at(&self, now: impl Fn() -> Timestamp) -> bool {
        self.shapes.iter().all(|shape| match shape.windows {
            WindowSpec::Grid { .. } | WindowSpec::FirstHit { .. } => true,
            WindowSpec::Given { start, end } | WindowSpec::Named { start, end } => {
                (start..end).contains(&now().as_unix_millis())
            }
        })
    }

    /// Returns whether a window that it names has not begun at this time.
    pub(crate) fn is_early_at(&self, now: Timestamp) -> bool {
        self.shapes.iter().any(|shape| match shape.windows {
            WindowSpec::Given { start, .. } | WindowSpec::Named { start, .. } => now.as_unix_millis() < start,
            WindowSpec::Grid { .. } | WindowSpec::FirstHit { .. } => false,
        })
    }

    /// Returns whether the script takes it at this time, instead of calling it stale. A refund may be early, after a
    /// step back of the clock.
    pub(super) fn is_timely_at(&self, now: Timestamp) -> bool {
        let now = now.as_unix_millis();
        self.shapes.iter().all(|shape| match shape.windows {
            WindowSpec::Grid { .. } | WindowSpec::FirstHit { .. } => true,
            WindowSpec::Given { start, end } | WindowSpec::Named { start, end } => {
                let early = if matches!(shape.step, CounterStep::Refund { .. }) { GRACE } else { 0 };
                (start.saturating_sub(early)..end).contains(&now)
            }
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
        self.shapes.iter().all(|shape| shape.step.merges())
    }

    pub(crate) fn is_refund(&self) -> bool {
        self.shapes.iter().any(|shape| matches!(shape.step, CounterStep::Refund { .. }))
    }

    /// Executes the step as the script does: returns the usage of each counter after it, from the usage before.
    pub(super) fn step(&self, counters: &mut [CountChange]) {
        let is_admitted =
            self.shapes.iter().zip(&*counters).all(|(shape, found)| shape.step.fits(found.before));
        for (shape, found) in self.shapes.iter().zip(counters) {
            found.after = shape.step.after(found.before, is_admitted);
        }
    }
}
