//! Any sequence of steps gives the answers of the reference model.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::PolicyQuota;
use tollgate_testkit::servers::Software;
use tollgate_testkit::{
    ClockMoves, Model, PlannedCharge, PlannedStep, SettableClock, StepPlan, block_on, plan, replay,
};

use crate::servers::{clustered, served, steered};

/// A store counts as many keys as its server has room for.
const UNCAPPED: usize = usize::MAX;

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    #[test]
    fn answers_as_the_model_does(plan in plan(ClockMoves::None, 60)) {
        block_on(replay(&served(Software::Redis), Model::new(UNCAPPED), &plan, |_, _| ()));
    }

    /// Also where a request lies in several slots, of which one denies, and where denials are counted.
    #[test]
    fn answers_as_the_model_does_across_slots(plan in plan(ClockMoves::None, 60)) {
        block_on(replay(&clustered(Software::Redis), Model::new(UNCAPPED), &plan, |_, _| ()));
    }

    #[test]
    fn answers_as_the_model_does_when_the_clock_is_moved(plan in plan(ClockMoves::Both, 60)) {
        let subject = steered(Software::Redis);
        block_on(replay(&subject, Model::new(UNCAPPED), &plan, |subject, time| subject.set_time(time)));
    }
}

/// It wrote nothing, so after a step back and forth of the clock the counter still had its first window.
#[test]
fn a_refund_that_comes_too_late_leaves_the_counter_in_the_window_that_holds() {
    const DAY: Duration = Duration::from_hours(24);
    let (ask, refund) = (
        PlannedCharge { quota: 0, key: 0, cost: 1 },
        PlannedStep::Refund(PlannedCharge { quota: 0, key: 0, cost: 1 }, 0),
    );
    let plan = StepPlan {
        quotas: vec![PolicyQuota::new("a", "3/1d".parse().unwrap())],
        keys: 1,
        ops: vec![
            PlannedStep::Charge(vec![ask]),
            PlannedStep::Back(3 * DAY),
            refund,
            PlannedStep::Forward(3 * DAY),
            PlannedStep::Charge(vec![ask]),
        ],
    };
    let subject = steered(Software::Redis);
    block_on(replay(&subject, Model::new(UNCAPPED), &plan, |subject, time| subject.set_time(time)));
}
