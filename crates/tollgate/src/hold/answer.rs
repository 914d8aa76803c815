//! The answers of a store to steps on holds.

use std::ops::Deref;
use std::time::Duration;

use crate::{InFlightState, PerQuota, QuotaStates, Reason};

/// The answer to a [`HoldStep`](super::HoldStep).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldAnswer {
    /// The states after a reservation or a look. If it was admitted, the hold lives.
    Decided(HoldStates),
    /// The hold lives for so long from now.
    Renewed {
        /// Its length.
        left: Duration,
    },
    /// The hold has ended.
    Settled(SettledStates),
    /// The counter had so many live units, which are forgotten.
    Forgotten {
        /// How many.
        units: u32,
    },
    /// The hold lives, but its units in flight do not: they were reset, or the store lost them. Nothing brings them
    /// back. Settling still settles its charges.
    Lost,
    /// The id is not known, or the hold has expired: nothing was changed.
    Expired,
    /// The hold was settled before it was reserved or renewed again: nothing was changed.
    Ended,
    /// The id belongs to other terms, or was settled before with other adjustments: nothing was changed.
    Conflict,
    /// The hold was admitted without being counted anywhere, because the store could not answer.
    Gone,
}

/// Where a hold is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HoldPlace {
    /// In the store.
    #[default]
    Store,
    /// In the memory of the process that answered, while the store could not.
    Process,
    /// Nowhere: it was admitted because the store could not answer.
    Nowhere,
}

/// The states of all parts of a hold after a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldStates {
    in_flight: PerQuota<InFlightState>,
    charged: QuotaStates,
    place: HoldPlace,
    is_repeated: bool,
}

/// What settling came to: a state for each charge that was adjusted, in order, with the
/// [units](crate::QuotaState::units) that were given back or charged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledStates {
    charged: QuotaStates,
    is_repeated: bool,
}

impl HoldStates {
    /// Creates the states of a step of the store.
    #[must_use]
    pub fn new(in_flight: PerQuota<InFlightState>, charged: QuotaStates) -> Self {
        Self { in_flight, charged, place: HoldPlace::Store, is_repeated: false }
    }

    /// Sets where the hold is counted.
    #[must_use]
    pub fn with_place(self, place: HoldPlace) -> Self {
        Self { place, ..self }
    }

    /// Marks the answer to a step that was taken before: these are its states then. The first answer had the expired
    /// units.
    #[must_use]
    pub fn repeated(self) -> Self {
        let in_flight = self.in_flight.iter().map(|state| state.with_expired(0)).collect();
        Self { in_flight, is_repeated: true, ..self }
    }

    /// Returns a state for each limit in flight, in their order.
    #[must_use]
    pub const fn in_flight(&self) -> &PerQuota<InFlightState> {
        &self.in_flight
    }

    /// Returns a state for each charge, in their order.
    #[must_use]
    pub const fn charged(&self) -> &QuotaStates {
        &self.charged
    }

    /// Returns where the hold is counted.
    #[must_use]
    pub const fn place(&self) -> HoldPlace {
        self.place
    }

    /// Returns whether an earlier step had taken the hold, so that this one took nothing.
    #[must_use]
    pub const fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// Returns whether everything had room.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.reason().is_none()
    }

    /// Returns why the hold was denied. Units that can never be in flight come first, then what the quotas say, then
    /// the limits in flight.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        let in_flight = || self.in_flight.iter().filter_map(InFlightState::reason);
        let never = in_flight().find(|reason| *reason == Reason::CostExceedsLimit);
        let quotas = || self.charged.decided().and_then(|state| state.reason());
        never.or_else(quotas).or_else(|| in_flight().next())
    }
}

impl SettledStates {
    /// Creates the states of a step that has settled a hold.
    #[must_use]
    pub const fn new(charged: QuotaStates) -> Self {
        Self { charged, is_repeated: false }
    }

    /// Marks the answer to a step that was taken before: these are its states then.
    #[must_use]
    pub fn repeated(self) -> Self {
        Self { is_repeated: true, ..self }
    }

    /// Returns whether an earlier step had settled the hold, so that this one changed nothing.
    #[must_use]
    pub const fn is_repeated(&self) -> bool {
        self.is_repeated
    }
}

impl Deref for SettledStates {
    type Target = QuotaStates;

    fn deref(&self) -> &QuotaStates {
        &self.charged
    }
}
