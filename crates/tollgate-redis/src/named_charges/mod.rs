//! Questions to the script: the counters of charges, and the meaning of the answer for each charge.

mod request;
mod states;

use smallvec::SmallVec;
use tollgate::{Charge, CountDenied, Counter, Mark, Timestamp};

pub(crate) use self::request::KeyIndices;
pub(crate) use self::states::{marked_window, units};
use crate::denials::Id;
use crate::names::{CounterIdentity, CounterNames};

/// Charges with the counters they name.
#[derive(Debug, Clone)]
pub(crate) struct NamedCharges<'a> {
    charges: &'a [Charge<'a>],
    /// Every counter once.
    counters: SmallVec<[ChargedCounter<'a>; 1]>,
    /// For each charge the index of its counter.
    indices: SmallVec<[usize; 4]>,
    /// Whether several counters may have one key.
    may_share_keys: bool,
}

#[derive(Debug, Clone)]
struct ChargedCounter<'a> {
    counter: Counter<'a>,
    identity: CounterIdentity,
    /// Its stand-in.
    id: Id,
    /// The total units of all charges on the counter.
    units: u64,
}

/// The operation on all counters that charges name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CounterOperation {
    /// Charges the units, if all counters have room.
    Charge,
    /// The same, if the server's time is before this.
    ChargeBefore(Timestamp),
    /// As `Charge`, for counters that are remembered to have no room.
    Renewal,
    /// Charges the units, whether or not there is room.
    Record,
    /// Charges nothing, but counts denials where they count. For requests that are denied elsewhere.
    Deny,
    /// The same, if the server's time is before this.
    DenyBefore(Timestamp),
    /// Charges the first counter, unless the second one, its block, has begun.
    Block,
    /// Charges nothing.
    Look,
    /// Gives the units back, in the marked window.
    Refund(Mark),
    /// Sets the usage.
    Set(u64),
    /// Resets the usage.
    Reset,
}

impl<'a> NamedCharges<'a> {
    pub(crate) fn new(charges: &'a [Charge<'a>], names: &CounterNames) -> Self {
        let mut counters = SmallVec::<[ChargedCounter<'a>; 1]>::new();
        let mut indices = SmallVec::new();
        for charge in charges {
            let counter = charge.counter();
            let index = counters.iter().position(|known| known.counter == counter).unwrap_or_else(|| {
                // Many quotas of a request have the same identity, whose digest is the most expensive part.
                let known = counters.iter().find(|known| known.counter.key() == counter.key());
                let identity = known
                    .map_or_else(|| names.counter_identity(counter.key()), |known| known.identity.clone());
                let id = names.id(counter.quota(), &identity);
                counters.push(ChargedCounter { counter, identity, id, units: 0 });
                counters.len() - 1
            });
            counters[index].units += u64::from(charge.cost());
            indices.push(index);
        }
        Self { charges, counters, indices, may_share_keys: names.may_be_shared() }
    }

    /// Returns how many counters there are: charges on one counter are together.
    pub(crate) fn len(&self) -> usize {
        self.counters.len()
    }

    /// Returns every counter's stand-in.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> {
        self.counters.iter().map(|named| named.id)
    }

    /// Returns whether a denial may be repeated without asking: nothing is charged for it.
    pub(crate) fn denials_are_free(&self) -> bool {
        let is_free = |(charge, &index): (&Charge<'_>, &usize)| match charge.counter().quota().count_denied()
        {
            CountDenied::No => true,
            CountDenied::Yes => false,
            // All units on its key are charged with it.
            CountDenied::Overdraft if self.may_share_keys => {
                self.counters.iter().all(|named| named.units == 0)
            }
            CountDenied::Overdraft => self.counters[index].units == 0,
        };
        self.charges.iter().zip(&self.indices).all(is_free)
    }
}
