//! What is done to one counter, and whether it has room: the same arithmetic as in the script.

use tollgate::kind::Standing;
use tollgate::{Charge, CountDenied, Mark, Quota, Reason, Timestamp};

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
    /// Charges the units, unless the other counter of the request, the block of this one, has begun. Above the limit,
    /// the block begins with all units. The block itself has neither.
    Block { units: u64, limit: u64 },
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

/// No count reaches this. Lua's integers are exact up to here.
pub(super) const NEVER: u64 = (1 << 53) - 1;

/// A counter before and after a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CountChange {
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// Units in `before` that the same step charged to other counters with the same key.
    pub(crate) others: u64,
    /// The end of the window, if it is not the quota's current one: that of a `first_hit` counter or, after a step back
    /// of the server's clock, one that has not begun.
    pub(crate) end: Option<Timestamp>,
    /// The units that a refund gave back.
    pub(crate) given: u64,
    /// The counter after the step, unless it counts in fixed windows, of which the counts tell all.
    pub(crate) standing: Option<Standing>,
}

impl CountChange {
    /// A counter of a fixed window that no step has changed.
    pub(crate) const fn of_count(used: u64, end: Option<Timestamp>) -> Self {
        Self { before: used, after: used, others: 0, end, given: 0, standing: None }
    }

    /// A counter of another kind that no step has changed.
    pub(crate) fn of_standing(standing: Standing) -> Self {
        let used = standing.used();
        Self { standing: Some(standing), ..Self::of_count(used, None) }
    }

    /// Gives back what the step charged.
    pub(crate) fn undo(&mut self) {
        let charged = self.after.saturating_sub(self.before);
        self.standing = self.standing.take().map(|standing| {
            let mark = standing.mark();
            standing.give_back(charged, mark).1
        });
        self.after = self.before;
    }

    /// Charges a counter, unless its block has begun. Above the limit, the block begins with all units.
    pub(super) fn charge_or_block(&mut self, block: &mut Self, units: u64, limit: u64) {
        let after = self.before.saturating_add(units).min(Quota::MAX_LIMIT);
        let (counted, blocked) = match block.before {
            0 if units > 0 && after > limit => (0, after),
            0 => (after, 0),
            blocked => (self.before, blocked),
        };
        (self.after, block.after) = (counted, blocked);
        // The units that were taken, wherever they are.
        self.given = if block.before == 0 { after - self.before } else { 0 };
    }

    /// Takes the step, by whether all counters of the request have room. No step leads to more units than are kept.
    pub(super) fn take(&mut self, step: CounterStep, is_admitted: bool, most_kept: u64) {
        let Some(standing) = self.standing.take() else {
            self.after = step.after(self.before, is_admitted);
            self.given = self.before.saturating_sub(self.after);
            return;
        };
        let (given, after) = match step {
            CounterStep::Set { used } => (0, standing.set(used.min(most_kept))),
            CounterStep::Refund { units, start } => {
                standing.give_back(units, Mark::at(Timestamp::from_unix_millis(start)))
            }
            CounterStep::Reset => (0, standing.set(0)),
            // A bucket of which the limit was raised may have more units than any charge leads to.
            step => {
                let after = step.after(self.before, is_admitted).min(most_kept);
                (0, standing.add(after.saturating_sub(self.before)))
            }
        };
        (self.given, self.after, self.standing) = (given, after.used(), Some(after));
    }
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

    pub(super) fn and(self, other: Self) -> Self {
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
    pub(super) fn and(self, other: Self, units: u64) -> Self {
        let above = self.above.min(other.above);
        Self { above: if above == 0 || above >= units { above } else { NEVER } }
    }
}

impl CounterStep {
    /// Returns whether the counter has room for this.
    pub(super) fn fits(self, used: u64) -> bool {
        match self {
            Self::Charge { units, room, .. } => Reason::of(used, units.max(1), room.limit(units)).is_none(),
            Self::Deny { .. } => false,
            _ => true,
        }
    }

    /// The count after the step, by the count before it and whether all counters of the request have room.
    pub(super) fn after(self, used: u64, is_admitted: bool) -> u64 {
        let with = |units: u64| used.saturating_add(units).min(Quota::MAX_LIMIT);
        match self {
            Self::Charge { units, .. } | Self::Record { units } if is_admitted => with(units),
            Self::Charge { units, denials, .. } | Self::Deny { units, denials }
                if units > 0 && used.saturating_add(units) > denials.above =>
            {
                with(units)
            }
            // Depends on the other counter, too.
            Self::Block { .. } => used,
            Self::Charge { .. } | Self::Record { .. } | Self::Deny { .. } | Self::Look => used,
            Self::Set { used } => used,
            Self::Refund { units, .. } => used.saturating_sub(units),
            Self::Reset => 0,
        }
    }

    /// Returns whether two of them are one step executed twice.
    pub(super) const fn merges(self) -> bool {
        matches!(self, Self::Charge { .. } | Self::Look)
    }
}
