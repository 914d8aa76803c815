//! The units in flight of one key after a step.

use super::InFlight;
use crate::Reason;

/// The units in flight of one key after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightState {
    limit: u32,
    live: u32,
    units: u32,
    expired: u32,
    reason: Option<Reason>,
}

impl InFlightState {
    /// Decides whether `units` more may be live; 0 units get the answer that one would get. With the reason, the state
    /// is that of a denial, and no units are taken.
    #[must_use]
    pub fn decide(in_flight: InFlight, live: u32, units: u32) -> Self {
        let limit = in_flight.limit();
        let most = limit.min(InFlight::MAX_UNITS);
        let reason = if units.max(1) > most {
            Some(Reason::CostExceedsLimit)
        } else if live > limit - units.max(1) {
            Some(Reason::InFlightExceeded)
        } else {
            None
        };
        Self { limit, live, units: 0, expired: 0, reason }
    }

    /// Returns the state with so many more live units, which the step has taken.
    #[must_use]
    pub const fn taken(self, units: u32) -> Self {
        Self { live: self.live.saturating_add(units), units, ..self }
    }

    /// Returns the state of a step that found so many [expired units](Self::expired).
    #[must_use]
    pub const fn with_expired(self, expired: u32) -> Self {
        Self { expired, ..self }
    }

    /// Returns the state with another reason, or none.
    pub(crate) const fn with_reason(self, reason: Option<Reason>) -> Self {
        Self { reason, ..self }
    }

    /// Returns the most units that may be live at once.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the live units of the key, the units that the step has taken included. They are above the limit if the
    /// limit was lowered, because that ends no hold.
    #[must_use]
    pub const fn live(&self) -> u32 {
        self.live
    }

    /// Returns how many more units may be live; never negative.
    #[must_use]
    pub const fn remaining(&self) -> u32 {
        self.limit.saturating_sub(self.live)
    }

    /// Returns the units that the step has taken.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// Returns how many units the step found expired: their holds ended at the end of their life, because nobody settled
    /// or renewed them. Each unit is in one answer at most, and in none if the step fails or its answer is lost.
    ///
    /// Only a step that takes or denies units of a hold with an [id](crate::HoldId) finds any. A store in memory finds those
    /// of all keys of the policy; if units of more than 4,096 policies wait for a step, it forgets those of some. Redis
    /// finds those of the key, and loses those of a key that nobody asks for within a second after its last unit has ended,
    /// and what a reset removes.
    #[must_use]
    pub const fn expired(&self) -> u32 {
        self.expired
    }

    /// Returns why there was no room, if there was none.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Returns whether there was room.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.reason.is_none()
    }
}
