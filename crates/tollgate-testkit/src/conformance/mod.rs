//! The conformance suite: one test for each promise of the semantics about stores.
//!
//! A rule is an async function over a [`StoreUnderTest`] that panics if the promise is broken. Its doc line names the
//! rule (by number) or guarantee (by G) that it proves. [`conformance!`](crate::conformance!) turns each into a test of
//! its own.

pub mod admission;
pub mod blocks;
pub mod capped;
pub mod changes;
pub mod ends;
pub mod ends_of_holds;
pub mod holds;
pub mod identity;
pub mod kinds;
pub mod monotone;
pub mod several;
pub mod steered;
pub mod windows;

use std::time::Duration;

use tollgate::{Anchor, PolicyQuota, Quota};

use crate::{StoreUnderTest, block_on};

/// Defines tests of every rule that the store has to keep.
///
/// `every_store` takes an expression that makes a fresh [`StoreUnderTest`]; `in_process` one whose store is in this
/// process; `steered_clock` one that makes a [`SettableClock`](crate::SettableClock); `capped` a type that is
/// [`CappedStore`](crate::CappedStore). `windows_in_keys` and `windows_in_keys_steered` are for stores whose keys name
/// the window. They have the rules of `every_store` and `steered_clock` that hold there, with the
/// [anchors](crate::StoreUnderTest::anchors) of the subject; after a step back into an earlier window, they only demand
/// that no window admits more than its limit. `server_clock` has rules for stores that count by a server's clock: they
/// [remember closed windows](crate::StoreUnderTest::remembers_closed) for a second. `ends`, and `ends_of_holds` for stores
/// that have them, are about steps that come [before an end](tollgate::Step::ChargeBefore). `holds` and `holds_steered` are for
/// stores that have [holds with an id](tollgate::HoldStep); names with `_steered` move the clock.
///
/// ```
/// mod manual {
///     tollgate_testkit::conformance!(every_store: tollgate_testkit::ManualMemory::new());
/// }
/// ```
#[macro_export]
macro_rules! conformance {
    (every_store: $subject:expr) => {
        $crate::conformance! { windows_in_keys: $subject }
        $crate::conformance! { @each $subject =>
            blocks::a_block_begins_with_the_charge_that_exceeds_the_limit
            blocks::a_charge_of_nothing_begins_no_block
            blocks::a_charge_prolongs_no_block
            blocks::a_block_ends_to_the_millisecond
            blocks::a_shorter_length_ends_a_block_earlier
            blocks::a_block_touches_no_other_key
            blocks::steps_without_a_block_do_not_know_of_it
            blocks::a_reset_ends_a_block
            changes::a_reset_closes_a_first_hit_window
            changes::set_and_record_open_a_first_hit_window
            identity::policies_lengths_anchors_and_zones_have_their_own_counters
            identity::keys_that_look_alike_have_their_own_counters
            kinds::every_kind_admits_its_capacity_at_once
            kinds::a_cost_above_the_capacity_is_denied_for_good
            kinds::quotas_of_all_kinds_are_charged_all_or_none
            kinds::a_denial_of_any_kind_makes_no_wait_longer
            kinds::a_batch_of_any_kind_admits_exactly_the_capacity
            kinds::every_kind_admits_clients_that_wait_as_told
            kinds::a_refund_of_any_kind_frees_what_it_gives_back
            kinds::every_kind_is_recorded_set_and_reset
            kinds::a_new_limit_or_burst_applies_at_once
            windows::windows_lie_where_the_quota_says
            windows::staggered_windows_of_keys_end_apart
            windows::a_first_hit_window_is_never_extended
            windows::only_a_charge_opens_a_first_hit_window
            windows::the_next_hit_opens_the_next_window
            windows::the_shortest_window_is_one_millisecond
            windows::a_step_reads_the_clock_once
        }
    };
    (windows_in_keys: $subject:expr) => {
        $crate::conformance! { @each $subject =>
            admission::admits_the_last_unit_and_denies_the_next
            admission::admits_a_cost_that_fits_exactly
            admission::limit_zero_denies_everything
            admission::the_largest_costs_and_limits_are_exact
            admission::cost_zero_only_looks
            admission::a_peek_answers_as_the_charge_would
            admission::a_denied_request_consumes_nothing
            admission::a_counted_denial_charges_only_quotas_without_room
            admission::denials_are_counted_only_if_the_quota_says_so
            admission::a_cost_above_the_limit_is_never_charged
            admission::a_denied_look_is_not_counted
            admission::used_saturates_at_the_largest_limit
            admission::a_cost_above_the_limit_is_denied_for_good
            admission::an_overdraft_admits_until_the_limit_is_used
            admission::an_overdraft_admits_a_cost_above_its_limit
            admission::a_look_at_an_overdraft_is_denied_once_the_limit_is_used
            admission::an_overdraft_of_limit_zero_denies_everything
            admission::an_overdraft_is_charged_whichever_quota_denies
            admission::an_overdraft_is_charged_with_others_on_its_counter
            admission::an_overdraft_saturates_at_the_largest_count
            admission::an_overdraft_can_be_given_back
            changes::admits_clients_that_wait_as_told
            changes::a_refund_frees_what_it_gives_back
            changes::a_refund_gives_back_at_most_what_is_used
            changes::a_refund_of_a_large_count_is_exact
            changes::a_refund_names_its_window
            changes::a_refund_of_a_closed_window_gives_nothing
            changes::a_record_never_asks
            changes::a_set_may_pass_the_limit_and_free_it_again
            changes::set_and_record_saturate
            changes::a_counter_that_saturates_says_what_it_took
            changes::a_reset_forgets_one_counter
            identity::a_raised_limit_frees_the_difference
            identity::a_lowered_limit_leaves_nothing_and_never_less
            identity::a_new_limit_moves_no_window
            identity::the_order_of_quotas_does_not_matter
            identity::a_policy_never_runs_into_a_key
            monotone::remaining_never_rises_inside_a_window
            monotone::a_denial_stays_for_every_cost_as_large
            several::quotas_are_charged_all_or_none
            several::charges_of_a_step_have_costs_and_keys_of_their_own
            several::a_quota_that_is_only_looked_at_can_deny
            several::charges_on_one_counter_add_up
            several::charges_that_add_up_above_the_limit_are_denied_for_good
            several::the_longest_wait_decides_a_denial
            several::the_least_share_decides_an_admission
            several::a_step_without_charges_is_admitted
            several::requests_of_a_batch_are_independent
            several::a_batch_on_one_key_admits_exactly_the_limit
            several::steps_of_all_kinds_go_together
            windows::a_window_ends_just_before_its_end
            windows::a_closed_window_is_never_counted_again
            windows::time_does_not_go_back
        }
    };
    (in_process: $subject:expr) => {
        $crate::conformance! { @each $subject =>
            several::a_batch_is_taken_in_the_given_order
            several::steps_of_all_kinds_are_taken_in_the_given_order
        }
    };
    (steered_clock: $subject:expr) => {
        $crate::conformance! { windows_in_keys_steered: $subject }
        $crate::conformance! { @each $subject =>
            kinds::a_bucket_reaches_its_bound_and_never_exceeds_it
            kinds::a_sliding_window_reaches_its_bound_and_never_exceeds_it
            kinds::a_log_reaches_its_bound_and_never_exceeds_it
            kinds::a_step_back_of_any_kind_frees_nothing_and_locks_nobody_out
            kinds::a_smaller_burst_forgives_nothing
            kinds::a_new_limit_forgives_no_fraction
            kinds::the_largest_bucket_is_exact
            kinds::the_largest_bucket_saturates
            kinds::the_largest_sliding_window_is_exact
            kinds::the_largest_logs_are_exact
            steered::a_calendar_day_has_its_23_or_25_hours
            steered::a_step_back_never_reopens_a_window
            steered::a_step_back_locks_nobody_out_for_longer_than_a_window
            steered::a_peek_after_a_step_back_keeps_its_promise
            steered::a_step_back_of_a_second_reopens_nothing
            steered::a_longer_step_back_takes_the_counter_along
            steered::a_step_back_leaves_each_quota_its_own_window
            steered::a_step_back_over_midnight_reopens_no_date
        }
    };
    (server_clock: $subject:expr) => {
        $crate::conformance! { @each $subject =>
            steered::a_step_back_into_a_closed_window_finds_it_used_up
        }
    };
    (windows_in_keys_steered: $subject:expr) => {
        $crate::conformance! { @each $subject =>
            steered::a_step_happens_at_the_stores_time
            steered::a_window_closes_to_the_millisecond
            steered::a_step_back_inside_a_window_changes_nothing
            steered::a_step_forward_costs_only_the_skipped_windows
            steered::a_step_back_and_forth_admits_nothing_twice
        }
    };
    (holds: $subject:expr) => {
        $crate::conformance! { @each $subject =>
            holds::a_limit_in_flight_admits_its_units_and_no_more
            holds::a_hold_of_no_units_only_asks
            holds::more_units_than_can_ever_be_live_are_denied_for_good
            holds::quotas_decide_before_the_limit_in_flight
            holds::a_denial_in_flight_charges_what_a_denial_charges
            holds::a_hold_takes_all_parts_or_none
            holds::limits_in_flight_have_their_own_counters
            holds::a_repeated_reservation_gets_its_first_answer
            holds::a_changed_limit_leaves_the_first_answer
            holds::an_id_belongs_to_what_it_was_first_admitted_for
            holds::only_an_admitted_answer_is_remembered
            holds::a_hold_ends_after_its_length
            holds::expired_units_are_reported_once
            holds::a_denial_reports_expired_units
            holds::a_renewal_starts_the_length_again
            holds::the_shortest_length_counts
            holds::settling_gives_back_what_was_not_used
            holds::settling_charges_an_overrun
            holds::settling_charges_up_to_the_limit
            holds::settling_keeps_what_is_fixed
            holds::settling_twice_settles_once
            holds::an_unknown_id_changes_nothing
            holds::settling_late_leaves_closed_windows_alone
            holds::a_reset_loses_the_units_of_holds
            holds::a_lowered_limit_in_flight_ends_no_hold
            holds::a_look_takes_nothing
            holds::checks_and_holds_share_the_counters_of_quotas
            holds::a_reservation_needs_no_units_in_flight
        }
    };
    (ends: $subject:expr) => {
        $crate::conformance! { @each $subject =>
            ends::a_charge_before_its_end_is_an_ordinary_charge
            ends::a_charge_before_an_end_can_be_given_back
            ends::a_charge_at_its_end_changes_nothing
            ends::a_charge_at_its_end_opens_no_window
            ends::exactly_the_charges_before_the_end_are_counted
            ends::a_denial_is_counted_before_the_end_alone
            ends::several_charges_have_one_end
            ends::a_step_without_charges_has_no_end
            ends::each_step_of_a_batch_has_its_own_end
            ends::equal_charges_with_other_ends_are_other_steps
            ends::the_earliest_and_the_latest_end_are_exact
        }
    };
    (ends_steered: $subject:expr) => {
        $crate::conformance! { @each $subject =>
            ends::a_charge_is_counted_until_the_millisecond_before_its_end
            ends::an_end_at_the_end_of_a_window_is_exact
            ends::a_counter_is_the_same_before_and_after_an_end
        }
    };
    (ends_of_holds: $subject:expr) => {
        $crate::conformance! { @each $subject =>
            ends_of_holds::a_reservation_before_its_end_is_an_ordinary_one
            ends_of_holds::a_reservation_at_its_end_changes_nothing
            ends_of_holds::a_known_id_gets_the_same_answer_at_any_time
            ends_of_holds::only_a_reservation_heeds_its_end
            ends_of_holds::a_denial_in_flight_is_counted_before_the_end_alone
            ends_of_holds::a_reservation_of_quotas_alone_has_an_end
        }
    };
    (ends_of_holds_steered: $subject:expr) => {
        $crate::conformance! { @each $subject =>
            ends_of_holds::a_hold_is_taken_until_the_millisecond_before_its_end
        }
    };
    (holds_steered: $subject:expr) => {
        $crate::conformance! { @each $subject =>
            holds::a_repeated_reservation_renews_the_hold
            holds::a_hold_lives_to_the_millisecond
            holds::a_settled_id_is_remembered_for_a_while
            holds::a_step_back_leaves_no_hold_longer_than_its_length
            holds::a_step_forward_ends_holds
        }
    };
    (capped: $subject:ty) => {
        $crate::conformance! { @capped $subject =>
            a_full_store_refuses_only_unseen_keys
            a_denial_stands_without_room_for_an_overdraft
            a_store_is_full_between_95_percent_and_its_cap
            a_flood_of_keys_resets_no_counter
            a_step_that_finds_no_room_charges_nothing
            a_look_at_an_unseen_key_finds_the_store_full
            a_denial_needs_no_room
            closed_windows_make_room
            a_reset_makes_room
            a_batch_goes_on_past_a_request_without_room
        }
    };
    (@each $subject:expr => $($topic:ident :: $rule:ident)*) => {
        $(
            #[test]
            fn $rule() {
                let subject = $subject;
                $crate::conformance::prove(&subject, $crate::conformance::$topic::$rule(&subject));
            }
        )*
    };
    (@capped $subject:ty => $($rule:ident)*) => {
        $(
            #[test]
            fn $rule() {
                $crate::block_on($crate::conformance::capped::$rule::<$subject>());
            }
        )*
    };
}

/// Runs one rule, at a time when no hour is about to end: rules that wait for no window use long windows, and all of
/// these end with an hour.
pub fn prove(subject: &impl StoreUnderTest, rule: impl Future<Output = ()>) {
    block_on(async {
        let hour = Quota::per_hour(1).window_at(&"".into(), subject.now().await);
        if hour.end().since(subject.now().await) < Duration::from_secs(5) {
            subject.reach(hour.end()).await;
        }
        rule.await;
    });
}

/// Parses a quota, under the suite's policy.
fn quota(text: &str) -> PolicyQuota {
    PolicyQuota::new("conformance", text.parse().expect("a quota"))
}

/// Parses a quota, and gives it another anchor.
fn anchored(text: &str, anchor: Anchor) -> PolicyQuota {
    let quota = text.parse::<Quota>().and_then(|quota| quota.with_anchor(anchor));
    PolicyQuota::new("conformance", quota.expect("a quota"))
}

/// Returns a quota with this limit and the subject's short window.
fn short_quota(subject: &impl StoreUnderTest, limit: u64, anchor: Anchor) -> PolicyQuota {
    let quota = Quota::new(limit, subject.short_window()).and_then(|quota| quota.with_anchor(anchor));
    PolicyQuota::new("conformance", quota.expect("a quota"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_rule_that_is_written_is_run() {
        let run = include_str!("mod.rs");
        let topics = [
            include_str!("admission.rs"),
            include_str!("capped.rs"),
            include_str!("changes.rs"),
            include_str!("ends.rs"),
            include_str!("ends_of_holds.rs"),
            include_str!("holds.rs"),
            include_str!("identity.rs"),
            include_str!("kinds.rs"),
            include_str!("monotone.rs"),
            include_str!("several.rs"),
            include_str!("steered.rs"),
            include_str!("windows.rs"),
        ];
        for topic in topics {
            for line in topic.lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
                let rule = line.split('<').next().unwrap();
                let listed = |line: &str| line.trim().rsplit("::").next() == Some(rule);
                assert!(run.lines().any(listed), "`{rule}` is no test");
            }
        }
    }
}
