//! Quotas that are not fixed windows, on real servers.

mod denials;
mod stored;

use proptest::prelude::*;
use tollgate::{Charge, CountDenied, Counter, Key, PolicyQuota, QuotaState, Store};
use tollgate_testkit::StoreUnderTest;
use tollgate_testkit::block_on;
use tollgate_testkit::kinds::{self, play, play_crowd, play_vectors, take_side_by_side};
use tollgate_testkit::servers::Software;
use tollgate_testkit::{ManualMemory, StoreSteps};

use crate::servers::steered;

#[test]
fn every_step_of_the_vectors_has_their_answer() {
    for software in Software::ALL {
        play_vectors(|| steered(software));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_is_admitted_follows_from_the_definition_and_waits_are_exact(requests in kinds::requests(60)) {
        block_on(play(&steered(Software::Redis), &requests));
    }

    #[test]
    fn what_is_admitted_to_many_keys_follows_from_the_definitions(requests in kinds::crowd_requests(5, 100)) {
        block_on(play_crowd(&steered(Software::Valkey), &requests));
    }

    /// Memory is judged by its simulation.
    #[test]
    fn a_server_answers_as_memory_does(plan in kinds::mixed_steps(60)) {
        block_on(take_side_by_side(&ManualMemory::new(), &steered(Software::Redis), &plan));
    }
}

fn quota(text: &str) -> PolicyQuota {
    PolicyQuota::new("kinds", text.parse().unwrap())
}

/// What is used of each quota, and whether it had room.
fn stands<'a>(counted: impl IntoIterator<Item = &'a QuotaState>) -> Vec<(u64, bool)> {
    counted.into_iter().map(|state| (state.used(), state.has_room())).collect()
}

#[test]
fn quotas_of_all_kinds_are_charged_together_or_not_at_all() {
    for software in Software::ALL {
        let store = steered(software);
        let texts = ["9/1h", "1/1h~burst:8", "7/1h~sliding", "5/1h~log", "6/1h~log:1m", "9/day@UTC"];
        let (quotas, key) = (texts.map(quota), Key::from("alice"));
        let all = |cost| quotas.each_ref().map(|quota| Charge::new(quota, &key, cost));
        let charge = |cost| stands(&block_on(store.store().charge(&all(cost))).unwrap());
        assert_eq!(charge(3), [(3, true); 6], "{software:?}");
        let denied = [(3, true), (3, true), (3, true), (3, false), (3, true), (3, true)];
        assert_eq!(charge(3), denied, "{software:?}");
        assert_eq!(charge(2), [(5, true); 6], "{software:?}");
        let denied = [(5, true), (5, true), (5, true), (5, false), (5, true), (5, true)];
        assert_eq!(charge(1), denied, "{software:?}");
    }
}

/// The limit of the calendar's window is named by the caller, so this request is refused once and comes again.
#[test]
fn a_request_whose_window_has_closed_charges_its_other_kinds_once() {
    for software in Software::ALL {
        let store = steered(software);
        let (quotas, key) = (["9/1h~log", "9/day@UTC", "1/1h~burst:9"].map(quota), Key::from("alice"));
        let charges = quotas.each_ref().map(|quota| Charge::new(quota, &key, 1));
        let charge = || stands(&block_on(store.store().charge(&charges)).unwrap());
        assert_eq!(charge(), [(1, true); 3], "{software:?}");
        store.server().clock().step(86_400_000);
        assert_eq!(charge(), [(1, true); 3], "{software:?}");
        assert_eq!(charge(), [(2, true); 3], "{software:?}");
    }
}

/// A lower rate leaves more units than a counter can have, and twice the burst is more as well. A denial made them fewer,
/// and the client subtracted more than there was.
#[test]
fn a_bucket_has_no_more_units_than_a_limit_can_have() {
    fn play(store: &impl Store) {
        let (slow, fast) = (quota("1000/1s~burst:300000000000"), quota("1000000/1s~burst:1099511627775"));
        let (key, most) = (Key::from("alice"), 1_099_511_627_775);
        block_on(store.set(&Counter::new(&slow, &key), 300_000_000_000)).unwrap();
        for count_denied in [CountDenied::No, CountDenied::Yes, CountDenied::Overdraft] {
            let fast = fast.clone().with_count_denied(count_denied);
            let charge = Charge::new(&fast, &key, 1);
            let denied = block_on(store.charge(&[charge])).unwrap();
            assert_eq!(stands(&denied), [(most, false)], "{count_denied:?}");
            assert_eq!(block_on(store.record(&charge)).unwrap().used(), most, "{count_denied:?}");
            assert_eq!(block_on(store.peek(&[charge])).unwrap()[0].used(), most, "{count_denied:?}");
        }
    }
    play(steered(Software::Redis).store());
    play(ManualMemory::new().store());
}
