//! The units in flight of a decision: where they stand, and which limit decided.

use tollgate::{HoldPlace, InFlightState, PolicyInFlight, QuotaStates, Reason, Source};

use super::AppliedOverride;
use crate::Policy;

/// The state of one limit in flight after a decision.
#[derive(Debug, Clone, Copy)]
pub struct InFlightStanding<'a> {
    /// The policy of the limit.
    pub policy: &'a Policy,
    /// The limit. While the store cannot answer, the state may have another one.
    pub in_flight: &'a PolicyInFlight,
    /// The override that the limit belongs to, if it is not from the policies.
    pub by_override: Option<AppliedOverride>,
    /// Where it stands.
    pub state: &'a InFlightState,
}

/// The same without its policies, which are places among those of the set.
#[derive(Debug, Clone)]
pub(super) struct InFlightRecord {
    pub(super) policy: u32,
    pub(super) in_flight: PolicyInFlight,
    pub(super) by_override: Option<AppliedOverride>,
    pub(super) state: InFlightState,
}

/// The limits in flight of one request; at least one.
#[derive(Debug, Clone)]
pub(super) struct InFlightResult {
    pub(super) records: Box<[InFlightRecord]>,
    pub(super) place: HoldPlace,
    /// The one that decided, unless a quota did.
    deciding: Option<usize>,
}

impl InFlightResult {
    /// Returns the result, if there are any such limits.
    pub(super) fn new(
        records: Vec<InFlightRecord>,
        place: HoldPlace,
        counted: &QuotaStates,
    ) -> Option<Box<Self>> {
        if records.is_empty() {
            return None;
        }
        let position = |is_meant: &dyn Fn(&InFlightState) -> bool| {
            records.iter().position(|record| is_meant(&record.state))
        };
        let never = position(&|state| state.reason() == Some(Reason::CostExceedsLimit));
        let deciding = match never {
            Some(never) => Some(never),
            None if !counted.is_admitted() => None,
            None => position(&|state| !state.has_room())
                .or_else(|| least_left(&records).filter(|_| counted.is_empty())),
        };
        Some(Box::new(Self { records: records.into(), place, deciding }))
    }

    /// Returns the limit that decided, unless a quota did.
    pub(super) fn decided(&self) -> Option<&InFlightRecord> {
        self.records.get(self.deciding?)
    }

    pub(super) const fn source(&self) -> Source {
        match self.place {
            HoldPlace::Store => Source::Store,
            HoldPlace::Process | HoldPlace::Nowhere => Source::Fallback,
        }
    }
}

/// The one with the least remaining share; the first of equals.
fn least_left(records: &[InFlightRecord]) -> Option<usize> {
    let left = |record: &InFlightRecord| {
        let state = record.state;
        // In units of 2^-20 of the limit, which is at most 2^20.
        (u64::from(state.remaining()) << 20) / u64::from(state.limit().max(1))
    };
    let least = records.iter().enumerate().min_by_key(|(_, record)| left(record));
    least.map(|(index, _)| index)
}
