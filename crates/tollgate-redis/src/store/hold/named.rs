//! A step on a hold, as the script is asked for it, and the meaning of its answer.

use sha2::{Digest, Sha256};
use smallvec::SmallVec;
use tollgate::{
    Charge, HoldAdjustment, HoldAnswer, HoldStates, HoldTerms, InFlightCharge, InFlightState, QuotaState,
    SettledStates, StoreError, Timestamp,
};

use crate::error::RedisError;
use crate::named_charges::{CounterOperation, NamedCharges, marked_window};
use crate::names::{CounterIdentity, CounterNames};
use crate::script::{
    AdjustedCounter, AdjustedPlace, CounterStep, FlightShape, HoldName, HoldOperation, HoldOutcome,
    HoldSettlement, HoldShape, HoldVerdict, KeyText, Request, SettledCounters, Shape,
};

/// The most milliseconds that a hold lives under a limit in flight without a length.
const LONGEST: u32 = tollgate::HoldLength::MAX.millis();

/// A hold with the names of all that it has in one slot.
pub(super) struct NamedHold<'a> {
    terms: HoldTerms<'a>,
    name: HoldName,
    /// The record of the id, and the units in flight.
    keys: SmallVec<[KeyText; 2]>,
    in_flight: SmallVec<[FlightShape; 1]>,
    pub(super) named: NamedCharges<'a>,
}

/// What is asked of a hold.
#[derive(Debug, Clone, Copy)]
pub(super) enum HoldOrder<'a> {
    Reserve,
    Look,
    Renew,
    Settle(&'a [HoldAdjustment]),
    Undo(&'a [HoldAdjustment]),
}

/// Digests of an id and of what it is bound to.
pub(super) fn hold_name(terms: &HoldTerms<'_>, attempt: u64) -> HoldName {
    let mut id = Sha256::new_with_prefix(b"hold");
    id.update(terms.id().as_bytes());
    HoldName {
        id: first_bytes(id),
        binding: first_bytes(Sha256::new_with_prefix(terms.binding())),
        attempt: attempt.to_be_bytes(),
    }
}

/// The states that a step decided.
///
/// # Errors
///
/// If it is another answer.
pub(super) fn decided(answer: HoldAnswer) -> Result<HoldStates, StoreError> {
    match answer {
        HoldAnswer::Decided(states) => Ok(states),
        _ => Err(RedisError::BadReply.into()),
    }
}

fn first_bytes(digest: Sha256) -> [u8; 16] {
    let mut first = [0; 16];
    first.copy_from_slice(&digest.finalize()[..16]);
    first
}

impl<'a> NamedHold<'a> {
    /// Names a hold of these terms. On a Cluster, its record is in the slot of its first key.
    ///
    /// # Errors
    ///
    /// If holds have no names, or two parts are on one counter.
    pub(super) fn new(
        terms: HoldTerms<'a>,
        name: HoldName,
        names: &CounterNames,
        is_cluster: bool,
    ) -> Result<Self, StoreError> {
        let holds = names.of_holds()?;
        let identity = |charge: &InFlightCharge<'_>| names.counter_identity(charge.key());
        let identities: SmallVec<[CounterIdentity; 1]> = terms.in_flight().iter().map(identity).collect();
        let slot = is_cluster.then(|| {
            let charged = || terms.charges().first().map(|it| names.counter_identity(it.counter().key()));
            identities.first().cloned().or_else(charged)
        });
        let mut keys = SmallVec::<[KeyText; 2]>::new();
        keys.push(holds.record(u128::from_be_bytes(name.id), slot.flatten().as_ref()));
        let flights = terms.in_flight().iter().zip(&identities);
        keys.extend(flights.map(|(charge, identity)| holds.in_flight(charge.in_flight(), identity)));
        let named = NamedCharges::new(terms.charges(), names);
        let has_twice = (1..keys.len()).any(|place| keys[..place].contains(&keys[place]));
        if has_twice || named.len() != terms.charges().len() {
            return Err(StoreError::Uncountable("two parts of a hold are on one counter"));
        }
        let in_flight = terms.in_flight().iter().map(flight_shape).collect();
        Ok(Self { terms, name, keys, in_flight, named })
    }

    /// Returns the request to the script. Only calendar windows depend on `now`, the server's time.
    ///
    /// # Errors
    ///
    /// If a counter has no name.
    pub(super) fn request(
        &self,
        order: HoldOrder<'_>,
        names: &CounterNames,
        now: impl Fn() -> Timestamp,
    ) -> Result<Request, StoreError> {
        let mut keys: SmallVec<[KeyText; 1]> = self.keys.iter().cloned().collect();
        let (operation, shapes) = match order {
            HoldOrder::Renew => (HoldOperation::Renew, SmallVec::new()),
            HoldOrder::Reserve | HoldOrder::Look => {
                let (charged, _) = self.named.request(CounterOperation::Charge, names, now)?;
                keys.extend(charged.keys);
                let is_look = matches!(order, HoldOrder::Look);
                (if is_look { HoldOperation::Look } else { HoldOperation::Reserve }, charged.shapes)
            }
            HoldOrder::Settle(adjustments) | HoldOrder::Undo(adjustments) => {
                let (looked, _) = self.named.request(CounterOperation::Look, names, now)?;
                let mut settled = SettledCounters {
                    windows: looked.shapes.iter().map(|shape| shape.windows).collect(),
                    adjusted: SmallVec::new(),
                };
                let mut shapes = SmallVec::new();
                for (place, adjustment) in adjustments.iter().enumerate().take(looked.keys.len()) {
                    let (step, limit) = match *adjustment {
                        HoldAdjustment::Keep => continue,
                        HoldAdjustment::GiveBack { units, mark } => {
                            let start = mark.time().as_unix_millis();
                            (CounterStep::Refund { units: units.into(), start }, None)
                        }
                        HoldAdjustment::Charge(units) => (CounterStep::Record { units: units.into() }, None),
                        HoldAdjustment::ChargeUpTo(units) => {
                            let limit = self.terms.charges().get(place).map(Charge::limit);
                            (CounterStep::Record { units: units.into() }, limit)
                        }
                    };
                    keys.push(looked.keys[place].clone());
                    shapes.push(Shape { step, windows: looked.shapes[place].windows });
                    settled.adjusted.push(AdjustedPlace { place, limit });
                }
                let operation = match order {
                    HoldOrder::Undo(_) => HoldOperation::Undo(settled),
                    _ => HoldOperation::Settle(settled),
                };
                (operation, shapes)
            }
        };
        let length = self.terms.length().millis();
        let hold = HoldShape { operation, name: self.name, length, in_flight: self.in_flight.clone() };
        let before = self.terms.end().filter(|_| matches!(order, HoldOrder::Reserve));
        Ok(Request { hold: Some(Box::new(hold)), before, shapes, keys })
    }

    /// Returns what the outcome means for the caller.
    ///
    /// # Errors
    ///
    /// If it is none that is asked for.
    pub(super) fn answer(&self, outcome: HoldOutcome) -> Result<HoldAnswer, StoreError> {
        Ok(match outcome {
            HoldOutcome::Decided(verdict) => HoldAnswer::Decided(self.states(&verdict)),
            HoldOutcome::Renewed => HoldAnswer::Renewed { left: self.terms.length().duration() },
            HoldOutcome::Settled(settlement) => {
                let states = self.adjusted_states(&settlement)?;
                let settled = SettledStates::new(states.into_iter().map(|(_, state)| state).collect());
                HoldAnswer::Settled(if settlement.is_repeated { settled.repeated() } else { settled })
            }
            HoldOutcome::Forgotten(units) => HoldAnswer::Forgotten { units },
            HoldOutcome::Lost => HoldAnswer::Lost,
            HoldOutcome::Expired => HoldAnswer::Expired,
            HoldOutcome::Ended => HoldAnswer::Ended,
            HoldOutcome::Conflict => HoldAnswer::Conflict,
        })
    }

    fn states(&self, verdict: &HoldVerdict) -> HoldStates {
        let HoldVerdict { then, is_repeated, is_admitted, in_flight, found } = verdict;
        let in_flight = self.terms.in_flight().iter().zip(in_flight).map(|(charge, count)| {
            let state = InFlightState::decide(count.limit, count.live, charge.units());
            let state = state.with_expired(count.expired);
            if *is_admitted { state.taken(charge.units()) } else { state }
        });
        let charged = if *is_repeated {
            self.named.counted_before(*then, found)
        } else {
            self.named.counted(*then, found)
        };
        let states = HoldStates::new(in_flight.collect(), charged);
        if *is_repeated { states.repeated() } else { states }
    }

    /// The state of each charge that was adjusted, with its place.
    ///
    /// # Errors
    ///
    /// If there is no such charge.
    pub(super) fn adjusted_states(
        &self,
        settlement: &HoldSettlement,
    ) -> Result<Vec<(usize, QuotaState)>, StoreError> {
        let HoldSettlement { then, counters, .. } = settlement;
        counters.iter().map(|counter| Ok((counter.place, self.adjusted_state(*then, counter)?))).collect()
    }

    fn adjusted_state(&self, then: Timestamp, adjusted: &AdjustedCounter) -> Result<QuotaState, StoreError> {
        let AdjustedCounter { place, step, change, is_closed } = adjusted;
        let charge = self.terms.charges().get(*place).ok_or(RedisError::BadReply)?;
        let counter = charge.counter();
        let units = |units: u64| u32::try_from(units).map_err(|_| RedisError::BadReply);
        Ok(match *step {
            _ if *is_closed => change.state(&counter, then),
            CounterStep::Refund { start, .. } => {
                let mark = tollgate::Mark::at(Timestamp::from_unix_millis(start));
                // The window that was named, which after a step back of the clock may not have begun.
                let window = marked_window(&counter, mark);
                change.state_in(window, &counter, then).with_units(units(change.given)?)
            }
            _ => change.state(&counter, then).with_units(units(change.after.saturating_sub(change.before))?),
        })
    }
}

pub(super) fn flight_shape(charge: &InFlightCharge<'_>) -> FlightShape {
    let in_flight = charge.in_flight().in_flight();
    FlightShape {
        units: charge.units(),
        limit: in_flight.limit(),
        longest: in_flight.length().map_or(LONGEST, tollgate::HoldLength::millis),
    }
}
