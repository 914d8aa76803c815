//! Any sequence of steps on the memory store gets the answers of the reference model.

use proptest::prelude::*;
use tollgate::MemoryStore;
use tollgate_testkit::{
    CappedStore, ClockMoves, ManualMemory, Model, SettableClock, SystemMemory, block_on, crowd, plan, replay,
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..Default::default() })]

    #[test]
    fn answers_as_the_model_does(plan in plan(ClockMoves::Both, 60)) {
        let subject = ManualMemory::new();
        let model = Model::new(subject_cap());
        block_on(replay(&subject, model, &plan, ManualMemory::set_time));
    }

    #[test]
    fn answers_as_the_model_does_when_room_is_scarce(plan in plan(ClockMoves::Both, 60), max_counters in 0..6_usize) {
        let subject = ManualMemory::with_max_counters(max_counters);
        block_on(replay(&subject, Model::new(max_counters), &plan, ManualMemory::set_time));
    }

    #[test]
    fn answers_as_the_model_does_when_time_only_goes_on(plan in plan(ClockMoves::None, 60)) {
        let subject = SystemMemory::new();
        block_on(replay(&subject, Model::new(subject_cap()), &plan, |_, _| ()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..Default::default() })]

    /// More counters than a new table has slots for, so that it grows.
    #[test]
    fn answers_as_the_model_does_in_a_crowd(plan in crowd(40, 400), max_counters in 0..200_usize) {
        let subject = ManualMemory::with_max_counters(max_counters);
        block_on(replay(&subject, Model::new(max_counters), &plan, ManualMemory::set_time));
    }
}

fn subject_cap() -> usize {
    MemoryStore::new().max_counters()
}
