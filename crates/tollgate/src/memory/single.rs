//! The usual charge: one quota, one key, one compare-and-swap and no lock.

use smallvec::SmallVec;

use super::fingerprint::Fingerprint;
use super::roll::{Rolled, has_not_begun, roll, roll_forward};
use super::slice::Look;
use super::state::{GENERATIONS, State, Word, add_used, generation};
use super::sync::Backoff;
use super::table::Table;
use super::time::Time;
use crate::{Charge, Clock, CountDenied, Counted, Counter, QuotaState, Reason};

/// What came of an attempt without the lock.
pub(super) enum Attempt<T> {
    Done(T),
    /// The counter has no slot.
    Absent,
    /// It takes the lock: the counter is wide or has to become so, or there are several.
    Locked,
}

impl Table {
    /// Charges a counter that has a slot and whose state is compact. A denial writes nothing.
    #[inline(always)]
    pub(super) fn attempt<C: Clock>(
        &self,
        charge: &Charge<'_>,
        fingerprint: Fingerprint,
        time: &Time<C>,
    ) -> Attempt<QuotaState> {
        let slice = self.slice(fingerprint);
        let counter = charge.counter();
        let quota = counter.quota().quota();
        let cost = u64::from(charge.cost());
        let mut reading = time.read(quota);
        let mut backoff = Backoff::default();
        loop {
            let moves = slice.moves();
            let (slot, word) = match slice.find(fingerprint) {
                Look::Found(slot, word) => (slot, word),
                Look::Absent => return Attempt::Absent,
                Look::Busy => {
                    backoff.wait();
                    continue;
                }
            };
            let Word::Compact(state) = self.base.word(word) else { return Attempt::Locked };
            let Some(Rolled { used, window }) = roll_forward(&counter, state, reading.now) else {
                if reading.is_coarse() {
                    // Another thread, with a finer reading, has opened the next window already.
                    reading = time.precise();
                    continue;
                }
                // The clock has stepped back, which happens so seldom that the lock may be taken.
                return Attempt::Locked;
            };
            let reason = Reason::of(used, cost.max(1), charge.limit());
            let done = |used| Attempt::Done(QuotaState::new(quota, used, window, reading.now, reason));
            let counts_denied =
                || counter.quota().count_denied() == CountDenied::Yes && cost <= charge.limit();
            if reason.is_some() && reading.may_have_missed(window.end()) {
                reading = time.precise();
                continue;
            }
            if cost == 0 || !(reason.is_none() || counts_denied()) {
                if slot.still_is(word) {
                    return done(used);
                }
            } else {
                let new = State { used: used + cost, end: window.end() };
                let new_word = if new.end == state.end {
                    add_used(word, cost)
                } else {
                    self.base.compact(new, generation(word))
                };
                let Some(new_word) = new_word else { return Attempt::Locked };
                if slot.swap(word, new_word) {
                    if let (true, Some(watch)) = (new.end != state.end, &self.watch) {
                        watch.rolled_over(&counter, state);
                    }
                    // Places that changed 64 times meanwhile may have given the very word to another counter;
                    // then the charge is made again, so that none is lost.
                    let sure = slice.moves() - moves < GENERATIONS;
                    return if sure { done(new.used) } else { Attempt::Locked };
                }
            }
            backoff.wait();
            // A reading must not be older than what it is compared with.
            reading = time.read(quota);
        }
    }

    /// Denies charges of which one finds no room, by reading alone; any other outcome takes the locks.
    pub(super) fn denial<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        fingerprints: &[Fingerprint],
        time: &Time<C>,
    ) -> Attempt<Counted> {
        if charges.iter().any(|charge| charge.counter().quota().count_denied() == CountDenied::Yes) {
            return Attempt::Locked;
        }
        let stored = fingerprints.iter().map(|fingerprint| self.read(*fingerprint));
        let stored: SmallVec<[Option<State>; 2]> = stored.collect();
        let counters: SmallVec<[_; 2]> = charges.iter().map(Charge::counter).collect();
        // Read last: no counter is in a later window, unless the clock has stepped back.
        let mut reading = time.read_to_open(&counters);
        let doubted = |state: &Option<State>| state.is_some_and(|state| reading.may_have_missed(state.end));
        if stored.iter().any(doubted) {
            reading = time.precise();
        }
        let not_begun = |(counter, state): (&Counter<'_>, &Option<State>)| {
            state.is_some_and(|state| has_not_begun(counter, state, reading.now))
        };
        if counters.iter().zip(&stored).any(not_begun) {
            return Attempt::Locked;
        }
        let weigh = |(charge, state): (&Charge<'_>, &Option<State>)| {
            let Rolled { used, window } = roll(&charge.counter(), *state, reading.now);
            let reason = Reason::of(used, charge.asked_in(charges), charge.limit());
            QuotaState::new(charge.counter().quota().quota(), used, window, reading.now, reason)
        };
        let weighed = || charges.iter().zip(&stored).map(weigh);
        if weighed().all(|quota| quota.has_room()) {
            Attempt::Locked
        } else {
            Attempt::Done(weighed().collect())
        }
    }
}
