//! What the step of a request came to.

use tollgate::{QuotaState, QuotaStates};

use super::in_flight::{InFlightRecord, InFlightResult};

/// The result of a request's charges, and of its units in flight.
#[derive(Debug, Clone)]
pub(super) struct ChargeResult {
    pub(super) counted: QuotaStates,
    /// The index of the quota that decided; 0 if there is none.
    pub(super) deciding: usize,
    /// Whether the store had no room for them.
    pub(super) is_full: bool,
    /// A hold's units in flight, if it has any; a check has none.
    pub(super) in_flight: Option<Box<InFlightResult>>,
}

impl ChargeResult {
    pub(super) fn counted(counted: QuotaStates) -> Self {
        Self { deciding: counted.deciding(), counted, is_full: false, in_flight: None }
    }

    /// Adds the units in flight.
    pub(super) fn with_in_flight(self, in_flight: Option<Box<InFlightResult>>) -> Self {
        Self { in_flight, ..self }
    }

    /// Returns whether everything had room.
    pub(super) fn is_admitted(&self) -> bool {
        // A limit that has no room decides, unless a quota has none either.
        self.counted.is_admitted() && self.limit_in_flight().is_none_or(|record| record.state.has_room())
    }

    /// Returns the limit in flight that decided.
    pub(super) fn limit_in_flight(&self) -> Option<&InFlightRecord> {
        self.in_flight.as_ref()?.decided()
    }

    /// Returns all limits in flight.
    pub(super) fn in_flight_records(&self) -> &[InFlightRecord] {
        self.in_flight.as_ref().map_or(&[], |in_flight| &in_flight.records)
    }

    /// Returns the result if the store had no room.
    pub(super) fn without_room(uncounted: QuotaStates) -> Self {
        Self { is_full: true, ..Self::counted(uncounted) }
    }

    /// Returns the result of a part of these quotas.
    pub(super) fn part(&self, counted: QuotaStates) -> Self {
        Self { is_full: self.is_full, ..Self::counted(counted) }
    }

    /// Returns the state of the quota that decided, unless a limit in flight did.
    pub(super) fn state(&self) -> Option<&QuotaState> {
        self.counted.get(self.deciding).filter(|_| self.limit_in_flight().is_none())
    }
}
