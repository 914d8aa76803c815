//! What a caller may conclude from an earlier answer: promise G9.

use tollgate::Timestamp;

use super::{anchored, quota};
use crate::{CounterUnderTest, StoreUnderTest};

/// Costs in random order, enough to use up a limit of 100.
const COSTS: [u32; 24] = [1, 7, 30, 0, 2, 41, 19, 3, 3, 12, 55, 1, 6, 101, 9, 4, 2, 0, 1, 8, 1, 2, 1, 1];

/// G9: inside a window `remaining` never rises and the reset instant never moves.
pub async fn remaining_never_rises_inside_a_window<S: StoreUnderTest>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = anchored("100/1h", anchor);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        let first = alice.counts(1).await.counts[0];
        let (mut used, end): (u64, Timestamp) = (first.used, first.window.end());
        for cost in COSTS {
            let counted = alice.counts(cost).await.counts[0];
            assert!(counted.used >= used, "{anchor:?}: {counted:?}");
            assert_eq!(counted.window.end(), end, "{anchor:?}");
            used = counted.used;
        }
    }
}

/// G9: a denial of a cost stays a denial for every cost at least as large.
pub async fn a_denial_stays_for_every_cost_as_large<S: StoreUnderTest>(subject: &S) {
    let quota = quota("100/1h");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let mut least_denied = u32::MAX;
    for cost in COSTS.into_iter().chain(COSTS) {
        let decision = alice.takes(cost).await;
        // Cost 0 gets the answer of cost 1.
        let asked = cost.max(1);
        assert!(
            !decision.is_allowed() || asked < least_denied,
            "cost {cost} after a denial of {least_denied}"
        );
        if !decision.is_allowed() {
            least_denied = least_denied.min(asked);
        }
    }
    assert_eq!(least_denied, 1);
}
