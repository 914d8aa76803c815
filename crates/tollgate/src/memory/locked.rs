//! Steps under the locks of their counters' shards, for everything that one compare-and-swap cannot do.

use std::mem;

use smallvec::SmallVec;

use super::decide::{Outcome, at_most, decide, is_admitted};
use super::fingerprint::Fingerprint;
use super::logs::{LogGuards, log_entries, places, places_with_another, remove_log};
use super::slot::Slot;
use super::stored::{Course, PlacedCounter, SlotStanding, StoredCounter};
use super::table::{Guards, Table};
use super::time::{StepTime, Time};
use crate::hold::HoldAdjustment;
use crate::kind::{KindStanding, Mark, Standing};
use crate::store::MemoryError;
use crate::{Charge, Clock, QuotaKind, QuotaState, QuotaStates, Timestamp};

/// The locked shards of some counters, with the slots of those counters frozen. No other thread sees or changes them
/// until this is dropped.
pub(super) struct LockedStep<'a> {
    table: &'a Table,
    charges: &'a [Charge<'a>],
    /// One for each different counter.
    held: SmallVec<[HeldCounter<'a>; 2]>,
    /// For each charge, its counter's index in `held`.
    indices: SmallVec<[usize; 2]>,
    /// The outcome of each charge.
    outcomes: SmallVec<[Outcome; 2]>,
    guards: Guards<'a>,
    /// The maps of those that are logs.
    logs: LogGuards<'a>,
    /// The reading by which room is made.
    coarse: Timestamp,
    /// The time of a step that is no longer before its end. It has no outcomes, and changes nothing.
    ended: Option<PassedEnd>,
}

/// A step was to be taken before an end that its clock reading has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PassedEnd {
    pub(super) now: Timestamp,
}

struct HeldCounter<'a> {
    fingerprint: Fingerprint,
    shard: usize,
    /// The frozen slot and the word to give back, if the counter has a slot.
    slot: Option<(Slot<'a>, u64)>,
    stored: StoredCounter,
    /// Whether a slot can be had.
    has_room: bool,
    /// The places of the cap that are taken for it as a log; `None` if it has a slot.
    places: Option<usize>,
}

/// Whether a step may need slots for new counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Room,
    Nothing,
}

/// The reason why there is no room for a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// Its shard is full.
    InShard,
    /// The store is at its cap, and no counter in the shards of this step has closed.
    UnderCap,
}

impl From<PassedEnd> for MemoryError {
    fn from(PassedEnd { now }: PassedEnd) -> Self {
        Self::Ended { now }
    }
}

impl<'a> LockedStep<'a> {
    /// Locks and freezes the counters of these charges, and decides. If the step has an end, it is taken by
    /// [`before_end`](Self::before_end).
    pub(super) fn new(
        table: &'a Table,
        time: &Time<impl Clock>,
        charges: &'a [Charge<'a>],
        fingerprints: &[Fingerprint],
        needs: Needs,
        step_time: StepTime,
    ) -> Self {
        let mut held = SmallVec::<[HeldCounter<'a>; 2]>::new();
        let indices = fingerprints.iter().zip(charges).map(|(fingerprint, charge)| {
            let is_log = charge.counter().quota().quota().kind() == QuotaKind::Log;
            held.iter().position(|known| known.fingerprint == *fingerprint).unwrap_or_else(|| {
                held.push(HeldCounter {
                    fingerprint: *fingerprint,
                    shard: table.shard_index(*fingerprint),
                    slot: None,
                    stored: StoredCounter::Absent { dropped_until: Timestamp::from_unix_millis(i64::MIN) },
                    has_room: true,
                    places: is_log.then_some(0),
                });
                held.len() - 1
            })
        });
        let indices = indices.collect();
        // From here on, a panic, such as in a user's clock, gives everything back.
        let guards = table.lock(fingerprints);
        let logs = held.iter().filter(|held| held.places.is_some()).map(|held| held.fingerprint);
        let logs = table.logs.lock_all(logs);
        let coarse = time.coarse();
        let outcomes = SmallVec::new();
        let mut step = Self { table, charges, held, indices, outcomes, guards, logs, coarse, ended: None };
        if needs == Needs::Room {
            step.make_room();
        }
        step.freeze();
        // Read once no other step can change these counters, so that the readings of all steps on a counter
        // are in the order of the steps.
        step.outcomes = match step_time {
            StepTime::Cheapest => time.decide_all(charges, |now| step.decide(now)),
            StepTime::Precise => step.decide(time.precise()),
            StepTime::Before(end) => match time.precise() {
                now if now < end => step.decide(now),
                now => {
                    step.ended = Some(PassedEnd { now });
                    SmallVec::new()
                }
            },
        };
        // If the clock has stepped back between the two readings, the first one must not close what is written now.
        step.coarse = step.outcomes.iter().map(|outcome| outcome.now).fold(step.coarse, Ord::min);
        step
    }

    /// Takes the step, unless its end has come.
    pub(super) fn before_end<A>(
        &mut self,
        take: impl FnOnce(&mut Self) -> Result<A, NoRoom>,
    ) -> Result<Result<A, PassedEnd>, NoRoom> {
        match self.unless_ended(take) {
            Ok(taken) => taken.map(Ok),
            Err(ended) => Ok(Err(ended)),
        }
    }

    /// As [`before_end`](Self::before_end), for a step that needs no room.
    pub(super) fn unless_ended<A>(&mut self, take: impl FnOnce(&mut Self) -> A) -> Result<A, PassedEnd> {
        match self.ended {
            None => Ok(take(self)),
            Some(ended) => Err(ended),
        }
    }

    /// Gives everything back unchanged, for a step without room that may begin again with another reading. Returns
    /// whether a counter would have had to move.
    pub(super) fn give_up(mut self) -> bool {
        self.outcomes.drain(..).any(|outcome| outcome.placement.course == Course::MovedBack)
    }

    /// Finds or makes room for counters that have no slot. This comes before freezing, because counters may move.
    fn make_room(&mut self) {
        for (shard, guard) in self.guards.iter() {
            let is_new = |held: &&mut HeldCounter<'_>| {
                held.shard == *shard && held.places.is_none() && guard.find(held.fingerprint).is_none()
            };
            // Closed counters of this step may be dropped to make room, and then need room themselves.
            let mut asked = 0;
            loop {
                let mut new: SmallVec<[&mut HeldCounter<'_>; 2]> =
                    self.held.iter_mut().filter(is_new).collect();
                if new.len() == asked {
                    break;
                }
                asked = new.len();
                let (has_room, dropped) = guard.make_room(asked, self.coarse);
                self.table.tell_of_dropped(*shard, guard, &dropped);
                new.iter_mut().for_each(|held| held.has_room = has_room);
            }
        }
    }

    fn freeze(&mut self) {
        for held in &mut self.held {
            if let Some(taken) = &mut held.places {
                let log = self.logs.of(held.fingerprint).and_then(|logs| logs.get(&held.fingerprint));
                let entries = log.map(|log| log.entries.clone()).unwrap_or_default();
                *taken = places(entries.len());
                held.stored = StoredCounter::Log(Box::new(entries));
                continue;
            }
            let guard = self.guards.of(held.shard);
            held.slot = guard.find(held.fingerprint).map(|seen| (seen.slot, seen.slot.freeze()));
            let state = held.slot.and_then(|(slot, word)| slot.state(word));
            let absent = || StoredCounter::Absent { dropped_until: guard.dropped_until() };
            held.stored = state.map_or_else(absent, StoredCounter::Held);
        }
    }

    fn decide(&self, now: Timestamp) -> SmallVec<[Outcome; 2]> {
        let each = self.charges.iter().zip(&self.indices);
        each.map(|(charge, held)| decide(charge, self.cost_of(*held), &self.held[*held].stored, now))
            .collect()
    }

    /// Units that all charges on this counter take.
    fn cost_of(&self, held: usize) -> u64 {
        let each = self.charges.iter().zip(&self.indices);
        each.filter(|(_, index)| **index == held).map(|(charge, _)| u64::from(charge.cost())).sum()
    }

    /// Charges all or nothing. If it is admitted, it takes so many further places of the cap.
    pub(super) fn charge(&mut self, further: usize) -> Result<QuotaStates, NoRoom> {
        let admitted = is_admitted(&self.outcomes);
        self.charge_as(admitted, if admitted { further } else { 0 })
    }

    fn charge_as(&mut self, admitted: bool, further: usize) -> Result<QuotaStates, NoRoom> {
        let units = self.units(admitted);
        // An admission needs room for all of its counters, a denial only for those that it charges.
        let is_needed = |held: usize| admitted || units[held] > 0;
        self.take_room(
            is_needed,
            |held| units[held] > 0,
            |_, it| places_with_another(it),
            (further, further),
        )?;
        Ok(self.take(&units))
    }

    /// Denies without room: only counters that exist are charged, and logs that need no other place for it.
    pub(super) fn deny(&mut self) -> Result<QuotaStates, NoRoom> {
        if is_admitted(&self.outcomes) { Err(NoRoom::InShard) } else { Ok(self.deny_without_room()) }
    }

    /// Denies, whatever the counters say, because something else had no room.
    pub(super) fn deny_anyway(&mut self) -> Result<QuotaStates, NoRoom> {
        self.charge_as(false, 0)
    }

    /// Denies, and charges only counters for which no place is needed.
    pub(super) fn deny_without_room(&mut self) -> QuotaStates {
        let mut units = self.units(false);
        for (index, units) in units.iter_mut().enumerate() {
            let held = &self.held[index];
            let has_place = match held.places {
                Some(taken) => places_with_another(self.standing_of(index)) <= taken,
                None => held.slot.is_some(),
            };
            if !has_place {
                *units = 0;
            }
        }
        self.take(&units)
    }

    /// The units that the step takes from each counter.
    fn units(&self, admitted: bool) -> SmallVec<[u64; 2]> {
        let mut units: SmallVec<[u64; 2]> = self.held.iter().map(|_| 0).collect();
        // All charges on a counter were decided together, so they count as one denial.
        for ((charge, outcome), held) in self.charges.iter().zip(&self.outcomes).zip(&self.indices) {
            units[*held] = units[*held].max(outcome.units(charge, admitted));
        }
        units
    }

    /// Takes these units from each counter, for which there is room.
    fn take(&mut self, units: &[u64]) -> QuotaStates {
        let each = self.charges.iter().zip(&self.outcomes).zip(&self.indices);
        // A nearly saturated counter takes less than its charges cost; they share it in their order.
        let mut left: SmallVec<[u64; 2]> = units
            .iter()
            .enumerate()
            .map(|(held, units)| {
                let before = self.standing_of(held);
                before.clone().add(*units).used().saturating_sub(before.used())
            })
            .collect();
        let answer = |((charge, outcome), held): ((&Charge<'_>, &Outcome), &usize)| {
            let taken = if units[*held] > 0 { at_most(charge.cost(), left[*held]) } else { 0 };
            left[*held] -= u64::from(taken);
            outcome.answer(charge, units[*held]).with_units(taken)
        };
        let answers = each.map(answer).collect();
        for (held, units) in units.iter().enumerate().filter(|(_, units)| **units > 0) {
            let index = self.first_of(held);
            let after = self.outcomes[index].standing().add(*units);
            self.write(index, &after);
        }
        answers
    }

    /// Answers as a charge that takes so many further places.
    pub(super) fn peek(&mut self, further: usize) -> Result<QuotaStates, NoRoom> {
        if is_admitted(&self.outcomes) {
            self.take_room(|_| true, |_| false, |_, it| places_with_another(it), (further, 0))?;
        }
        Ok(self.look())
    }

    /// Answers like a peek, but needs no room.
    pub(super) fn look(&self) -> QuotaStates {
        let each = self.charges.iter().zip(&self.outcomes);
        each.map(|(charge, outcome)| outcome.answer(charge, 0)).collect()
    }

    /// Charges the only counter without asking.
    pub(super) fn record(&mut self) -> Result<QuotaState, NoRoom> {
        let before = self.standing();
        let used = before.used();
        let state = self.change(before.add(self.cost_of(0)))?;
        Ok(state.with_units(at_most(self.charges[0].cost(), state.used() - used)))
    }

    /// Adjusts each counter, all or nothing, and returns the states with the units that were given back or charged.
    pub(super) fn adjust(&mut self, adjustments: &[HoldAdjustment]) -> Result<QuotaStates, NoRoom> {
        let mut after: SmallVec<[Standing; 2]> =
            (0..self.held.len()).map(|held| self.standing_of(held).clone()).collect();
        let each = self.charges.iter().zip(&self.outcomes).zip(&self.indices).zip(adjustments);
        let states = each.map(|(((charge, outcome), held), adjustment)| {
            let quota = charge.counter().quota().quota();
            let before = after[*held].clone();
            let used = before.used();
            let (units, standing) = match *adjustment {
                HoldAdjustment::Keep => (0, before),
                HoldAdjustment::GiveBack { units, mark } => before.give_back(units.into(), mark),
                HoldAdjustment::Charge(_) | HoldAdjustment::ChargeUpTo(_) => {
                    let room = quota.capacity().saturating_sub(used);
                    let most = if matches!(adjustment, HoldAdjustment::Charge(_)) { u64::MAX } else { room };
                    let standing = before.add(u64::from(charge.cost()).min(most));
                    (standing.used().saturating_sub(used), standing)
                }
            };
            let state = QuotaState::of(quota, &standing, outcome.now, None, 0);
            after[*held] = standing;
            state.with_units(at_most(charge.cost(), units))
        });
        let states = states.collect();
        let is_changed: SmallVec<[bool; 2]> =
            after.iter().enumerate().map(|(held, after)| after != self.standing_of(held)).collect();
        let places_after = |held: usize, _: &Standing| places(log_entries(&after[held]).len());
        self.take_room(|held| is_changed[held], |held| is_changed[held], places_after, (0, 0))?;
        for (held, after) in after.iter().enumerate().filter(|(held, _)| is_changed[*held]) {
            self.write(self.first_of(held), after);
        }
        Ok(states)
    }

    /// Charges the first counter without asking, unless the second one, its block, has begun. If the limit is exceeded
    /// then, the block begins: all units move there, and the counter is forgotten.
    pub(super) fn charge_or_block(&mut self) -> Result<QuotaStates, NoRoom> {
        let (charge, cost) = (self.charges[0], u64::from(self.charges[0].cost()));
        let before = self.outcomes[0].standing().clone();
        let is_blocked = self.outcomes[1].standing().used() > 0;
        if is_blocked {
            self.shorten_block(cost);
        } else if cost == 0 {
            let counter = self.indices[0];
            self.take_room(|held| held == counter, |_| false, |_, _| 0, (0, 0))?;
        }
        if cost == 0 || is_blocked {
            return Ok([0, 1]
                .map(|index| self.state_at(index, self.outcomes[index].standing()))
                .into_iter()
                .collect());
        }
        let after = before.clone().add(cost);
        let taken = at_most(charge.cost(), after.used() - before.used());
        let (counted, block) = if after.used() <= charge.limit() {
            let counter = self.indices[0];
            self.take_room(|held| held == counter, |held| held == counter, |_, _| 0, (0, 0))?;
            self.write(0, &after);
            (after, self.outcomes[1].standing().clone())
        } else {
            let block = self.begun_block(after.used());
            self.take_place(0, 1)?;
            let counted = self.forget(0);
            self.write(1, &block);
            (counted, block)
        };
        Ok([self.state_at(0, &counted).with_units(taken), self.state_at(1, &block)].into_iter().collect())
    }

    /// A block that has begun ends no later than its length from now. A charge of nothing only says so. A window that
    /// begins later than now was read by the precise clock.
    fn shorten_block(&mut self, cost: u64) {
        let (counter, outcome) = (self.charges[1].counter(), &mut self.outcomes[1]);
        let standing = outcome.standing();
        if standing.window().is_some_and(|window| outcome.now < window.start()) {
            let begins_now = counter.quota().quota().unused_at(counter.key(), outcome.now);
            outcome.placement.standing = begins_now.set(standing.used());
            outcome.placement.course = Course::MovedBack;
        }
        if cost == 0 {
            outcome.placement.course = Course::Stayed;
        }
    }

    /// A block of so many units that begins now, and not in a window that is open and empty.
    fn begun_block(&self, used: u64) -> Standing {
        let (counter, outcome) = (self.charges[1].counter(), &self.outcomes[1]);
        let unused = match outcome.placement.course {
            Course::Stayed => counter.quota().quota().unused_at(counter.key(), outcome.now),
            Course::Opened | Course::MovedBack => outcome.standing().clone(),
        };
        unused.set(used)
    }

    /// Sets the usage of the only counter, unless it has that value.
    pub(super) fn set(&mut self, used: u64) -> Result<QuotaState, NoRoom> {
        self.change(self.standing().set(used))
    }

    /// Writes the only counter, if it changes.
    fn change(&mut self, after: Standing) -> Result<QuotaState, NoRoom> {
        if after != *self.outcomes[0].standing() {
            // Fewer units may leave fewer entries of a log.
            self.take_room(|_| true, |_| true, |_, _| places(log_entries(&after).len()), (0, 0))?;
            self.write(0, &after);
        }
        Ok(self.state(&after))
    }

    /// Forgets the only counter.
    pub(super) fn reset(&mut self) -> QuotaState {
        let held = &mut self.held[0];
        if let Some(taken) = held.places.replace(0) {
            self.outcomes[0].placement.course = Course::Stayed;
            if let Some(logs) = self.logs.of(held.fingerprint) {
                remove_log(logs, held.fingerprint);
            }
            self.table.forget_log(held.fingerprint, taken);
            held.stored = StoredCounter::Log(Box::default());
            let counter = self.charges[0].counter();
            return self.state(&counter.quota().quota().unused_at(counter.key(), self.outcomes[0].now));
        }
        let had_slot = held.slot.is_some();
        let unused = self.forget(0);
        self.table.give_back_counters(usize::from(had_slot));
        self.state(&unused)
    }

    /// Forgets a counter that has no log, whose place of the cap stays taken. Returns what it comes to.
    fn forget(&mut self, index: usize) -> Standing {
        let held = &mut self.held[self.indices[index]];
        let guard = self.guards.of(held.shard);
        if let Some((slot, _)) = held.slot.take() {
            // Nothing is left to move.
            self.outcomes[index].placement.course = Course::Stayed;
            guard.free(slot);
            if let Some(names) = &self.table.names {
                names.remove(held.shard, held.fingerprint);
            }
        }
        let absent = StoredCounter::Absent { dropped_until: guard.dropped_until() };
        PlacedCounter::at(&self.charges[index].counter(), &absent, self.outcomes[index].now).standing
    }

    /// Gives back the units of the only charge, as far as those of the marked charge are still used.
    pub(super) fn refund(&mut self, mark: Mark) -> QuotaState {
        let (given, after) = self.standing().give_back(self.charges[0].cost().into(), mark);
        if given > 0 {
            self.write(0, &after);
        }
        self.state(&after).with_units(at_most(self.charges[0].cost(), given))
    }

    /// The only counter.
    fn standing(&self) -> Standing {
        self.outcomes[0].standing().clone()
    }

    fn state(&self, standing: &Standing) -> QuotaState {
        self.state_at(0, standing)
    }

    /// The state of a charge's counter that stands like this.
    fn state_at(&self, index: usize, standing: &Standing) -> QuotaState {
        QuotaState::of(
            self.charges[index].counter().quota().quota(),
            standing,
            self.outcomes[index].now,
            None,
            0,
        )
    }

    /// A counter of the step, before anything is taken.
    fn standing_of(&self, held: usize) -> &Standing {
        self.outcomes[self.first_of(held)].standing()
    }

    /// The first charge on this counter.
    fn first_of(&self, held: usize) -> usize {
        self.indices.iter().position(|index| *index == held).unwrap_or_default()
    }

    /// Takes room for the charged counters, by their indices, if there is room for all that are needed. If there is not,
    /// closed counters of these shards make room. A log takes as many places of the cap as it has after the step, and
    /// others may have those that it does not need any more. At first, so many further places are needed, and taken.
    fn take_room(
        &mut self,
        is_needed: impl Fn(usize) -> bool,
        is_charged: impl Fn(usize) -> bool,
        places_after: impl Fn(usize, &Standing) -> usize,
        (mut grown, mut charged): (usize, usize),
    ) -> Result<(), NoRoom> {
        let charges_any = (0..self.held.len()).any(&is_charged);
        let mut freed = 0;
        let mut logs = SmallVec::<[(usize, usize); 1]>::new();
        for (index, held) in self.held.iter().enumerate().filter(|(index, _)| is_needed(*index)) {
            let (before, after) = match held.places {
                None if held.slot.is_some() => continue,
                None if !held.has_room => return Err(NoRoom::InShard),
                None => (0, 1),
                Some(before) => (before, places_after(index, self.standing_of(index))),
            };
            grown += after.saturating_sub(before);
            if is_charged(index) {
                charged += after.saturating_sub(before);
                if held.places.is_some() {
                    logs.push((index, after));
                }
            }
            // A peek gets the answer of a charge.
            if is_charged(index) || !charges_any {
                freed += before.saturating_sub(after);
            }
        }
        let (asked, taken) = (grown.saturating_sub(freed), charged.saturating_sub(freed));
        if !self.table.take_counters(asked, taken) {
            for (shard, guard) in self.guards.iter() {
                self.table.tell_of_dropped(*shard, guard, &guard.drop_closed(self.coarse));
            }
            // Those of this step are written below, or stay.
            let own: SmallVec<[Fingerprint; 2]> = self.held.iter().map(|held| held.fingerprint).collect();
            let closed = self.logs.drop_closed(self.coarse, |fingerprint| !own.contains(fingerprint));
            self.table.forget_logs(closed);
            if !self.table.take_counters(asked, taken) {
                return Err(NoRoom::UnderCap);
            }
        }
        if charges_any {
            self.table.give_back_counters(freed.saturating_sub(charged));
        }
        for (index, after) in logs {
            self.held[index].places = Some(after);
        }
        Ok(())
    }

    /// Takes room for one counter, which gets the place of the cap that another one gives up. Neither is a log.
    fn take_place(&mut self, from: usize, to: usize) -> Result<(), NoRoom> {
        let (from, to) = (self.indices[from], self.indices[to]);
        let (frees, has_slot) = (self.held[from].slot.is_some(), self.held[to].slot.is_some());
        match (frees, has_slot) {
            (false, _) => self.take_room(|held| held == to, |held| held == to, |_, _| 0, (0, 0)),
            (true, false) if !self.held[to].has_room => Err(NoRoom::InShard),
            (true, false) => Ok(()),
            (true, true) => {
                self.table.give_back_counters(1);
                Ok(())
            }
        }
    }

    /// Writes a charge's counter into its slot or a new one.
    fn write(&mut self, index: usize, standing: &Standing) {
        let state = standing.state();
        let counter = self.charges[index].counter();
        // A counter that is written here need not be moved at the end.
        let course = mem::replace(&mut self.outcomes[index].placement.course, Course::Stayed);
        let held = &mut self.held[self.indices[index]];
        if let Some(taken) = &mut held.places {
            self.table.write_log(&mut self.logs, held.fingerprint, &counter, standing, *taken);
            *taken = places(log_entries(standing).len());
            return;
        }
        let guard = self.guards.of(held.shard);
        if let Some((slot, word)) = held.slot.take() {
            if let (Some(names), Course::Opened, StoredCounter::Held(closed)) =
                (&self.table.names, course, &held.stored)
            {
                names.tell_of_rollover(&counter, *closed);
            }
            slot.thaw(guard.next_word(slot, word, held.fingerprint, state));
        } else {
            if course == Course::MovedBack {
                guard.forget_dropped();
            }
            let dropped = guard.insert(held.fingerprint, state, self.coarse);
            self.table.tell_of_dropped(held.shard, guard, &dropped);
            if let Some(names) = &self.table.names {
                names.remember(held.shard, held.fingerprint, &counter);
            }
        }
    }
}

/// Gives back what was not written; moves it if it has to move.
impl Drop for LockedStep<'_> {
    fn drop(&mut self) {
        for (index, HeldCounter { fingerprint, shard, slot, places, .. }) in self.held.iter().enumerate() {
            let guard = self.guards.of(*shard);
            let first = self.first_of(index);
            let outcome = self.outcomes.get(first);
            let moved = outcome.filter(|outcome| outcome.placement.course == Course::MovedBack);
            if let Some(taken) = *places {
                // It has no more entries than before, so it needs no room.
                if let Some(outcome) = moved {
                    let counter = self.charges[first].counter();
                    let standing = outcome.standing();
                    self.table.write_log(&mut self.logs, *fingerprint, &counter, standing, taken);
                }
                continue;
            }
            let Some((slot, word)) = *slot else {
                if moved.is_some() {
                    guard.forget_dropped();
                }
                continue;
            };
            if let Some(outcome) = moved {
                slot.thaw(guard.next_word(slot, word, *fingerprint, outcome.standing().state()));
                continue;
            }
            // The search for closed counters in this step did not see frozen ones.
            if let Some(state) = slot.state(word) {
                guard.note_end(state.end);
            }
            slot.thaw(word);
        }
    }
}
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{Charge, Full, Key, ManualClock, MemoryStore, PolicyQuota, Quota};

    /// A log wanted room for another entry where the charge went into its last one.
    #[test]
    fn a_log_needs_no_room_for_another_unit_of_its_last_entry() -> Result<(), Full> {
        let (quota, key) = (PolicyQuota::new("", "9/1m~log".parse().unwrap()), Key::from("alice"));
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(6).build();
        let charge = || store.charge(&[Charge::new(&quota, &key, 1)]).finish();
        // Six places: five for the log, and one for three entries.
        for _ in 0..3 {
            assert!(charge()?.is_admitted());
            assert!(charge()?.is_admitted());
            clock.advance(Duration::from_millis(1));
        }
        assert_eq!(charge(), Err(Full));
        let twice = [Charge::new(&quota, &key, 1), Charge::new(&quota, &key, 1)];
        assert_eq!(store.charge(&twice).finish(), Err(Full));
        clock.advance(Duration::from_secs(60));
        assert!(charge()?.is_admitted());
        store.reset(&Charge::new(&quota, &key, 1).counter());
        assert_eq!(store.counters(), 0);
        Ok(())
    }

    /// A log that was lowered in a full store was refused, because another entry would have needed a place.
    #[test]
    fn a_log_is_lowered_in_a_full_store() -> Result<(), Full> {
        let (quota, key) = (PolicyQuota::new("", "9/1m~log".parse().unwrap()), Key::from("alice"));
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(6).build();
        let charge = Charge::new(&quota, &key, 1);
        for _ in 0..3 {
            assert!(store.charge(&[charge]).finish()?.is_admitted());
            clock.advance(Duration::from_millis(1));
        }
        assert_eq!(store.set(&charge.counter(), 2)?.used(), 2);
        assert_eq!(store.counters(), 6);
        assert_eq!(store.set(&charge.counter(), 0)?.used(), 0);
        assert_eq!(store.counters(), 0);
        Ok(())
    }

    /// The places of entries that leave in a step were not there for the other counters of the step.
    #[test]
    fn a_log_makes_room_for_the_other_counters_of_its_step() -> Result<(), Full> {
        let [log, second] = ["9/1m~log", "9/2m~log"].map(|text| PolicyQuota::new("", text.parse().unwrap()));
        let window = PolicyQuota::new("", Quota::per_day(9));
        let key = Key::from("alice");
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(7).build();
        for _ in 0..4 {
            assert!(store.charge(&[Charge::new(&log, &key, 1)]).finish()?.is_admitted());
            clock.advance(Duration::from_millis(1));
        }
        assert_eq!(store.counters(), 7);
        let all = [Charge::new(&log, &key, 1), Charge::new(&window, &key, 1)];
        assert_eq!(store.charge(&all).finish(), Err(Full));
        assert_eq!(store.peek(&all), Err(Full));
        clock.advance(Duration::from_secs(59) + Duration::from_millis(998));
        // Three entries have left: one place, which the window takes. Peeks and costs of 0 get the answer of a charge.
        assert!(store.peek(&all)?.is_admitted());
        assert!(store.charge(&all.map(|charge| charge.counter().charge(0))).finish()?.is_admitted());
        assert_eq!(store.counters(), 7);
        assert!(store.charge(&all).finish()?.is_admitted());
        assert_eq!(store.counters(), 7);
        // The other log needs more than that one frees.
        clock.advance(Duration::from_secs(60));
        assert_eq!(store.charge(&[all[0], Charge::new(&second, &key, 1)]).finish(), Err(Full));
        // Only the window is left: the log had closed.
        assert_eq!(store.counters(), 1);
        store.reset(&all[0].counter());
        store.reset(&all[1].counter());
        assert_eq!(store.counters(), 0);
        Ok(())
    }

    /// A cost of 0 was admitted where a cost of 1, and a peek, were refused.
    #[test]
    fn a_cost_of_0_on_a_log_gets_the_answer_of_1_and_takes_no_place() -> Result<(), Full> {
        let (quota, key) = (PolicyQuota::new("", "9/1m~log".parse().unwrap()), Key::from("alice"));
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(6).build();
        let charge = |cost| store.charge(&[Charge::new(&quota, &key, cost)]).finish();
        assert!(charge(0)?.is_admitted());
        assert_eq!(store.counters(), 0);
        for _ in 0..3 {
            assert!(charge(1)?.is_admitted());
            clock.advance(Duration::from_millis(1));
        }
        assert_eq!(store.counters(), 6);
        assert_eq!(
            [charge(1), charge(0), store.peek(&[Charge::new(&quota, &key, 0)])],
            [(); 3].map(|()| Err(Full))
        );
        assert!(!charge(7)?.is_admitted());
        Ok(())
    }

    /// To make room for three new counters, a step dropped two closed ones that it charged as well, and had no slot for one
    /// of them: its charge was lost.
    #[test]
    fn a_step_finds_room_for_its_own_counters_that_it_has_dropped() -> Result<(), Full> {
        let quota = PolicyQuota::new("", "1/1s".parse().unwrap());
        let keys: Vec<Key<'_>> = (0_u64..5).map(Key::from).collect();
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(5).build();
        let all: Vec<_> = keys.iter().map(|key| Charge::new(&quota, key, 1)).collect();
        assert!(store.charge(&all[..2]).finish()?.is_admitted());
        clock.advance(Duration::from_secs(1));
        assert!(store.charge(&all).finish()?.is_admitted());
        for charge in &all {
            assert_eq!(store.peek(&[*charge])?[0].used(), 1);
        }
        Ok(())
    }

    /// A step that drops closed counters skips those that it has frozen. When their windows close, the next step has to
    /// drop them.
    #[test]
    fn a_counter_that_was_charged_while_others_were_dropped_is_dropped_when_it_closes() -> Result<(), Full> {
        let quota =
            |millis| Quota::new(9, Duration::from_millis(millis)).map(|quota| PolicyQuota::new("", quota));
        let (blink, second, minute) = (quota(300).unwrap(), quota(1_000).unwrap(), quota(60_000).unwrap());
        let keys: Vec<Key<'_>> = (0_u64..5).map(Key::from).collect();
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(3).build();
        // So many are refused, but from now on the shard has room for them: only the cap asks for closed ones.
        let crowd: Vec<_> = keys.iter().map(|key| Charge::new(&minute, key, 1)).collect();
        assert_eq!(store.charge(&crowd).finish(), Err(Full));
        for (key, quota) in [&blink, &second, &minute].into_iter().enumerate() {
            assert!(store.charge(&[Charge::new(quota, &keys[key], 1)]).finish()?.is_admitted());
        }
        clock.advance(Duration::from_millis(300));
        // Replaces the first.
        let both = [Charge::new(&second, &keys[1], 1), Charge::new(&minute, &keys[3], 1)];
        assert!(store.charge(&both).finish()?.is_admitted());
        clock.advance(Duration::from_millis(700));
        // Replaces the second.
        assert!(store.charge(&[Charge::new(&minute, &keys[4], 1)]).finish()?.is_admitted());
        Ok(())
    }
}
