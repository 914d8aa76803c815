//! What a store may answer about holds: rules 13 to 21 of `docs/semantics.md` as lists of holds and of live units.

use std::collections::BTreeMap;

use super::happened::{ChargeReply, HoldAct, HoldEvent, HoldReply, UnitsReply};
use super::two_clocks::START;
use super::world::{HoldAsk, HoldWorld, KEYS, Settlement};

/// The most units of one hold.
const MOST_UNITS: u32 = 1_000;

/// A settled id is remembered for so many milliseconds, or for its length.
const REMEMBERED: i64 = 10_000;

#[derive(Clone)]
pub(super) struct HoldLedger<'a> {
    world: &'a HoldWorld,
    holds: BTreeMap<usize, KnownHold>,
    /// By a number of their own: policy, key and units.
    live: BTreeMap<u64, (usize, usize, u32)>,
    /// By policy: units that have expired since an answer has reported some.
    expired: BTreeMap<usize, u32>,
    next: u64,
    /// The guards by their numbers, with those of their units.
    guards: BTreeMap<u64, u64>,
    /// By policy, length and key: start and usage of the window that was charged last.
    windows: BTreeMap<(usize, i64, usize), (i64, u64)>,
    wall: i64,
    steady: i64,
}

#[derive(Clone)]
struct KnownHold {
    binding: Binding,
    end: i64,
    length: i64,
    /// The numbers of its units.
    units: Vec<u64>,
    /// The first answer: to the reservation, or to the call that settled it.
    first: HoldReply,
    /// The adjustments with which it was settled, if it was.
    settled: Option<Vec<QuotaAdjustment>>,
    places: usize,
}

/// Policies and units in flight; policies, windows and costs; and the key.
type Binding = (Vec<(usize, u32)>, Vec<(usize, i64, u32)>, usize);

/// What settling does to one quota, with the start of the window that is given units back.
type QuotaAdjustment = (Settlement, Option<i64>);

impl<'a> HoldLedger<'a> {
    pub(super) fn new(world: &'a HoldWorld) -> Self {
        Self {
            world,
            holds: BTreeMap::new(),
            live: BTreeMap::new(),
            expired: BTreeMap::new(),
            next: 0,
            guards: BTreeMap::new(),
            windows: BTreeMap::new(),
            wall: START,
            steady: 0,
        }
    }

    /// Takes an event that comes after all before, or says which promise it breaks.
    pub(super) fn accept(&mut self, event: &HoldEvent) -> Result<(), String> {
        self.wall = event.wall.unwrap_or(self.wall);
        if let Some(steady) = event.steady {
            self.end_due(self.steady_of(event, steady)?);
        }
        if event.held > self.world.cap {
            return Err(format!("G8: {} places are taken of {}", event.held, self.world.cap));
        }
        let expected = match &event.act {
            HoldAct::Reserve(ask) => self.reserve(ask, &event.reply)?,
            HoldAct::ReserveBefore(ask, end) => self.reserve_before(ask, *end, event)?,
            HoldAct::Look(ask) => {
                self.may_be_full(ask, &event.reply)?;
                self.decide(ask).0
            }
            HoldAct::Renew(ask) => self.renew(ask),
            HoldAct::Settle(ask, settlement, starts) => {
                self.settle(ask, *settlement, starts, &event.reply)?
            }
            HoldAct::Reset(limit, key) => {
                let policy = self.world.limits[*limit].policy;
                let units = self.live_units(policy, *key);
                self.live.retain(|_, live| (live.0, live.1) != (policy, *key));
                HoldReply::Forgotten(units)
            }
            HoldAct::Guard(ask, number) => self.guard(ask, *number, &event.reply)?,
            HoldAct::Drop(number) => {
                if let Some(units) = self.guards.remove(number) {
                    self.live.remove(&units);
                }
                HoldReply::Done
            }
            HoldAct::Check(quota, key, cost) => {
                let ask = plain(*quota, *key, *cost);
                let mut without_due = self.clone();
                if event.live.is_some() {
                    // Holds that are due make room, even if no other step has ended them.
                    without_due.end_due(event.time);
                }
                without_due.may_be_full(&ask, &event.reply)?;
                let (reply, admits) = self.decide(&ask);
                let HoldReply::Decided { mut charged, .. } = reply else { return Err("no decision".into()) };
                if admits && event.reply != HoldReply::Full {
                    self.charge(&ask, &mut charged);
                }
                HoldReply::Settled { states: charged, is_repeated: false }
            }
        };
        if event.reply != HoldReply::Full && event.reply != expected {
            return Err(format!("expected {expected:?}"));
        }
        self.agrees_with(event)
    }

    /// Whether this is a check that is rightly refused before it reads the steady clock, where there are several threads. It
    /// reads it then, and asks again only if a hold has ended meanwhile. So a refusal may come before steps that have read
    /// an earlier time. At this time, which it and all overlapping steps have reached, no hold may be due and take room.
    pub(super) fn refuses_early(&self, event: &HoldEvent, time: i64) -> bool {
        let HoldAct::Check(quota, key, cost) = event.act else { return false };
        if event.reply != HoldReply::Full || self.world.threads.len() == 1 || event.held > self.world.cap {
            return false;
        }
        let mut without_due = self.clone().with_ended(time);
        without_due.wall = event.wall.unwrap_or(self.wall);
        without_due.may_be_full(&plain(quota, key, cost), &event.reply).is_ok()
    }

    /// Live units and places after a step of one thread.
    fn agrees_with(&self, event: &HoldEvent) -> Result<(), String> {
        let Some(live) = &event.live else { return Ok(()) };
        let each = self.world.limits.iter().flat_map(|limit| (0..KEYS).map(move |key| (limit.policy, key)));
        let expected: Vec<u32> = each.map(|(policy, key)| self.live_units(policy, key)).collect();
        if *live != expected {
            return Err(format!("G1: {live:?} units are live, and should be {expected:?}"));
        }
        let (open, all) = (self.places(true), self.places(false));
        if (open..=all).contains(&event.held) {
            return Ok(());
        }
        Err(format!("G8: {} places are taken, and should be {open} to {all}", event.held))
    }

    /// Where there are several threads: the same after the end of the holds that are due then.
    pub(super) fn with_ended(mut self, steady: i64) -> Self {
        self.end_due(steady.max(self.steady));
        self
    }

    /// What holds after the end of each hold that is due then, but the last, as one step ends them: in the order of their
    /// ends, and of their ids if those are equal. It has not come to the others, even if they end at the same time.
    pub(super) fn while_ending(&self, steady: i64) -> Vec<Self> {
        let mut due: Vec<(i64, usize)> = self.holds.iter().map(|(id, hold)| (hold.end, *id)).collect();
        due.retain(|(end, _)| *end <= steady);
        due.sort_unstable();
        due.pop();
        let mut ending = self.clone();
        let each = due.into_iter().map(|(end, id)| {
            // A step whose time is at or after the other ends waits until those holds have ended as well.
            ending.steady = ending.steady.max(end - 1);
            ending.end_hold(id);
            ending.clone()
        });
        each.collect()
    }

    /// A step on holds ends those that are due. After a step back, none is left longer than its length (rule 20).
    fn end_due(&mut self, steady: i64) {
        if steady < self.steady {
            for hold in self.holds.values_mut() {
                hold.end = hold.end.min(steady + hold.length);
            }
        }
        self.steady = steady;
        let due: Vec<usize> =
            self.holds.iter().filter(|(_, hold)| hold.end <= steady).map(|(id, _)| *id).collect();
        due.into_iter().for_each(|id| self.end_hold(id));
    }

    /// Its units have expired, unless they were forgotten.
    fn end_hold(&mut self, id: usize) {
        let units = self.holds.remove(&id).map(|hold| hold.units).unwrap_or_default();
        for (policy, _, units) in units.iter().filter_map(|number| self.live.remove(number)) {
            *self.expired.entry(policy).or_default() += units;
        }
    }

    /// The time of an event. Where there are several threads, the clock never steps back, and all steps with an id read it
    /// under one lock. A guard and a check read it before they take their units: there may be other steps in between.
    fn steady_of(&self, event: &HoldEvent, steady: i64) -> Result<i64, String> {
        let reads_early = matches!(event.act, HoldAct::Guard(..) | HoldAct::Check(..));
        match self.world.threads.len() {
            1 => Ok(steady),
            _ if steady >= self.steady || reads_early => Ok(steady.max(self.steady)),
            _ => Err(format!("rule 11: the time is {steady} after {}", self.steady)),
        }
    }

    fn reserve(&mut self, ask: &HoldAsk, reply: &HoldReply) -> Result<HoldReply, String> {
        let (binding, length, steady) = (self.binding(ask), self.length(ask), self.steady);
        if let Some(hold) = self.holds.get_mut(&ask.id) {
            if hold.binding != binding {
                return Ok(HoldReply::Conflict);
            }
            if hold.settled.is_some() {
                return Ok(HoldReply::Ended);
            }
            (hold.length, hold.end) = (length, steady + length);
            return Ok(hold.first.clone().repeated());
        }
        self.may_be_full(ask, reply)?;
        let (decided, admits) = self.decide(ask);
        let HoldReply::Decided { mut in_flight, mut charged, is_repeated } = decided else {
            return Err("no decision".into());
        };
        let only_asks = !ask.limits.is_empty() && ask.units == 0;
        if !only_asks && *reply != HoldReply::Full {
            for (limit, state) in ask.limits.iter().zip(&mut in_flight) {
                state.expired = self.expired.remove(&self.world.limits[*limit].policy).unwrap_or(0);
            }
        }
        if admits && !only_asks && *reply != HoldReply::Full {
            let units = self.take(ask, &mut in_flight);
            self.charge(ask, &mut charged);
            let first = HoldReply::Decided { in_flight, charged, is_repeated };
            let hold = KnownHold {
                binding,
                end: self.steady + length,
                length,
                units,
                first: first.clone(),
                settled: None,
                places: places(ask),
            };
            self.holds.insert(ask.id, hold);
            return Ok(first);
        }
        Ok(HoldReply::Decided { in_flight, charged, is_repeated })
    }

    /// The reading that decides has not reached the end (rule 24), unless the id is known. Where there are several threads,
    /// the last reading of a refusal for lack of room is a later one.
    fn reserve_before(&mut self, ask: &HoldAsk, end: i64, event: &HoldEvent) -> Result<HoldReply, String> {
        let is_known = self.holds.contains_key(&ask.id);
        let is_refused = event.reply == HoldReply::Full && self.world.threads.len() > 1;
        match event.wall {
            Some(now) if now >= end && !is_known && !is_refused => {
                if event.reply == HoldReply::Full {
                    return Err(format!("rule 24: it ended at {end}, whether or not there is room"));
                }
                Ok(HoldReply::TooLate(now))
            }
            None if !is_known => Err("rule 24: no reading was compared with the end".into()),
            _ => self.reserve(ask, &event.reply),
        }
    }

    fn guard(&mut self, ask: &HoldAsk, number: u64, reply: &HoldReply) -> Result<HoldReply, String> {
        self.may_be_full(ask, reply)?;
        let (decided, admits) = self.decide(ask);
        let HoldReply::Decided { mut in_flight, mut charged, is_repeated } = decided else {
            return Err("no decision".into());
        };
        if self.is_read_apart(ask, reply, &in_flight, &charged) {
            return Ok(reply.clone());
        }
        if admits && ask.units > 0 && *reply != HoldReply::Full {
            let units = self.take(ask, &mut in_flight);
            self.charge(ask, &mut charged);
            self.guards.insert(number, units[0]);
        }
        Ok(HoldReply::Decided { in_flight, charged, is_repeated })
    }

    /// Whether this denies a guard of a key with live units by several quotas, which were read one after another. One that
    /// denies did so when it was read, and what is said of the others may be of another time. Nothing is taken then.
    fn is_read_apart(
        &self,
        ask: &HoldAsk,
        reply: &HoldReply,
        in_flight: &[UnitsReply],
        charged: &[ChargeReply],
    ) -> bool {
        let HoldReply::Decided { in_flight: told, charged: read, is_repeated: false } = reply else {
            return false;
        };
        // Anything else is decided under the locks of all.
        let is_without_locks =
            |units: &UnitsReply| units.live > 0 && !units.is_exceeded && !units.can_never_pass;
        let each = || ask.quotas.iter().zip(read).zip(charged);
        self.world.threads.len() > 1
            && ask.units > 0
            && ask.quotas.len() > 1
            && read.len() == charged.len()
            && told == in_flight
            && in_flight.iter().all(is_without_locks)
            && each().any(|((_, read), now)| read == now && now.is_denied)
            && each().all(|((quota, read), now)| {
                let is_denied = read.used + u64::from(ask.cost.max(1)) > self.world.quotas[*quota].limit;
                *read == ChargeReply { used: read.used, is_denied, ..*now }
            })
    }

    fn renew(&mut self, ask: &HoldAsk) -> HoldReply {
        let (binding, length, steady) = (self.binding(ask), self.length(ask), self.steady);
        let Some(hold) = self.holds.get_mut(&ask.id) else { return HoldReply::Expired };
        if hold.binding != binding {
            return HoldReply::Conflict;
        }
        if hold.settled.is_some() {
            return HoldReply::Ended;
        }
        (hold.length, hold.end) = (length, steady + length);
        let are_live = hold.units.iter().all(|units| self.live.contains_key(units));
        if are_live { HoldReply::Renewed(length) } else { HoldReply::Lost }
    }

    fn settle(
        &mut self,
        ask: &HoldAsk,
        settlement: Settlement,
        starts: &[i64],
        reply: &HoldReply,
    ) -> Result<HoldReply, String> {
        let Some(hold) = self.holds.get(&ask.id).cloned() else { return Ok(HoldReply::Expired) };
        if hold.binding != self.binding(ask) {
            return Ok(HoldReply::Conflict);
        }
        if let Some(made) = &hold.settled {
            let is_same = *made == adjusted(settlement, starts);
            return Ok(if is_same { hold.first.repeated() } else { HoldReply::Conflict });
        }
        let charges = match settlement {
            Settlement::Charge(units) | Settlement::ChargeUpTo(units) => units > 0,
            Settlement::Keep | Settlement::GiveBack(_) => false,
        };
        if *reply == HoldReply::Full {
            let needed = if charges { self.new_counters(ask) } else { 0 };
            return if needed > 0 && self.places(true) + needed > self.world.cap {
                Ok(HoldReply::Full)
            } else {
                Err("G8: refused to settle, and there is room".into())
            };
        }
        let mut states = Vec::new();
        for (quota, start) in ask.quotas.iter().zip(starts) {
            let (used, open, limit) =
                (self.used(*quota, ask.key), self.start(*quota), self.world.quotas[*quota].limit);
            let (units, after) = match settlement {
                Settlement::Keep => continue,
                Settlement::GiveBack(units) if *start == open => {
                    let given = used.min(units.into());
                    (given, used - given)
                }
                Settlement::GiveBack(_) => (0, used),
                Settlement::Charge(units) => (units.into(), used + u64::from(units)),
                Settlement::ChargeUpTo(units) => {
                    let charged = limit.saturating_sub(used).min(units.into());
                    (charged, used + charged)
                }
            };
            self.write(*quota, ask.key, used, after);
            let units = u32::try_from(units).unwrap();
            states.push(ChargeReply { used: after, units, is_denied: false, start: open });
        }
        self.live.retain(|number, _| !hold.units.contains(number));
        let end = self.steady + hold.length.min(REMEMBERED);
        let first = HoldReply::Settled { states, is_repeated: false };
        let settled = Some(adjusted(settlement, starts));
        let hold = KnownHold { units: Vec::new(), end, first: first.clone(), settled, ..hold };
        self.holds.insert(ask.id, hold);
        Ok(first)
    }

    /// The decision on a hold before anything is taken, and whether it admits.
    fn decide(&self, ask: &HoldAsk) -> (HoldReply, bool) {
        let in_flight = ask.limits.iter().map(|limit| {
            let terms = self.world.limits[*limit];
            let (live, asked) = (self.live_units(terms.policy, ask.key), ask.units.max(1));
            let can_never_pass = asked > terms.limit.min(MOST_UNITS);
            let is_exceeded = !can_never_pass && live + asked > terms.limit;
            UnitsReply { live, units: 0, expired: 0, is_exceeded, can_never_pass }
        });
        let charged = ask.quotas.iter().map(|quota| {
            let used = self.used(*quota, ask.key);
            let is_denied = used + u64::from(ask.cost.max(1)) > self.world.quotas[*quota].limit;
            ChargeReply { used, units: 0, is_denied, start: self.start(*quota) }
        });
        let (in_flight, charged): (Vec<_>, Vec<_>) = (in_flight.collect(), charged.collect());
        let admits = in_flight.iter().all(|units| !units.is_exceeded && !units.can_never_pass)
            && charged.iter().all(|charge| !charge.is_denied);
        (HoldReply::Decided { in_flight, charged, is_repeated: false }, admits)
    }

    fn take(&mut self, ask: &HoldAsk, in_flight: &mut [UnitsReply]) -> Vec<u64> {
        let mut numbers = Vec::new();
        for (limit, state) in ask.limits.iter().zip(in_flight) {
            self.next += 1;
            self.live.insert(self.next, (self.world.limits[*limit].policy, ask.key, ask.units));
            numbers.push(self.next);
            (state.live, state.units) = (state.live + ask.units, ask.units);
        }
        numbers
    }

    fn charge(&mut self, ask: &HoldAsk, charged: &mut [ChargeReply]) {
        for (quota, state) in ask.quotas.iter().zip(charged) {
            let after = state.used + u64::from(ask.cost);
            self.write(*quota, ask.key, state.used, after);
            (state.used, state.units) = (after, ask.cost);
        }
    }

    fn write(&mut self, quota: usize, key: usize, before: u64, after: u64) {
        if before != after {
            let (terms, start) = (self.world.quotas[quota], self.start(quota));
            self.windows.insert((terms.policy, terms.window, key), (start, after));
        }
    }

    /// A refusal for lack of room is right if there is none, and if the hold is not denied.
    fn may_be_full(&self, ask: &HoldAsk, reply: &HoldReply) -> Result<(), String> {
        if *reply != HoldReply::Full {
            return Ok(());
        }
        let new = ask.limits.iter().map(|limit| self.world.limits[*limit].policy);
        let new = new.filter(|policy| self.live_units(*policy, ask.key) == 0).count();
        // Checks and guards have no id.
        let id = if ask.length == 0 { 0 } else { places(ask) };
        let needed = 5 * new + self.new_counters(ask) + id;
        if !self.decide(ask).1 {
            return Err("G8: refused, but it should be denied, which takes no room".into());
        }
        if self.places(true) + needed <= self.world.cap {
            return Err(format!(
                "G8: refused, but only {} places of {} are taken, and {needed} are asked for",
                self.places(true),
                self.world.cap
            ));
        }
        Ok(())
    }

    /// Counters that a charge would open.
    fn new_counters(&self, ask: &HoldAsk) -> usize {
        let is_open = |quota: &&usize| {
            let terms = self.world.quotas[**quota];
            let window = self.windows.get(&(terms.policy, terms.window, ask.key));
            window.is_some_and(|(start, _)| *start == self.start(**quota))
        };
        ask.quotas.iter().filter(|quota| !is_open(quota)).count()
    }

    /// The places that are taken, with those of closed windows or without.
    fn places(&self, only_open: bool) -> usize {
        let mut keys: Vec<_> = self.live.values().map(|(policy, key, _)| (*policy, *key)).collect();
        keys.sort_unstable();
        keys.dedup();
        let is_open = |((_, window, _), (start, _)): &(&(usize, i64, usize), &(i64, u64))| {
            !only_open || self.wall < *start + *window
        };
        let ids: usize = self.holds.values().map(|hold| hold.places).sum();
        5 * keys.len() + ids + self.windows.iter().filter(is_open).count()
    }

    fn live_units(&self, policy: usize, key: usize) -> u32 {
        let live = self.live.values().filter(|live| (live.0, live.1) == (policy, key));
        live.map(|(_, _, units)| units).sum()
    }

    fn start(&self, quota: usize) -> i64 {
        let window = self.world.quotas[quota].window;
        self.wall - self.wall.rem_euclid(window)
    }

    fn used(&self, quota: usize, key: usize) -> u64 {
        let terms = self.world.quotas[quota];
        let window = self.windows.get(&(terms.policy, terms.window, key));
        window.filter(|(start, _)| *start == self.start(quota)).map_or(0, |(_, used)| *used)
    }

    /// The shortest of all lengths.
    fn length(&self, ask: &HoldAsk) -> i64 {
        let own = ask.limits.iter().filter_map(|limit| self.world.limits[*limit].length);
        own.fold(ask.length, i64::min)
    }

    fn binding(&self, ask: &HoldAsk) -> Binding {
        let in_flight = ask.limits.iter().map(|limit| (self.world.limits[*limit].policy, ask.units));
        let charges = ask.quotas.iter().map(|quota| {
            let terms = self.world.quotas[*quota];
            (terms.policy, terms.window, ask.cost)
        });
        (in_flight.collect(), charges.collect(), ask.key)
    }
}

fn adjusted(settlement: Settlement, starts: &[i64]) -> Vec<QuotaAdjustment> {
    let start = |start: &i64| matches!(settlement, Settlement::GiveBack(_)).then_some(*start);
    starts.iter().map(|it| (settlement, start(it))).collect()
}

/// A check of one quota, as a hold without an id.
fn plain(quota: usize, key: usize, cost: u32) -> HoldAsk {
    HoldAsk { id: usize::MAX, limits: Vec::new(), quotas: vec![quota], key, units: 0, cost, length: 0 }
}

/// Twelve places, and five for each part beyond the first (G8).
fn places(ask: &HoldAsk) -> usize {
    12 + 5 * (ask.limits.len() + ask.quotas.len() - 1)
}
