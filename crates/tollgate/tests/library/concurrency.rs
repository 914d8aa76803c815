//! Counts are exact under any number of threads.

use tollgate::MemoryStore;
use tollgate_testkit::{ManualMemory, race};

#[test]
fn sixty_four_threads_are_admitted_up_to_the_limit() {
    race::admits_exactly_the_limit(&MemoryStore::new(), 64, 1_000, 200);
}

#[test]
fn crosswise_charges_use_up_the_narrower_limit() {
    race::crosswise_charges_use_up_the_narrower_limit(&MemoryStore::new(), 16, 100);
}

#[test]
fn denied_pairs_take_no_room() {
    race::denied_pairs_take_no_room(&MemoryStore::new(), 16, 200);
}

#[test]
fn pairs_and_singles_are_counted_once() {
    race::pairs_and_singles_are_counted_once(&MemoryStore::new(), 1, 100_000);
}

#[test]
fn refunds_never_let_more_than_the_limit_out() {
    race::refunds_never_let_more_than_the_limit_out(&MemoryStore::new(), 16, 2_000);
}

#[test]
fn a_moving_clock_fills_no_window_twice() {
    race::a_moving_clock_fills_no_window_twice(&ManualMemory::new(), 8, 300);
}

#[test]
fn strangers_find_the_room_there_is() {
    race::strangers_find_the_room_there_is::<ManualMemory>(8, 200);
}
