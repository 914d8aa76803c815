//! The store under test: the only file of these worlds that knows the library's interface.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(tollgate_shuttle)]
use shuttle::thread;

use super::super::super::super::table::{Cap, Table};
use super::super::super::super::time::Time;
use super::super::super::super::{HeldUnits, Inner, LiveCharge, MemoryStore, fingerprint, names};
use super::happened::{ChargeReply, HoldAct, HoldEvent, HoldReply, UnitsReply};
use super::two_clocks::TwoClocks;
use super::world::{HoldAsk, HoldOp, HoldWorld, KEYS, Settlement};
use crate::{
    Charge, Full, HoldAdjustment, HoldAnswer, HoldId, HoldLength, HoldStep, HoldTerms, InFlight,
    InFlightCharge, InFlightState, Key, Mark, MemoryError, PolicyInFlight, PolicyQuota, Quota, QuotaStates,
    Reason, Timestamp,
};

/// Clones share the store.
#[derive(Clone)]
pub(super) struct HoldSystem(Arc<Inside>);

struct Inside {
    clock: TwoClocks,
    store: MemoryStore<TwoClocks>,
    limits: Vec<PolicyInFlight>,
    quotas: Vec<PolicyQuota>,
    keys: [Key<'static>; KEYS],
    is_alone: bool,
    /// Guards whose owners have crashed.
    forgotten: Mutex<Vec<HeldUnits<TwoClocks>>>,
    /// For each id the starts of the windows that its first charges were counted in.
    marks: Mutex<HashMap<usize, Vec<i64>>>,
}

/// The guards of a thread, the oldest first, with their numbers.
type Guards = VecDeque<(u64, HeldUnits<TwoClocks>)>;

/// Runs a world once.
pub(super) fn history(world: &HoldWorld) -> Vec<Vec<HoldEvent>> {
    let system = HoldSystem::new(world);
    let mut threads = match &world.threads[..] {
        [only] => vec![system.work(0, only)],
        several => system.crowd(several),
    };
    // In the end, everything is looked at.
    let mut guards = Guards::new();
    let asks = (0..world.limits.len()).flat_map(|limit| (0..KEYS).map(move |key| (vec![limit], vec![], key)));
    let quotas =
        (0..world.quotas.len()).flat_map(|quota| (0..KEYS).map(move |key| (vec![], vec![quota], key)));
    for (limits, quotas, key) in asks.chain(quotas) {
        let look = HoldAsk { id: usize::MAX, limits, quotas, key, units: 0, cost: 0, length: 1 };
        let event = system.act(&HoldOp::Look(look), &mut guards, &mut 0);
        threads[0].extend(event);
    }
    threads
}

impl HoldSystem {
    fn new(world: &HoldWorld) -> Self {
        let clock = TwoClocks::new();
        let table =
            fingerprint::with_seed(world.hash, || Table::new(Cap::Counters(world.cap), names::Naming::Off));
        let store = MemoryStore { inner: Arc::new(Inner { time: Time::new(clock.clone()), table }) };
        let limits = world.limits.iter().map(|terms| {
            let limit = InFlight::new(terms.limit).unwrap();
            let limit = terms.length.map_or(limit, |length| limit.with_length(length_of(length)));
            PolicyInFlight::new(&terms.policy.to_string(), limit)
        });
        let quotas = world.quotas.iter().map(|terms| {
            let window = Duration::from_millis(terms.window.unsigned_abs());
            PolicyQuota::new(&terms.policy.to_string(), Quota::new(terms.limit, window).unwrap())
        });
        Self(Arc::new(Inside {
            clock,
            store,
            limits: limits.collect(),
            quotas: quotas.collect(),
            keys: std::array::from_fn(|key| Key::from(key as u64)),
            is_alone: world.threads.len() == 1,
            forgotten: Mutex::default(),
            marks: Mutex::default(),
        }))
    }

    fn work(&self, thread: usize, ops: &[HoldOp]) -> Vec<HoldEvent> {
        let (mut guards, mut next) = (Guards::new(), (thread as u64) << 32);
        let events = ops.iter().filter_map(|op| self.act(op, &mut guards, &mut next)).collect();
        // They outlive the looks at the end.
        guards.into_iter().for_each(|(_, guard)| self.0.forget(guard));
        events
    }

    #[cfg(not(tollgate_shuttle))]
    fn crowd(&self, _: &[Vec<HoldOp>]) -> Vec<Vec<HoldEvent>> {
        unreachable!("only shuttle can run several threads in the same order again")
    }

    #[cfg(tollgate_shuttle)]
    fn crowd(&self, threads: &[Vec<HoldOp>]) -> Vec<Vec<HoldEvent>> {
        let spawn = |(number, ops): (usize, &Vec<HoldOp>)| {
            let (system, ops) = (self.clone(), ops.clone());
            thread::spawn(move || system.work(number, &ops))
        };
        let threads: Vec<_> = threads.iter().enumerate().map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    fn act(&self, op: &HoldOp, guards: &mut Guards, next: &mut u64) -> Option<HoldEvent> {
        let inside = &*self.0;
        match op {
            HoldOp::Reserve(ask) => {
                Some(self.event(HoldAct::Reserve(ask.clone()), || inside.reserve(ask, None)))
            }
            HoldOp::ReserveBefore(ask, after) => {
                let end = inside.clock.wall() + after;
                let act = HoldAct::ReserveBefore(ask.clone(), end);
                Some(self.event(act, || inside.reserve(ask, Some(Timestamp::from_unix_millis(end)))))
            }
            HoldOp::Look(ask) => Some(self.event(HoldAct::Look(ask.clone()), || {
                inside.step(ask, |terms| inside.store.take_hold(HoldStep::Look(terms)))
            })),
            HoldOp::Renew(ask) => Some(self.event(HoldAct::Renew(ask.clone()), || {
                inside.step(ask, |terms| inside.store.take_hold(HoldStep::Renew(terms)))
            })),
            HoldOp::Settle(ask, settlement) => {
                let mut starts = inside.marks().get(&ask.id).cloned().unwrap_or_default();
                starts.resize(ask.quotas.len(), 0);
                let adjustments: Vec<_> =
                    starts.iter().map(|start| adjustment(*settlement, *start)).collect();
                Some(self.event(HoldAct::Settle(ask.clone(), *settlement, starts), || {
                    inside.step(ask, |terms| inside.store.take_hold(HoldStep::Settle(terms, &adjustments)))
                }))
            }
            HoldOp::Reset(limit, key) => Some(self.event(HoldAct::Reset(*limit, *key), || {
                let asked = InFlightCharge::new(&inside.limits[*limit], &inside.keys[*key], 0);
                reply(inside.store.take_hold(HoldStep::Reset(asked)))
            })),
            HoldOp::Guard(ask) => {
                *next += 1;
                Some(self.event(HoldAct::Guard(ask.clone(), *next), || inside.guard(ask, *next, guards)))
            }
            HoldOp::Drop => {
                let (number, guard) = guards.pop_front()?;
                Some(self.event(HoldAct::Drop(number), || {
                    drop(guard);
                    HoldReply::Done
                }))
            }
            HoldOp::Forget => {
                let (_, guard) = guards.pop_front()?;
                inside.forget(guard);
                None
            }
            HoldOp::Check(quota, key, cost) => Some(self.event(HoldAct::Check(*quota, *key, *cost), || {
                let charge = [Charge::new(&inside.quotas[*quota], &inside.keys[*key], *cost)];
                match inside.store.charge(&charge).finish() {
                    Ok(states) => HoldReply::Settled { states: charge_replies(&states), is_repeated: false },
                    Err(Full) => HoldReply::Full,
                }
            })),
            HoldOp::Pass(millis) => {
                inside.clock.pass(*millis, *millis);
                None
            }
            HoldOp::StepWall(millis) => {
                inside.clock.pass(*millis, 0);
                None
            }
            HoldOp::StepBack(millis) => {
                inside.clock.pass(0, -millis);
                None
            }
        }
    }

    fn event(&self, act: HoldAct, take: impl FnOnce() -> HoldReply) -> HoldEvent {
        let inside = &*self.0;
        let (called, time) = inside.clock.call();
        let reply = take();
        let (wall, steady) = inside.clock.last_readings();
        let returned = inside.clock.moment();
        let live = inside.is_alone.then(|| inside.live());
        HoldEvent { called, returned, time, wall, steady, act, reply, live, held: inside.store.counters() }
    }
}

impl Inside {
    fn forget(&self, guard: HeldUnits<TwoClocks>) {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner).push(guard);
    }

    fn marks(&self) -> MutexGuard<'_, HashMap<usize, Vec<i64>>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve(&self, ask: &HoldAsk, end: Option<Timestamp>) -> HoldReply {
        let reply = self.step(ask, |terms| {
            let terms = end.map_or(terms, |end| terms.before(end));
            self.store.take_hold(HoldStep::Reserve(terms))
        });
        if let HoldReply::Decided { charged, .. } = &reply {
            self.marks().insert(ask.id, charged.iter().map(|charge| charge.start).collect());
        }
        reply
    }

    fn step(
        &self,
        ask: &HoldAsk,
        take: impl FnOnce(HoldTerms<'_>) -> Result<HoldAnswer, MemoryError>,
    ) -> HoldReply {
        let key = &self.keys[ask.key];
        let units: Vec<_> = ask
            .limits
            .iter()
            .map(|limit| InFlightCharge::new(&self.limits[*limit], key, ask.units))
            .collect();
        let charges: Vec<_> =
            ask.quotas.iter().map(|quota| Charge::new(&self.quotas[*quota], key, ask.cost)).collect();
        let id = HoldId::from_bytes((ask.id as u128).to_be_bytes());
        reply(take(HoldTerms::new(id, &units, &charges, length_of(ask.length))))
    }

    fn guard(&self, ask: &HoldAsk, number: u64, guards: &mut Guards) -> HoldReply {
        let key = &self.keys[ask.key];
        let asked = LiveCharge { in_flight: &self.limits[ask.limits[0]], key, units: ask.units };
        let charges: Vec<_> =
            ask.quotas.iter().map(|quota| Charge::new(&self.quotas[*quota], key, ask.cost)).collect();
        let Ok(answer) = self.store.hold(&asked, &charges) else { return HoldReply::Full };
        if let Some(units) = answer.held {
            guards.push_back((number, units));
        }
        HoldReply::Decided {
            in_flight: vec![units_reply(&answer.state)],
            charged: charge_replies(&answer.charged),
            is_repeated: false,
        }
    }

    /// The live units of each policy and key, read as they are: nothing is ended for it.
    fn live(&self) -> Vec<u32> {
        let table = &self.store.inner.table;
        let each = self.limits.iter().flat_map(|limit| self.keys.iter().map(move |key| (limit, key)));
        each.map(|(limit, key)| {
            let fingerprint = table.live_fingerprint(limit, key);
            table.live.lock(fingerprint).units(fingerprint)
        })
        .collect()
    }
}

fn adjustment(settlement: Settlement, start: i64) -> HoldAdjustment {
    let mark = Mark::at(Timestamp::from_unix_millis(start));
    match settlement {
        Settlement::Keep => HoldAdjustment::Keep,
        Settlement::GiveBack(units) => HoldAdjustment::GiveBack { units, mark },
        Settlement::Charge(units) => HoldAdjustment::Charge(units),
        Settlement::ChargeUpTo(units) => HoldAdjustment::ChargeUpTo(units),
    }
}

fn length_of(millis: i64) -> HoldLength {
    HoldLength::new(Duration::from_millis(millis.unsigned_abs())).unwrap()
}

fn reply(answer: Result<HoldAnswer, MemoryError>) -> HoldReply {
    match answer {
        Err(MemoryError::Full(Full)) => HoldReply::Full,
        Err(MemoryError::Ended { now }) => HoldReply::TooLate(now.as_unix_millis()),
        Ok(HoldAnswer::Decided(states)) => HoldReply::Decided {
            in_flight: states.in_flight().iter().map(units_reply).collect(),
            charged: charge_replies(states.charged()),
            is_repeated: states.is_repeated(),
        },
        Ok(HoldAnswer::Renewed { left }) => HoldReply::Renewed(i64::try_from(left.as_millis()).unwrap()),
        Ok(HoldAnswer::Settled(settled)) => {
            HoldReply::Settled { states: charge_replies(&settled), is_repeated: settled.is_repeated() }
        }
        Ok(HoldAnswer::Forgotten { units }) => HoldReply::Forgotten(units),
        Ok(HoldAnswer::Lost) => HoldReply::Lost,
        Ok(HoldAnswer::Expired) => HoldReply::Expired,
        Ok(HoldAnswer::Ended) => HoldReply::Ended,
        Ok(HoldAnswer::Conflict) => HoldReply::Conflict,
        Ok(HoldAnswer::Gone) => panic!("a store that counts loses no hold"),
    }
}

fn units_reply(state: &InFlightState) -> UnitsReply {
    UnitsReply {
        live: state.live(),
        units: state.units(),
        expired: state.expired(),
        is_exceeded: state.reason() == Some(Reason::InFlightExceeded),
        can_never_pass: state.reason() == Some(Reason::CostExceedsLimit),
    }
}

fn charge_replies(states: &QuotaStates) -> Vec<ChargeReply> {
    let reply = |state: &crate::QuotaState| ChargeReply {
        used: state.used(),
        units: state.units(),
        is_denied: !state.has_room(),
        start: state.mark().time().as_unix_millis(),
    };
    states.iter().map(reply).collect()
}
