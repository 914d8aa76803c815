//! A step under the locks of its counters' slices: whatever one compare-and-swap cannot do.

use smallvec::SmallVec;

use super::fingerprint::Fingerprint;
use super::roll::{Rolled, has_not_begun, roll};
use super::slot::Slot;
use super::state::State;
use super::table::{Guards, Table};
use super::time::{Reading, Time};
use crate::store::{Counted, Refunded, StoreError};
use crate::{Charge, Clock, CountDenied, Counter, Quota, QuotaState, Reason, Timestamp};

/// The slices of some counters, locked, with the slots of those counters frozen: nobody else sees or changes
/// them until this is dropped.
pub(super) struct Step<'a> {
    table: &'a Table,
    /// One for each different counter.
    held: SmallVec<[Held<'a>; 2]>,
    /// The counters that were asked for, and for each its index in `held`.
    counters: SmallVec<[Counter<'a>; 2]>,
    indices: SmallVec<[usize; 2]>,
    guards: Guards<'a>,
    reading: Reading,
}

struct Held<'a> {
    fingerprint: Fingerprint,
    /// The frozen slot and the word to give back, if the counter has a slot.
    slot: Option<(Slot<'a>, u64)>,
    /// Whether a slot can be had.
    room: bool,
}

/// One charge, weighed against its counter.
struct Weighed {
    counter: Rolled,
    exists: bool,
    /// Units the whole step takes from the counter.
    cost: u64,
    /// Why it does not fit, if it does not.
    reason: Option<Reason>,
}

impl<'a> Step<'a> {
    /// Locks and freezes these counters, whose fingerprints these are.
    pub(super) fn new(
        table: &'a Table,
        time: &Time<impl Clock>,
        counters: impl IntoIterator<Item = Counter<'a>>,
        fingerprints: &[Fingerprint],
    ) -> Self {
        let counters: SmallVec<[Counter<'a>; 2]> = counters.into_iter().collect();
        let mut held = SmallVec::<[Held<'a>; 2]>::new();
        let indices = fingerprints
            .iter()
            .map(|fingerprint| {
                held.iter().position(|known| known.fingerprint == *fingerprint).unwrap_or_else(|| {
                    held.push(Held { fingerprint: *fingerprint, slot: None, room: true });
                    held.len() - 1
                })
            })
            .collect();
        // From here on a panic, as of a user's clock, gives everything back.
        let mut step = Self {
            table,
            held,
            counters,
            indices,
            guards: table.lock(fingerprints),
            reading: time.precise(),
        };
        step.make_room();
        step.freeze();
        // Read once no other step can change these counters, so that the readings of all steps on a counter
        // are in the order of the steps.
        step.reading = time.read_to_open(&step.counters);
        if step.reading.is_coarse() && step.is_doubtful() {
            step.reading = time.precise();
        }
        step.take_back();
        step
    }

    /// Finds or makes room for counters that have no slot. Before anything is frozen, because counters may
    /// change their places.
    fn make_room(&mut self) {
        let new = self.held.len();
        for held in &mut self.held {
            let guard = self.guards.of(self.table.slice_index(held.fingerprint));
            if guard.find(held.fingerprint).is_none() {
                let (room, dropped) = guard.make_room(new, self.reading.now);
                self.table.settle(self.table.slice_index(held.fingerprint), &dropped);
                held.room = room;
            }
        }
    }

    fn freeze(&mut self) {
        for held in &mut self.held {
            let found = self.guards.of(self.table.slice_index(held.fingerprint)).find(held.fingerprint);
            held.slot = found.map(|(slot, _)| (slot, slot.freeze()));
        }
    }

    /// Whether a finer reading has opened one of the windows already, or would close one.
    fn is_doubtful(&self) -> bool {
        let ends = (0..self.counters.len()).filter_map(|index| self.state(index)).map(|state| state.end);
        self.not_begun().next().is_some() || ends.into_iter().any(|end| self.reading.may_have_missed(end))
    }

    /// Takes counters whose windows have not begun, because the clock has stepped back, into the windows that
    /// hold now. Left where they were, they would deny in every window up to their own.
    fn take_back(&mut self) {
        let not_begun: SmallVec<[(usize, State); 2]> = self.not_begun().collect();
        for (index, stored) in not_begun {
            let window = roll(&self.counters[index], Some(stored), self.reading.now).window;
            let state = State { end: window.end(), ..stored };
            let held = &mut self.held[self.indices[index]];
            let guard = self.guards.of(self.table.slice_index(held.fingerprint));
            guard.note(0, state.end);
            // The slot may have been another counter's in that window.
            guard.renew();
            let generation = guard.generation();
            let fill = |slot: Slot<'_>| slot.fill(self.table.base, held.fingerprint, state, generation);
            held.slot = held.slot.map(|(slot, _)| (slot, fill(slot)));
        }
    }

    fn not_begun(&self) -> impl Iterator<Item = (usize, State)> {
        self.counters.iter().enumerate().filter_map(|(index, counter)| {
            let stored = self.state(index)?;
            has_not_begun(counter, stored, self.reading.now).then_some((index, stored))
        })
    }

    pub(super) fn charge(&mut self, charges: &[Charge<'_>]) -> Result<Counted, StoreError> {
        let mut weighed = self.weigh(charges);
        let admitted = weighed.iter().all(|weighed| weighed.reason.is_none());
        // Room is asked for every counter, and taken for those that are charged. Only an admission makes new
        // ones: a denial is counted where something is used already.
        if admitted
            && !self
                .has_room(&weighed, self.new_counters(&weighed).filter(|weighed| weighed.cost > 0).count())
        {
            return Err(StoreError::Full);
        }
        // Weighed together, charged together: one denial is counted for all charges on its counter.
        let is_charged = |index: usize| {
            let on_counter = |other: &usize| self.indices[*other] == self.indices[index];
            let counted_denial = |other: usize| weighed[other].is_counted_denial(&charges[other]);
            admitted || (0..charges.len()).filter(on_counter).any(counted_denial)
        };
        let is_charged: SmallVec<[bool; 2]> = (0..charges.len()).map(is_charged).collect();
        for (index, weighed) in weighed.iter_mut().enumerate() {
            if is_charged[index] && weighed.cost > 0 {
                weighed.counter.used = add(weighed.counter.used, weighed.cost);
                self.write(index, weighed.counter);
            }
        }
        Ok(self.counted(&weighed))
    }

    pub(super) fn peek(&mut self, charges: &[Charge<'_>]) -> Result<Counted, StoreError> {
        let weighed = self.weigh(charges);
        let admitted = weighed.iter().all(|weighed| weighed.reason.is_none());
        if admitted && !self.has_room(&weighed, 0) {
            return Err(StoreError::Full);
        }
        Ok(self.counted(&weighed))
    }

    pub(super) fn record(&mut self, charge: &Charge<'_>) -> Result<QuotaState, StoreError> {
        let used = |used| add(used, charge.cost().into());
        self.assign(&charge.counter(), used)
    }

    pub(super) fn set(&mut self, counter: &Counter<'_>, used: u64) -> Result<QuotaState, StoreError> {
        self.assign(counter, |_| used.min(Quota::MAX_LIMIT))
    }

    pub(super) fn reset(&mut self, counter: &Counter<'_>) -> QuotaState {
        if let Some((slot, _)) = self.held.first_mut().and_then(|held| held.slot.take()) {
            let fingerprint = self.held[0].fingerprint;
            let slice = self.table.slice_index(fingerprint);
            self.guards.of(slice).forget(slot);
            if let Some(watch) = &self.table.watch {
                watch.forget(slice, fingerprint);
            }
            self.table.give_back_keys(1);
        }
        let window = roll(counter, None, self.reading.now).window;
        QuotaState::new(counter.quota().quota(), 0, window, self.reading.now, None)
    }

    pub(super) fn refund(&mut self, charge: &Charge<'_>, start: Timestamp) -> Refunded {
        let Rolled { used, window } = roll(&charge.counter(), self.state(0), self.reading.now);
        if window.start() != start {
            return Refunded::Closed;
        }
        let given = charge.cost().min(u32::try_from(used).unwrap_or(u32::MAX));
        let used = used - u64::from(given);
        if given > 0 {
            self.write(0, Rolled { used, window });
        }
        Refunded::Open { given, used }
    }

    /// Writes what is used, unless that is what a fresh counter would say.
    fn assign(&mut self, counter: &Counter<'_>, used: impl Fn(u64) -> u64) -> Result<QuotaState, StoreError> {
        let stored = self.state(0);
        let Rolled { used: before, window } = roll(counter, stored, self.reading.now);
        let used = used(before);
        if used != before {
            if stored.is_none() && !(self.held[0].room && self.take_keys(1)) {
                return Err(StoreError::Full);
            }
            self.write(0, Rolled { used, window });
        }
        Ok(QuotaState::new(counter.quota().quota(), used, window, self.reading.now, None))
    }

    /// Rolls every charge's counter over to now and finds whether the step fits. Charges on one counter are
    /// weighed together.
    fn weigh(&self, charges: &[Charge<'_>]) -> SmallVec<[Weighed; 2]> {
        let weigh = |(index, charge): (usize, &Charge<'_>)| {
            let state = self.state(index);
            let counter = roll(&charge.counter(), state, self.reading.now);
            let on_counter =
                charges.iter().zip(&self.indices).filter(|(_, held)| **held == self.indices[index]);
            let cost = on_counter.map(|(charge, _)| u64::from(charge.cost())).sum::<u64>();
            let reason = Reason::of(counter.used, cost.max(1), charge.limit());
            Weighed { counter, exists: state.is_some(), cost, reason }
        };
        charges.iter().enumerate().map(weigh).collect()
    }

    fn state(&self, index: usize) -> Option<State> {
        let (slot, word) = self.held[self.indices[index]].slot?;
        slot.state(self.table.base, word)
    }

    /// Those that have no slot yet, each counter once.
    fn new_counters<'w>(&'w self, weighed: &'w [Weighed]) -> impl Iterator<Item = &'w Weighed> {
        weighed.iter().enumerate().filter_map(|(index, weighed)| {
            let held = self.indices[index];
            let first = !self.indices[..index].contains(&held);
            (first && !weighed.exists).then_some(weighed)
        })
    }

    /// Whether there is room for every counter that has no slot; takes it for so many of them.
    fn has_room(&self, weighed: &[Weighed], taken: usize) -> bool {
        let new = self.new_counters(weighed).count();
        if new == 0 {
            return true;
        }
        if !(self.held.iter().all(|held| held.room) && self.take_keys(new)) {
            return false;
        }
        self.table.give_back_keys(new - taken);
        true
    }

    /// Takes room for new counters; if there is none, that of counters in these slices that have closed.
    fn take_keys(&self, new: usize) -> bool {
        if self.table.take_keys(new) {
            return true;
        }
        for (slice, guard) in self.guards.iter() {
            self.table.settle(*slice, &guard.reap(self.reading.now));
        }
        self.table.take_keys(new)
    }

    /// Writes a counter that has a slot, or gives it one.
    fn write(&mut self, index: usize, counter: Rolled) {
        let held = &mut self.held[self.indices[index]];
        let guard = self.guards.of(self.table.slice_index(held.fingerprint));
        let state = State { used: counter.used, end: counter.window.end() };
        match held.slot.take() {
            Some((slot, word)) => {
                let closed = slot.state(self.table.base, word).filter(|state| state.end <= self.reading.now);
                if let (Some(watch), Some(closed)) = (&self.table.watch, closed) {
                    watch.rolled_over(&self.counters[index], closed);
                }
                slot.write(self.table.base, held.fingerprint, state, guard.generation());
                guard.note(0, state.end);
            }
            // Charges on one counter are written once for each; the first has written it all.
            None if guard.find(held.fingerprint).is_some() => {}
            None => {
                let slice = self.table.slice_index(held.fingerprint);
                self.table.settle(slice, &guard.insert(held.fingerprint, state, self.reading.now));
                if let Some(watch) = &self.table.watch {
                    watch.remember(slice, held.fingerprint, &self.counters[index]);
                }
            }
        }
    }

    fn counted(&self, weighed: &[Weighed]) -> Counted {
        let state = |(counter, weighed): (&Counter<'_>, &Weighed)| {
            let Rolled { used, window } = weighed.counter;
            QuotaState::new(counter.quota().quota(), used, window, self.reading.now, weighed.reason)
        };
        self.counters.iter().zip(weighed).map(state).collect()
    }
}

impl Weighed {
    fn is_counted_denial(&self, charge: &Charge<'_>) -> bool {
        let counts_denied = charge.counter().quota().count_denied() == CountDenied::Yes;
        counts_denied && self.reason.is_some() && self.cost <= charge.limit()
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        for Held { fingerprint, slot, .. } in &self.held {
            let Some((slot, word)) = *slot else { continue };
            // What was frozen was not seen by a sweep of this step.
            if let Some(state) = slot.state(self.table.base, word) {
                self.guards.of(self.table.slice_index(*fingerprint)).note(0, state.end);
            }
            slot.thaw(word);
        }
    }
}

/// `used` saturates where limits end, so that it fits wherever a limit does.
fn add(used: u64, cost: u64) -> u64 {
    used.saturating_add(cost).min(Quota::MAX_LIMIT)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{Charge, Key, ManualClock, MemoryStore, PolicyQuota, Quota, StoreError, SyncStore};

    /// A sweep in the middle of a step passes by the counters that the step has frozen. When their windows close,
    /// the next sweep has to come for them.
    #[test]
    fn a_counter_that_was_charged_beside_a_sweep_is_swept_when_it_closes() -> Result<(), StoreError> {
        let quota =
            |millis| Quota::new(9, Duration::from_millis(millis)).map(|quota| PolicyQuota::new("", quota));
        let (blink, second, minute) = (quota(300).unwrap(), quota(1_000).unwrap(), quota(60_000).unwrap());
        let keys: Vec<Key<'_>> = (0_u64..5).map(Key::from).collect();
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).max_keys(3).build();
        // So many are refused, but from now on the slice has room for them: only the cap asks for sweeps.
        let crowd: Vec<_> = keys.iter().map(|key| Charge::new(&minute, key, 1)).collect();
        assert_eq!(store.charge(&crowd), Err(StoreError::Full));
        for (key, quota) in [&blink, &second, &minute].into_iter().enumerate() {
            assert!(store.charge(&[Charge::new(quota, &keys[key], 1)])?.is_admitted());
        }
        clock.advance(Duration::from_millis(300));
        // Takes the place of the first.
        let both = [Charge::new(&second, &keys[1], 1), Charge::new(&minute, &keys[3], 1)];
        assert!(store.charge(&both)?.is_admitted());
        clock.advance(Duration::from_millis(700));
        // Takes the place of the second.
        assert!(store.charge(&[Charge::new(&minute, &keys[4], 1)])?.is_admitted());
        Ok(())
    }
}
