//! Quotas that are not fixed windows, in memory.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Charge, Key, ManualClock, Mark, MemoryStore, PolicyQuota, Step, Timestamp};
use tollgate_testkit::kinds::{self, assert_notation, play, play_crowd, play_vectors, small_quota};
use tollgate_testkit::{CappedStore, ManualMemory, block_on};

#[test]
fn every_step_of_the_vectors_has_their_answer() {
    play_vectors(ManualMemory::new);
}

#[test]
fn notations_are_read_and_written_as_the_vectors_say() {
    assert_notation();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..Default::default() })]

    #[test]
    fn what_is_admitted_follows_from_the_definition_and_waits_are_exact(requests in kinds::requests(60)) {
        block_on(play(&ManualMemory::new(), &requests));
    }

    /// Also where several quotas go together, and where counters are dropped to make room for others.
    #[test]
    fn what_is_admitted_to_many_keys_follows_from_the_definitions(
        requests in kinds::crowd_requests(40, 300),
        max_counters in prop_oneof![Just(1_000_000_usize), 20..200_usize],
    ) {
        block_on(play_crowd(&ManualMemory::with_max_counters(max_counters), &requests));
    }

    /// A refund gives back no more than would be there if the charge had not been made.
    #[test]
    fn a_refund_gives_no_more_than_if_nothing_had_been_charged(
        quota in small_quota(),
        steps in prop::collection::vec((0..3_000_u64, 1..20_u32, any::<bool>()), 1..40),
    ) {
        let clock = ManualClock::at(Timestamp::from_unix_millis(1_700_000_040_000));
        let [charged, uncharged] = [(); 2].map(|()| MemoryStore::builder().clock(clock.clone()).build());
        let (quota, key) = (PolicyQuota::new("search", quota), Key::from("alice"));
        let charge = |cost| Charge::new(&quota, &key, cost);
        let mut refundable: Option<(u32, Mark)> = None;
        for (pause, cost, is_refunded) in steps {
            clock.advance(Duration::from_millis(pause));
            let state = charged.take(Step::Charge(&[charge(cost)])).unwrap()[0];
            if is_refunded && state.has_room() && refundable.is_none() {
                refundable = Some((cost, state.mark()));
            } else if state.has_room() {
                uncharged.take(Step::Record(charge(cost))).unwrap();
            }
        }
        if let Some((cost, mark)) = refundable {
            let refunded = charged.take(Step::Refund { charge: charge(cost), mark }).unwrap()[0];
            let without = uncharged.take(Step::Peek(&[charge(1)])).unwrap()[0];
            // The mark of a bucket is rounded up to a millisecond, in which more than one unit may come back.
            let rounding = match quota.quota().bucket() {
                Some(bucket) => bucket.parts().div_ceil(bucket.unit()),
                None => 0,
            };
            prop_assert!(
                refunded.used() + rounding >= without.used(),
                "{}: {refunded:?} {without:?}",
                quota.quota()
            );
        }
    }
}

/// The worst traffic for each kind, asked for at every millisecond: as many as the bound admits, and no more.
#[test]
fn the_bounds_are_reached_and_never_exceeded() {
    // The quota, the first millisecond, the length of a window, and how much that admits at most.
    for (written, first, window, bound) in [
        ("10/1m", 59_999, 60_000, 20),
        ("10/1m~sliding", 59_999, 60_000, 19),
        ("100/1m~burst", 0, 60_000, 199),
        ("100/1m~burst:20", 0, 60_000, 119),
        ("7/1s~burst:3", 0, 1_000, 9),
        ("3/1m~log", 0, 60_000, 3),
        ("9/1m~log:7s", 3_000, 60_000, 9),
    ] {
        let base = 1_700_000_040_000;
        let clock = ManualClock::at(Timestamp::from_unix_millis(base));
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let (quota, key) = (PolicyQuota::new("search", written.parse().unwrap()), Key::from("alice"));
        let mut admitted = Vec::new();
        for at in base + first..base + first + 180_000 {
            clock.set(Timestamp::from_unix_millis(at));
            let charge = Charge::new(&quota, &key, 1);
            while store.take(Step::Charge(&[charge])).unwrap().is_admitted() {
                admitted.push(at);
            }
        }
        let in_interval =
            |start: &i64| admitted.iter().filter(|at| (*start..start + window).contains(at)).count();
        assert_eq!(admitted.iter().map(in_interval).max(), Some(bound), "{written}");
        assert_eq!(quota.quota().most_in_any_window(), bound as u64, "{written}");
    }
}
