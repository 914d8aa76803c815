//! Counts are exact under any number of threads, and of stores on one server.

use tollgate_testkit::race;
use tollgate_testkit::servers::Software;

use crate::servers::{served, steered};
use tollgate_testkit::StoreUnderTest;

#[test]
fn exactly_the_limit_is_admitted_across_64_threads() {
    race::admits_exactly_the_limit(served(Software::Redis).store(), 64, 1_000, 10);
}

#[test]
fn crosswise_charges_use_up_the_narrower_limit() {
    race::crosswise_charges_use_up_the_narrower_limit(served(Software::Redis).store(), 16, 10);
}

#[test]
fn denied_pairs_take_no_room() {
    race::denied_pairs_take_no_room(served(Software::Redis).store(), 16, 20);
}

#[test]
fn refunds_never_let_more_than_the_limit_out() {
    race::refunds_never_let_more_than_the_limit_out(served(Software::Redis).store(), 16, 200);
}

#[test]
fn a_moving_clock_fills_no_window_twice() {
    race::a_moving_clock_fills_no_window_twice(&steered(Software::Redis), 8, 50);
}
