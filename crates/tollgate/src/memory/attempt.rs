//! The usual charges: of counters that have slots and whose states are compact.
//!
//! One quota on one key is one compare-and-swap and no lock. Several are changed together under the locks of their
//! slices, once it is known that all have room. A denial is found by reading. What is unusual is left to
//! [`step`](super::step), which can do everything.

use smallvec::SmallVec;

use super::fingerprint::Fingerprint;
use super::roll::{Rolled, has_not_begun, roll, roll_forward};
use super::slice::{Look, Slice};
use super::slot::Slot;
use super::state::{FROZEN, GENERATIONS, State, Word, add_used, generation};
use super::sync::Backoff;
use super::table::{Seen, Table};
use super::time::{Reading, Time};
use crate::{Charge, Clock, CountDenied, Counted, Counter, QuotaState, Reason};

/// What came of an attempt without the lock.
pub(super) enum Attempt<T> {
    Done(T),
    /// The counter has no slot.
    Absent,
    /// It takes the lock: the counter is wide or has to become so, or there are several.
    Locked,
}

/// A state word and what it becomes.
struct Change<'a> {
    slot: Slot<'a>,
    word: u64,
    new: u64,
}

/// What came of one try at a slot.
enum Tried {
    Done(QuotaState),
    Locked,
    /// The precise clock has to say it.
    TooCoarse,
    /// Another thread was faster.
    Changed,
}

impl Table {
    /// Charges a counter whose window is open and whose slot is near where it should be, if nobody is in the way.
    /// A denial writes nothing.
    ///
    /// Nearly always that is all, so it is as short as can be: then the processor begins the next decision while it
    /// waits for the memory of this one.
    #[inline(always)]
    pub(super) fn attempt_open<C: Clock>(
        &self,
        charge: &Charge<'_>,
        fingerprint: Fingerprint,
        time: &Time<C>,
    ) -> Option<QuotaState> {
        let quota = charge.counter().quota().quota();
        let slice = self.slice(fingerprint);
        let reading = time.read(quota);
        let moves = slice.moves();
        let (slot, word) = slice.find_near(fingerprint)?;
        let (end, used) = self.base.open(word);
        let left = end.as_unix_millis().wrapping_sub(reading.now.as_unix_millis()).cast_unsigned();
        let length = quota.fixed_millis()?;
        // 1 ..= length: what is below wraps to above.
        if left.wrapping_sub(1) >= length {
            return None;
        }
        let window = quota.window_ending(end);
        let cost = u64::from(charge.cost());
        let reason = Reason::of(used, cost.max(1), charge.limit());
        let done = |used| Some(QuotaState::new(quota, used, window, reading.now, reason));
        if reason.is_some() || cost == 0 {
            let final_word = charge.counter().quota().count_denied() == CountDenied::No || cost == 0;
            let sure = final_word && !reading.may_have_missed(end) && slot.still_is(word);
            return if sure { done(used) } else { None };
        }
        if !slot.swap(word, add_used(word, cost)?) {
            return None;
        }
        // As in `try_slot`.
        if slice.moves() - moves < GENERATIONS { done(used + cost) } else { None }
    }

    /// Charges a counter that has a slot and whose state is compact. A denial writes nothing.
    pub(super) fn attempt<C: Clock>(
        &self,
        charge: &Charge<'_>,
        fingerprint: Fingerprint,
        time: &Time<C>,
    ) -> Attempt<QuotaState> {
        let slice = self.slice(fingerprint);
        let mut reading = time.read(charge.counter().quota().quota());
        let mut backoff = Backoff::default();
        loop {
            let moves = slice.moves();
            let tried = match slice.find(fingerprint) {
                Look::Found(slot, word) => self.try_slot(charge, slice, moves, (slot, word), reading),
                Look::Absent => return Attempt::Absent,
                Look::Busy => Tried::Changed,
            };
            match tried {
                Tried::Done(state) => return Attempt::Done(state),
                Tried::Locked => return Attempt::Locked,
                Tried::TooCoarse => reading = time.precise(),
                Tried::Changed => {
                    backoff.wait();
                    // A reading must not be older than what it is compared with.
                    reading = time.read(charge.counter().quota().quota());
                }
            }
        }
    }

    /// Charges the counter in this slot if its state still is this word.
    #[inline(always)]
    fn try_slot(
        &self,
        charge: &Charge<'_>,
        slice: Slice<'_>,
        moves: u64,
        (slot, word): (Slot<'_>, u64),
        reading: Reading,
    ) -> Tried {
        let counter = charge.counter();
        let quota = counter.quota().quota();
        let cost = u64::from(charge.cost());
        let Word::Compact(state) = self.base.word(word) else { return Tried::Locked };
        let Some(Rolled { used, window }) = roll_forward(&counter, state, reading.now) else {
            // Another thread, with a finer reading, has opened the next window already. Or the clock has stepped
            // back, which happens so seldom that the lock may be taken.
            return if reading.is_coarse() { Tried::TooCoarse } else { Tried::Locked };
        };
        let reason = Reason::of(used, cost.max(1), charge.limit());
        let done = |used| Tried::Done(QuotaState::new(quota, used, window, reading.now, reason));
        let counts_denied = || counter.quota().count_denied() == CountDenied::Yes && cost <= charge.limit();
        if reason.is_some() && reading.may_have_missed(window.end()) {
            return Tried::TooCoarse;
        }
        if cost == 0 || !(reason.is_none() || counts_denied()) {
            return if slot.still_is(word) { done(used) } else { Tried::Changed };
        }
        let new = State { used: used + cost, end: window.end() };
        let new_word = if new.end == state.end {
            add_used(word, cost)
        } else {
            self.base.compact(new, generation(word))
        };
        let Some(new_word) = new_word else { return Tried::Locked };
        if !slot.swap(word, new_word) {
            return Tried::Changed;
        }
        if let (true, Some(watch)) = (new.end != state.end, &self.watch) {
            watch.rolled_over(&counter, state);
        }
        // Places that changed 64 times meanwhile may have given the very word to another counter; then the charge
        // is made again, so that none is lost.
        if slice.moves() - moves < GENERATIONS { done(new.used) } else { Tried::Locked }
    }

    /// Charges several counters that all have slots and compact states. A denial writes nothing.
    pub(super) fn attempt_all<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        fingerprints: &[Fingerprint],
        time: &Time<C>,
    ) -> Attempt<Counted> {
        // Charges on one counter add up: seldom, and for the locks to see to.
        let again = |index: usize| fingerprints[..index].contains(&fingerprints[index]);
        if (0..fingerprints.len()).any(again) {
            return Attempt::Locked;
        }
        let seen: SmallVec<[Seen<'_>; 2]> = fingerprints.iter().map(|it| self.read(*it)).collect();
        let counters: SmallVec<[Counter<'_>; 2]> = charges.iter().map(Charge::counter).collect();
        // Read last: no counter is in a later window, unless the clock has stepped back.
        let mut reading = time.read_to_open(&counters);
        let doubted = |seen: &Seen<'_>| seen.state.is_some_and(|state| reading.may_have_missed(state.end));
        if seen.iter().any(doubted) {
            reading = time.precise();
        }
        let mut weighed = SmallVec::<[(Rolled, Option<Reason>); 2]>::new();
        for (charge, Seen { state, .. }) in charges.iter().zip(&seen) {
            if state.is_some_and(|state| has_not_begun(&charge.counter(), state, reading.now)) {
                return Attempt::Locked;
            }
            let rolled = roll(&charge.counter(), *state, reading.now);
            weighed.push((rolled, Reason::of(rolled.used, charge.cost().max(1).into(), charge.limit())));
        }
        let admitted = weighed.iter().all(|(_, reason)| reason.is_none());
        if admitted {
            let changes = charges.iter().zip(&seen).zip(&weighed);
            let changes = changes.map(|((charge, seen), (rolled, _))| self.change(charge, seen, *rolled));
            let Some(changes) = changes.collect::<Option<SmallVec<[Change<'_>; 2]>>>() else {
                return Attempt::Locked;
            };
            if !self.commit(fingerprints, &seen, &changes) {
                return Attempt::Locked;
            }
            if let Some(watch) = &self.watch {
                let closed =
                    counters.iter().zip(&seen).zip(&weighed).filter_map(|((counter, seen), (now, _))| {
                        seen.state
                            .filter(|before| before.end != now.window.end())
                            .map(|before| (counter, before))
                    });
                closed.for_each(|(counter, before)| watch.rolled_over(counter, before));
            }
        } else if charges.iter().any(|charge| charge.counter().quota().count_denied() == CountDenied::Yes) {
            return Attempt::Locked;
        }
        let state = |(charge, (rolled, reason)): (&Charge<'_>, &(Rolled, Option<Reason>))| {
            let used = rolled.used + if admitted { u64::from(charge.cost()) } else { 0 };
            QuotaState::new(charge.counter().quota().quota(), used, rolled.window, reading.now, *reason)
        };
        Attempt::Done(charges.iter().zip(&weighed).map(state).collect())
    }

    /// What becomes of a counter that is charged, if that is a matter of one word.
    fn change<'a>(&self, charge: &Charge<'_>, seen: &Seen<'a>, rolled: Rolled) -> Option<Change<'a>> {
        // A look leaves a counter as it is: rolled over with nothing used, it would take room that it has no need of.
        let (slot, word) = seen.compact.filter(|_| charge.cost() > 0)?;
        let new = State { used: rolled.used + u64::from(charge.cost()), end: rolled.window.end() };
        Some(Change { slot, word, new: self.base.compact(new, generation(word))? })
    }

    /// Makes all changes or, if one of the words is another by now, none.
    fn commit(&self, fingerprints: &[Fingerprint], seen: &[Seen<'_>], changes: &[Change<'_>]) -> bool {
        // Slots are frozen under the locks of their slices alone, and so are counters put into other places.
        let guards = self.lock(fingerprints);
        let in_place = |(fingerprint, seen): (&Fingerprint, &Seen<'_>)| {
            guards.of(self.slice_index(*fingerprint)).generation() == seen.moves
        };
        if !fingerprints.iter().zip(seen).all(in_place) {
            return false;
        }
        let Some((last, others)) = changes.split_last() else { return true };
        let frozen = others.iter().take_while(|change| change.slot.swap(change.word, FROZEN)).count();
        // Charges of one counter see the change of the last and wait for those of the others.
        let made = frozen == others.len() && last.slot.swap(last.word, last.new);
        for Change { slot, word, new } in &others[..frozen] {
            slot.thaw(if made { *new } else { *word });
        }
        made
    }
}
