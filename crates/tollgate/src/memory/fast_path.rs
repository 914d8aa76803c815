//! The fast path: charges of counters that have slots and compact states.
//!
//! One quota on one key is one compare-and-swap and no lock. Several are changed together under the locks of their
//! shards, after a read has shown that all have room. A denial only reads. All other cases go to
//! [`locked`](super::locked), which can do everything.

use smallvec::SmallVec;

use super::decide::{Outcome, decide, is_admitted};
use super::fingerprint::Fingerprint;
use super::shard::{Look, Shard};
use super::slot::SlotReading;
use super::stored::{Course, PlacedCounter, SlotStanding, StoredCounter};
use super::sync::Backoff;
use super::table::{Table, UnlockedReading};
use super::time::{Reading, Time};
use super::word::{FROZEN, add_level, is_compact, open, succeed};
use crate::{Charge, Clock, CountDenied, QuotaState, QuotaStates, Timestamp};

/// A state word before and after a charge.
struct Change<'a> {
    seen: SlotReading<'a>,
    new: u64,
}

/// The result of one try at a slot.
enum SwapResult {
    Done(QuotaState),
    /// The charge needs the lock.
    Locked,
    /// Another thread was faster.
    Changed,
}

impl Table {
    /// Charges a counter whose slot is near its place and whose window is certainly open, if no other thread
    /// interferes. A denial writes nothing.
    ///
    /// This is nearly always enough, so it is as short as possible: the processor can then begin the next decision
    /// while it waits for the memory of this one.
    #[inline(always)]
    pub(super) fn charge_near<C: Clock>(
        &self,
        charge: &Charge<'_>,
        fingerprint: Fingerprint,
        time: &Time<C>,
    ) -> Option<QuotaState> {
        let shard = self.shard(fingerprint);
        let seen = shard.find_near(fingerprint)?;
        let quota = charge.counter().quota().quota();
        let state = open(seen.word, seen.tag);
        // Each kind in a branch of its own, so that the rest is compiled for it.
        if let Some(length) = quota.window_millis() {
            if !time.is_coarse_enough(length) {
                return None;
            }
            let now = time.coarse();
            self.charge_seen(
                charge,
                shard,
                seen,
                PlacedCounter::in_its_window(length, state, now)?,
                now,
                Reading::Coarse,
                time,
            )
        } else {
            if let Some(window) = quota.sliding_millis() {
                if !time.is_coarse_enough(window) {
                    return None;
                }
                let now = time.coarse();
                let placed = PlacedCounter::in_two_windows(window, state, now)?;
                return self.charge_seen(charge, shard, seen, placed, now, Reading::Coarse, time);
            }
            let bucket = quota.bucket()?;
            let reading = if time.serves_bucket(bucket) { Reading::Coarse } else { Reading::Precise };
            let now = time.read(reading);
            let placed = PlacedCounter::in_bucket(bucket, state, now);
            self.charge_seen(charge, shard, seen, placed, now, reading, time)
        }
    }

    /// Charges a counter that is like this now, unless it has to move or another reading might decide differently.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "inlined, so that nothing is packed and unpacked")]
    fn charge_seen<S: SlotStanding, C: Clock>(
        &self,
        charge: &Charge<'_>,
        shard: Shard<'_>,
        seen: SlotReading<'_>,
        placed: PlacedCounter<S>,
        now: Timestamp,
        reading: Reading,
        time: &Time<C>,
    ) -> Option<QuotaState> {
        let has_moved = placed.course == Course::MovedBack;
        let outcome = Outcome::of(charge, charge.cost().into(), placed, now);
        if has_moved || reading == Reading::Coarse && time.doubts(&outcome) {
            return None;
        }
        match self.take(charge, shard, seen, &outcome) {
            SwapResult::Done(state) => Some(state),
            SwapResult::Locked => None,
            SwapResult::Changed => {
                Backoff::default().wait();
                None
            }
        }
    }

    /// Charges a counter that has a slot and whose state is compact. A denial writes nothing. `None` if the charge needs
    /// the lock: the counter has no slot, is wide or has to become wide, or has to move.
    pub(super) fn charge_found<C: Clock>(
        &self,
        charge: &Charge<'_>,
        fingerprint: Fingerprint,
        time: &Time<C>,
    ) -> Option<QuotaState> {
        let shard = self.shard(fingerprint);
        let mut backoff = Backoff::default();
        loop {
            match shard.find(fingerprint) {
                Look::Found(seen) if is_compact(seen.word) => {
                    let stored = StoredCounter::Held(open(seen.word, seen.tag));
                    let outcome =
                        time.decide_one(charge, |now| decide(charge, charge.cost().into(), &stored, now));
                    if outcome.placement.course == Course::MovedBack {
                        return None;
                    }
                    match self.take(charge, shard, seen, &outcome) {
                        SwapResult::Done(state) => return Some(state),
                        SwapResult::Locked => return None,
                        SwapResult::Changed => {}
                    }
                }
                Look::Found(_) | Look::Absent => return None,
                Look::Busy => {}
            }
            backoff.wait();
        }
    }

    /// Applies a charge if the slot still holds what was seen. The clock was read after that, so it was read while the
    /// counter was in this state.
    #[inline(always)]
    fn take<S: SlotStanding>(
        &self,
        charge: &Charge<'_>,
        shard: Shard<'_>,
        seen: SlotReading<'_>,
        outcome: &Outcome<S>,
    ) -> SwapResult {
        let SlotReading { slot, word, tag, .. } = seen;
        let units = outcome.units(charge, is_admitted(outcome.as_ref()));
        if units == 0 {
            return if slot.still_is(word) {
                SwapResult::Done(outcome.answer(charge, 0))
            } else {
                SwapResult::Changed
            };
        }
        let is_over = outcome.placement.course == Course::Opened;
        let new = if S::IS_COUNT && !is_over {
            add_level(word, units)
        } else {
            succeed(word, tag, outcome.standing().add(units).state())
        };
        let Some(new) = new else { return SwapResult::Locked };
        if !slot.swap(word, new) {
            return SwapResult::Changed;
        }
        if let (true, Some(names)) = (is_over, &self.names) {
            names.tell_of_rollover(&charge.counter(), open(word, tag));
        }
        // If the slot was given away so often since it was read that the word could have come back for another counter
        // before the swap, the charge is repeated: better counted twice than not at all.
        if shard.was_of_one_counter(seen) {
            SwapResult::Done(outcome.answer(charge, units))
        } else {
            SwapResult::Locked
        }
    }

    /// Charges several counters that all have slots and compact states. A denial writes nothing. `None` if the charges
    /// need the locks.
    pub(super) fn charge_together<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        fingerprints: &[Fingerprint],
        time: &Time<C>,
    ) -> Option<QuotaStates> {
        // Charges on one counter add up. This is rare and needs the locks.
        let again = |index: usize| fingerprints[..index].contains(&fingerprints[index]);
        if (0..fingerprints.len()).any(again) {
            return None;
        }
        let looks: SmallVec<[UnlockedReading<'_>; 2]> =
            fingerprints.iter().map(|it| self.read(*it)).collect();
        let decide = |now| -> SmallVec<[Outcome; 2]> {
            let each = charges.iter().zip(&looks);
            each.map(|(charge, look)| decide(charge, charge.cost().into(), &look.stored, now)).collect()
        };
        let outcomes = time.decide_all(charges, decide);
        if outcomes.iter().any(|outcome| outcome.placement.course == Course::MovedBack) {
            return None;
        }
        let admitted = is_admitted(&outcomes);
        if !admitted
            && charges.iter().any(|charge| charge.counter().quota().count_denied() != CountDenied::No)
        {
            return None;
        }
        if admitted && !self.commit(charges, fingerprints, &looks, &outcomes) {
            return None;
        }
        let each = charges.iter().zip(&outcomes);
        Some(each.map(|(charge, outcome)| outcome.answer(charge, outcome.units(charge, admitted))).collect())
    }

    /// Makes all changes, or none if one needs more than one word or another thread was faster.
    fn commit(
        &self,
        charges: &[Charge<'_>],
        fingerprints: &[Fingerprint],
        looks: &[UnlockedReading<'_>],
        outcomes: &[Outcome],
    ) -> bool {
        let each = charges.iter().zip(looks).zip(outcomes);
        let changes = each.clone().map(|((charge, look), outcome)| {
            let (seen, units) = (look.compact?, outcome.units(charge, true));
            // A peek does not change a counter: rolling it over with nothing used would take room for nothing.
            let new = if units > 0 {
                succeed(seen.word, seen.tag, outcome.standing().add(units).state())?
            } else {
                seen.word
            };
            Some(Change { seen, new })
        });
        let Some(changes) = changes.collect::<Option<SmallVec<[Change<'_>; 2]>>>() else { return false };
        // Slots are frozen and rewritten only under the locks of their shards.
        let _guards = self.lock(fingerprints);
        let is_same = |(Change { seen, .. }, fingerprint): (&Change<'_>, &Fingerprint)| {
            seen.slot.tag() == seen.tag && self.shard(*fingerprint).kept_count(*seen)
        };
        if !changes.iter().zip(fingerprints).all(is_same) {
            return false;
        }
        let Some((last, others)) = changes.split_last() else { return true };
        let frozen =
            others.iter().take_while(|Change { seen, .. }| seen.slot.swap(seen.word, FROZEN)).count();
        // Charges of one counter see the last change and wait for those of the others.
        let made = frozen == others.len() && last.seen.slot.swap(last.seen.word, last.new);
        for Change { seen, new } in &others[..frozen] {
            seen.slot.thaw(if made { *new } else { seen.word });
        }
        if let (true, Some(names)) = (made, &self.names) {
            for ((charge, look), outcome) in each {
                if let (Course::Opened, StoredCounter::Held(before)) =
                    (outcome.placement.course, &look.stored)
                    && charge.cost() > 0
                {
                    names.tell_of_rollover(&charge.counter(), *before);
                }
            }
        }
        made
    }
}

#[cfg(test)]
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod tests {
    use super::super::decide::decide;
    use super::super::slots::ROW;
    use super::super::word::{GENERATIONS, add_level};
    use super::super::*;
    use crate::{CountDenied, Key, ManualClock, PolicyQuota, Quota, Timestamp};

    /// In the middle of a second, so that windows that begin with their first unit end there.
    fn store() -> MemoryStore<ManualClock> {
        let clock = ManualClock::at(Timestamp::from_unix_millis(1_700_000_040_500));
        MemoryStore::builder().clock(clock).max_counters(10).build()
    }

    fn word(store: &MemoryStore<ManualClock>, counter: &Counter<'_>) -> u64 {
        let fingerprint = store.inner.table.fingerprint(counter);
        store.inner.table.shard(fingerprint).find_near(fingerprint).unwrap().word
    }

    /// The generation had 6 bits. After 64 rewrites of other counters, a slot showed the same word for another counter,
    /// and a stale swap charged that one.
    #[test]
    fn a_slot_never_shows_the_word_of_the_counter_before() {
        let quota = PolicyQuota::new("", Quota::per_hour(5));
        for others in 0..130 {
            let store = store();
            let home = |key: &Key<'_>| {
                let fingerprint = store.inner.table.fingerprint(&Counter::new(&quota, key));
                fingerprint.place(ROW)
            };
            let mut at_home = (0_u64..).map(Key::from).filter(|key| home(key) == 0);
            let [alice, bob] = [(); 2].map(|()| at_home.next().unwrap());
            let carol = (0_u64..).map(Key::from).find(|key| home(key) == 2).unwrap();
            let charge = |key| store.charge(&[Charge::new(&quota, key, 1)]).finish().unwrap();
            let reset = |key| store.reset(&Counter::new(&quota, key));
            charge(&alice);
            let before = word(&store, &Counter::new(&quota, &alice));
            for _ in 0..others {
                charge(&carol);
                reset(&carol);
            }
            reset(&alice);
            charge(&bob);
            assert_ne!(word(&store, &Counter::new(&quota, &bob)), before, "{others} others");
        }
    }

    /// Every change under the lock began another generation. So after 64 refunds a thread could not tell that its own
    /// swap had been good, if it was stopped behind it, and charged again: 300,001 units were counted for 300,000.
    #[test]
    fn a_counter_keeps_its_generation_in_its_window() {
        let quota = PolicyQuota::new("", Quota::per_hour(5));
        let (store, key) = (store(), Key::from("alice"));
        let counter = Counter::new(&quota, &key);
        let charge = Charge::new(&quota, &key, 1);
        let mark = store.charge(&[charge]).finish().unwrap()[0].mark();
        let before = word(&store, &counter);
        store.record(&charge).unwrap();
        store.set(&counter, 4).unwrap();
        store.refund(&Charge::new(&quota, &key, 3), mark);
        assert_eq!(word(&store, &counter), before);
    }

    /// A thread that was stopped behind its swap found 64 slots of the shard rewritten when it went on, and its counter
    /// moved. It did not know any more whose unit it had counted, and charged again: of a limit of 2, one request was
    /// admitted.
    #[test]
    fn a_charge_is_not_made_again_because_its_counter_has_moved() {
        let (quota, store) = (PolicyQuota::new("", Quota::per_hour(5)), store());
        let table = &store.inner.table;
        let charge = |key: &Key<'_>| store.charge(&[Charge::new(&quota, key, 1)]).finish().unwrap();
        let alice = Key::from("alice");
        let counter = Counter::new(&quota, &alice);
        charge(&alice);
        let fingerprint = table.fingerprint(&counter);
        let shard = table.shard(fingerprint);
        let seen = shard.find_near(fingerprint).unwrap();
        assert!(seen.slot.swap(seen.word, add_level(seen.word, 1).unwrap()));
        // They come and go until the shard has put its counters in their places again.
        for stranger in 0..300_u64 {
            let key = Key::from(stranger);
            charge(&key);
            store.reset(&Counter::new(&quota, &key));
            assert!(shard.was_of_one_counter(seen), "after {stranger} others");
        }
        assert_ne!(seen.slot.tag(), seen.tag, "the counter has not moved");
        assert_eq!(store.peek(&[counter.charge(0)]).unwrap()[0].used(), 2);
    }

    /// A state word tells so many generations apart. A slot that has gone through all of them since it was read shows
    /// the same word for another counter, which must not be charged.
    #[test]
    fn several_are_not_charged_where_a_slot_has_gone_through_all_generations() {
        let (quota, store) = (PolicyQuota::new("", Quota::per_hour(5)), store());
        let Inner { table, time } = &*store.inner;
        let home = |key: &Key<'_>| table.fingerprint(&Counter::new(&quota, key)).place(ROW);
        let mut at_home = (0_u64..).map(Key::from).filter(|key| home(key) == 0);
        let [alice, bob] = [(); 2].map(|()| at_home.next().unwrap());
        let carol = (0_u64..).map(Key::from).find(|key| home(key) == 2).unwrap();
        let charge = |key| Charge::new(&quota, key, 1);
        let reset = |key| store.reset(&Counter::new(&quota, key));
        for key in [&alice, &carol] {
            store.charge(&[charge(key)]).finish().unwrap();
        }
        let charges = [charge(&alice), charge(&carol)];
        let fingerprints = charges.map(|charge| table.fingerprint(&charge.counter()));
        let looks = fingerprints.map(|fingerprint| table.read(fingerprint));
        let now = time.precise();
        let outcomes = [0, 1].map(|index| decide(&charges[index], 1, &looks[index].stored, now));

        let before = word(&store, &charges[0].counter());
        reset(&alice);
        for generation in 1..=GENERATIONS {
            store.charge(&[charge(&bob)]).finish().unwrap();
            if generation < GENERATIONS {
                reset(&bob);
            }
        }
        assert_eq!(word(&store, &Counter::new(&quota, &bob)), before, "bob has the slot, with the same word");
        assert!(!table.commit(&charges, &fingerprints, &looks, &outcomes), "it was charged to bob");
        let seen = looks[0].compact.unwrap();
        assert!(!table.shard(fingerprints[0]).was_of_one_counter(seen), "bob is taken for alice");
        assert_eq!(store.peek(&[charge(&bob)]).unwrap()[0].used(), 1);
    }

    /// A clock without ticks leaves no doubt, and a bucket that has to fall to twice its burst was denied without being
    /// written: the key was denied for as long as the clock had stepped back.
    #[test]
    fn a_bucket_falls_to_twice_its_burst_by_a_denial() {
        let quota = PolicyQuota::new("", "1/1s~burst:1".parse().unwrap());
        let clock = ManualClock::at(Timestamp::from_unix_millis(1_700_000_040_000));
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(10).build();
        let key = Key::from("alice");
        let charge = || store.charge(&[Charge::new(&quota, &key, 1)]).finish().unwrap()[0];
        assert!(charge().has_room());
        clock.set(Timestamp::from_unix_millis(1_700_000_030_000));
        assert_eq!((charge().has_room(), charge().used()), (false, 2));
        clock.set(Timestamp::from_unix_millis(1_700_000_031_000));
        assert_eq!((charge().has_room(), charge().used()), (false, 1));
        clock.set(Timestamp::from_unix_millis(1_700_000_032_000));
        assert!(charge().has_room());
    }

    /// The path without a lock said that a full bucket had taken the whole cost.
    #[test]
    fn a_bucket_at_twice_its_burst_says_what_it_took() {
        let quota = PolicyQuota::new("", "1/1s~burst:1".parse().unwrap());
        let quota = quota.with_count_denied(CountDenied::Overdraft);
        let (store, key) = (store(), Key::from("alice"));
        let units = || store.charge(&[Charge::new(&quota, &key, 3)]).finish().unwrap()[0].units();
        assert_eq!([units(), units()], [2, 0]);
    }

    /// Only windows that end on a whole second were in one word: of staggered and `first_hit` counters nearly none was,
    /// so each admission took a lock.
    #[test]
    fn counters_of_all_anchors_are_charged_without_a_lock() {
        for windows in ["1m", "1s@staggered", "1s@first_hit", "300ms", "90d@first_hit", "3653d"] {
            let quota = PolicyQuota::new("", format!("5/{windows}").parse().unwrap());
            let (store, key) = (store(), Key::from("alice"));
            let charge = Charge::new(&quota, &key, 1);
            assert!(store.charge(&[charge]).finish().unwrap().is_admitted());
            let Inner { table, time } = &*store.inner;
            let state = table.charge_near(&charge, table.fingerprint(&charge.counter()), time);
            assert_eq!(state.map(|state| state.used()), Some(2), "{windows}");
        }
    }
}
