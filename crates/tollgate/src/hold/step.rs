//! The steps of a store on holds.

use smallvec::SmallVec;

use super::{HoldId, HoldLength};
use crate::key::write_length;
use crate::{Charge, Key, Mark, PolicyInFlight, Timestamp};

/// Units of one limit in flight that a hold takes for a key.
#[derive(Debug, Clone, Copy)]
pub struct InFlightCharge<'a> {
    in_flight: &'a PolicyInFlight,
    key: &'a Key<'a>,
    units: u32,
}

/// What a hold is for: its id, its parts, and how long it lives.
///
/// The id is bound to the parts: the policies, windows, keys, costs and units, but no limit, so that a changed limit
/// changes nothing for a hold that lives. No two parts are on one counter: memory would add them up, and the Redis
/// store refuses them as [`Uncountable`](crate::StoreError::Uncountable).
#[derive(Debug, Clone, Copy)]
pub struct HoldTerms<'a> {
    id: HoldId,
    in_flight: &'a [InFlightCharge<'a>],
    charges: &'a [Charge<'a>],
    length: HoldLength,
    end: Option<Timestamp>,
}

/// One atomic step on a hold.
///
/// Each may be repeated with the same terms: the first answer that changed something is remembered as long as the id
/// is.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum HoldStep<'a> {
    /// Takes the units in flight and makes the charges, all or nothing, before the [end](HoldTerms::before) if there is
    /// one. A denial charges what a denial charges, and is
    /// not remembered. Repeated, it starts the length of the hold again. Answered with
    /// [`Decided`](super::HoldAnswer::Decided).
    Reserve(HoldTerms<'a>),
    /// Answers as `Reserve` would for an unknown id, but takes and charges nothing.
    Look(HoldTerms<'a>),
    /// Starts the length of the hold again. Answered with [`Renewed`](super::HoldAnswer::Renewed).
    Renew(HoldTerms<'a>),
    /// Ends the hold: frees its units in flight, and adjusts its charges, each by its own adjustment in this order.
    /// Repeated with other adjustments, it is a [`Conflict`](super::HoldAnswer::Conflict). Answered with
    /// [`Settled`](super::HoldAnswer::Settled).
    Settle(HoldTerms<'a>, &'a [HoldAdjustment]),
    /// Forgets all units in flight of the counter, whoever holds them; the units and the length of the charge mean
    /// nothing. Answered with [`Forgotten`](super::HoldAnswer::Forgotten).
    Reset(InFlightCharge<'a>),
}

/// What settling does to one charge of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldAdjustment {
    /// Nothing: the cost is fixed, or is what was charged.
    Keep,
    /// Gives back units to the window that was charged, as [`Step::Refund`](crate::Step::Refund) does.
    GiveBack {
        /// How many; no more than the cost.
        units: u32,
        /// The [mark](crate::QuotaState::mark) of the charge.
        mark: Mark,
    },
    /// Charges units that the reservation lacked, without asking for room.
    Charge(u32),
    /// Charges as many of these units as there is room for.
    ChargeUpTo(u32),
}

impl<'a> InFlightCharge<'a> {
    /// Creates a charge of so many units.
    #[must_use]
    pub const fn new(in_flight: &'a PolicyInFlight, key: &'a Key<'a>, units: u32) -> Self {
        Self { in_flight, key, units }
    }

    /// Returns the limit.
    #[must_use]
    pub const fn in_flight(&self) -> &'a PolicyInFlight {
        self.in_flight
    }

    /// Returns the key.
    #[must_use]
    pub const fn key(&self) -> &'a Key<'a> {
        self.key
    }

    /// Returns the units.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }
}

impl<'a> HoldTerms<'a> {
    /// Creates the terms. If a limit in flight has a length of its own that is shorter, the hold lives that long.
    #[must_use]
    pub fn new(
        id: HoldId,
        in_flight: &'a [InFlightCharge<'a>],
        charges: &'a [Charge<'a>],
        length: HoldLength,
    ) -> Self {
        let own = in_flight.iter().filter_map(|charge| charge.in_flight.in_flight().length());
        let length = own.fold(length, HoldLength::min);
        Self { id, in_flight, charges, length, end: None }
    }

    /// Lets [`Reserve`](HoldStep::Reserve) take the hold only if the store's time is before the end, as
    /// [`Step::ChargeBefore`](crate::Step::ChargeBefore) does: otherwise it changes nothing, and fails with
    /// [`StoreError::Ended`](crate::StoreError::Ended).
    ///
    /// The id is not bound to the end, and only `Reserve` heeds it. An id that the store knows gets the same answer as
    /// without an end: a repeated reservation gets its first answer at any time.
    #[must_use]
    pub const fn before(self, end: Timestamp) -> Self {
        Self { end: Some(end), ..self }
    }

    /// Returns the id.
    #[must_use]
    pub const fn id(&self) -> HoldId {
        self.id
    }

    /// Returns the units in flight.
    #[must_use]
    pub const fn in_flight(&self) -> &'a [InFlightCharge<'a>] {
        self.in_flight
    }

    /// Returns the charges.
    #[must_use]
    pub const fn charges(&self) -> &'a [Charge<'a>] {
        self.charges
    }

    /// Returns how long the hold lives from its last renewal: the shortest of all lengths.
    #[must_use]
    pub const fn length(&self) -> HoldLength {
        self.length
    }

    /// Returns the [end](Self::before) before which the hold must be reserved, if there is one.
    #[must_use]
    pub const fn end(&self) -> Option<Timestamp> {
        self.end
    }

    /// Returns what the id is bound to, encoded injectively: a store that remembers the id remembers a digest of this.
    /// It is the same in every process.
    #[must_use]
    pub fn binding(&self) -> Vec<u8> {
        let mut bytes = SmallVec::<[u8; 128]>::new();
        let mut part = |policy: &str, series: &str, key: &Key<'_>, units: u32| {
            for text in [policy.as_bytes(), series.as_bytes(), &key.canonical_bytes()] {
                write_length(&mut bytes, text.len());
                bytes.extend_from_slice(text);
            }
            bytes.extend_from_slice(&units.to_be_bytes());
        };
        for charge in self.in_flight {
            part(charge.in_flight.policy(), PolicyInFlight::SERIES, charge.key, charge.units);
        }
        for charge in self.charges {
            let counter = charge.counter();
            part(counter.quota().policy(), counter.quota().windows(), counter.key(), charge.cost());
        }
        bytes.into_vec()
    }
}

impl<'a> HoldStep<'a> {
    /// Returns the terms of the hold; none for [`Reset`](Self::Reset), which is on a counter.
    #[must_use]
    pub const fn terms(&self) -> Option<&HoldTerms<'a>> {
        match self {
            Self::Reserve(terms) | Self::Look(terms) | Self::Renew(terms) | Self::Settle(terms, _) => {
                Some(terms)
            }
            Self::Reset(_) => None,
        }
    }
}
