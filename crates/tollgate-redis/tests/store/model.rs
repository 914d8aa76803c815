//! Any sequence of steps gives the answers of the reference model.

use proptest::prelude::*;
use tollgate_testkit::servers::Software;
use tollgate_testkit::{Model, Moves, SteeredClock, block_on, plan, replay};

use crate::servers::{clustered, served, steered};

/// A store counts as many keys as its server has room for.
const UNCAPPED: usize = usize::MAX;

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    #[test]
    fn answers_as_the_model_does(plan in plan(Moves::None, 60)) {
        block_on(replay(&served(Software::Redis), Model::new(UNCAPPED), &plan, |_, _| ()));
    }

    /// Also where a request lies in several slots, of which one denies, and where denials are counted.
    #[test]
    fn answers_as_the_model_does_across_slots(plan in plan(Moves::None, 60)) {
        block_on(replay(&clustered(Software::Redis), Model::new(UNCAPPED), &plan, |_, _| ()));
    }

    #[test]
    fn answers_as_the_model_does_when_the_clock_is_moved(plan in plan(Moves::Both, 60)) {
        let subject = steered(Software::Redis);
        block_on(replay(&subject, Model::new(UNCAPPED), &plan, |subject, time| subject.set_time(time)));
    }
}
