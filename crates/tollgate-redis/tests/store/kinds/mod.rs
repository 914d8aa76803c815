//! Quotas that are not fixed windows, on real servers.

use proptest::prelude::*;
use tollgate_testkit::block_on;
use tollgate_testkit::kinds::{self, play, play_vectors};
use tollgate_testkit::servers::Software;

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
}
