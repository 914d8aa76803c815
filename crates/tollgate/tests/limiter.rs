//! Quotas over a store, by their plain steps and by their `_async` ones.

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

use std::time::Duration;

use tollgate::{
    Charge, CountDenied, Decision, Key, Limiter, ManualClock, MemoryStore, PolicyQuota, Quota,
    QuotaErrorKind, Refunded, Source, SyncStore,
};
use tollgate_testkit::{FaultyStore, block_on};

fn limiter(quotas: &[Quota]) -> (Limiter<MemoryStore<ManualClock>>, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let builder =
        quotas.iter().cloned().fold(Limiter::builder("test"), |builder, quota| builder.quota(quota));
    (builder.build(store).unwrap(), clock)
}

#[test]
fn only_a_store_that_never_waits_answers_at_once() {
    for quotas in [&[Quota::per_minute(5)][..], &[Quota::per_minute(5), Quota::per_day(7)]] {
        let (now, _) = limiter(quotas);
        let (plain, _) = limiter(quotas);
        for cost in [3, 3, 2, 1, 0, 6] {
            assert_eq!(now.check_cost_now("alice", cost), Some(plain.check_cost("alice", cost)));
        }
    }
    let waits = Limiter::with_store(Quota::per_minute(5), FaultyStore::new(MemoryStore::new()));
    assert_eq!(waits.check_cost_now("alice", 5), None);
    assert!(block_on(waits.check_cost_async("alice", 5)).unwrap().is_allowed(), "nothing was charged");
}

#[test]
fn plain_and_async_steps_answer_alike() {
    let quotas = [Quota::per_minute(5), Quota::per_day(7)];
    let ((plain, clock), (any, any_clock)) = (limiter(&quotas), limiter(&quotas));
    for minute in 0..3 {
        for cost in [2, 3, 1, 0, 6] {
            let decision = plain.check_cost("alice", cost);
            assert_eq!(
                decision,
                block_on(any.check_cost_async("alice", cost)),
                "minute {minute}, cost {cost}"
            );
            let decision = decision.unwrap();
            let refunded = plain.refund("alice", 1, &decision);
            assert_eq!(refunded, block_on(any.refund_async("alice", 1, &decision)));
        }
        assert_eq!(plain.check("alice"), block_on(any.check_async("alice")));
        assert_eq!(plain.peek("alice"), block_on(any.peek_async("alice")));
        assert_eq!(plain.record("alice", 2), block_on(any.record_async("alice", 2)));
        assert_eq!(plain.set("bob", 4), block_on(any.set_async("bob", 4)));
        assert_eq!(plain.reset("bob"), block_on(any.reset_async("bob")));
        assert_eq!(plain.window_end("alice"), block_on(any.window_end_async("alice")));
        assert_eq!(plain.window_end("bob"), Ok(None));
        for clock in [&clock, &any_clock] {
            clock.advance(Duration::from_secs(60));
        }
    }
}

#[test]
fn a_refund_goes_to_the_windows_of_its_decision() {
    let (limiter, clock) = limiter(&[Quota::per_minute(5), Quota::per_day(7)]);
    let decision = limiter.check_cost("alice", 5).unwrap();
    clock.advance(Duration::from_secs(60));
    let refunded = limiter.refund("alice", 5, &decision).unwrap();
    assert_eq!(*refunded, [Refunded::Closed, Refunded::Open { given: 5, used: 0 }]);
}

/// Limit 1: what A took must not be given back by B's denial.
#[test]
fn a_refund_by_a_denial_gives_nothing_back() {
    let (limiter, _clock) = limiter(&[Quota::per_minute(1), Quota::per_day(7)]);
    let allowed = limiter.check("alice").unwrap();
    let denied = limiter.check("alice").unwrap();
    assert!(allowed.is_allowed() && !denied.is_allowed());
    let nothing = [Refunded::Open { given: 0, used: 1 }; 2];
    assert_eq!(*limiter.refund("alice", 1, &denied).unwrap(), nothing);
    assert_eq!(*block_on(limiter.refund_async("alice", 1, &denied)).unwrap(), nothing);
    let given = [Refunded::Open { given: 1, used: 0 }; 2];
    assert_eq!(*limiter.refund("alice", 1, &allowed).unwrap(), given);
}

#[test]
fn a_refund_by_a_counted_denial_gives_back_what_it_was_charged() {
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let limiter = Limiter::with_store(Quota::per_day(1), store);
    let counting = PolicyQuota::new("a", Quota::per_minute(2)).with_count_denied(CountDenied::Yes);
    let (wider, other) = (
        PolicyQuota::new("a", Quota::per_minute(9)),
        PolicyQuota::new("b", Quota::per_minute(9)).with_count_denied(CountDenied::Yes),
    );
    let key = Key::from("alice");
    // The first two are one counter: a denial of the one charges it for both.
    let charges = [&counting, &wider, &other].map(|quota| Charge::new(quota, &key, 1));
    assert!(limiter.check_all(&charges).unwrap().is_allowed());
    let denied = limiter.check_all(&charges).unwrap();
    assert_eq!(denied.quotas().iter().map(|quota| quota.used()).collect::<Vec<_>>(), [4, 4, 1]);
    let refunded = limiter.refund_all(&charges, &denied).unwrap();
    assert_eq!(refunded.iter().map(|quota| quota.given()).collect::<Vec<_>>(), [1, 1, 0]);

    // A cost above the limit is never charged.
    let never = [Charge::new(&counting, &key, 3)];
    let denied = limiter.check_all(&never).unwrap();
    assert_eq!(*limiter.refund_all(&never, &denied).unwrap(), [Refunded::Open { given: 0, used: 2 }]);
}

#[test]
fn a_refund_of_another_number_of_charges_gives_nothing_and_says_so() {
    let (limiter, _clock) = limiter(&[Quota::per_minute(5)]);
    let (a, b) = (PolicyQuota::new("a", Quota::per_minute(5)), PolicyQuota::new("b", Quota::per_minute(5)));
    let key = Key::from("alice");
    let charges = [Charge::new(&a, &key, 1), Charge::new(&b, &key, 1)];
    let decision = limiter.check_all(&charges).unwrap();
    assert!(limiter.check("alice").unwrap().is_allowed());
    assert!(limiter.refund("alice", 1, &decision).unwrap().is_empty());
    assert!(limiter.refund_all(&charges[..1], &decision).unwrap().is_empty());
    assert!(block_on(limiter.refund_all_async(&charges[..1], &decision)).unwrap().is_empty());
    assert_eq!(limiter.peek("alice").unwrap().used(), 1);
    let counted = SyncStore::peek(limiter.store(), &charges).unwrap();
    assert!(counted.iter().all(|quota| quota.used() == 1));
}

#[test]
fn only_what_the_store_decided_is_given_back() {
    let (limiter, _clock) = limiter(&[Quota::per_minute(5)]);
    let decision = limiter.check("alice").unwrap();
    let elsewhere = |quota: &tollgate::QuotaState| quota.with_source(Source::Fallback);
    let fallback = Decision::new(decision.quotas().iter().map(elsewhere).collect());
    assert_eq!((decision.source(), fallback.source()), (Source::Store, Source::Fallback));
    assert_eq!(*limiter.refund("alice", 1, &fallback).unwrap(), [Refunded::Open { given: 0, used: 1 }]);
}

/// Servers spawn them.
#[test]
fn async_steps_can_be_sent_to_other_threads() {
    fn sent<T: Send>(value: T) -> T {
        value
    }
    let (limiter, _clock) = limiter(&[Quota::per_minute(5)]);
    let decision = block_on(sent(limiter.check_async("alice"))).unwrap();
    assert_eq!(block_on(sent(limiter.record_async("alice", 2))).unwrap()[0].used(), 3);
    assert_eq!(block_on(sent(limiter.refund_async("alice", 1, &decision))).unwrap()[0].given(), 1);
    assert_eq!(block_on(sent(limiter.set_async("alice", 4))).unwrap()[0].used(), 4);
    assert_eq!(block_on(sent(limiter.reset_async("alice"))), Ok(()));
    assert_eq!(block_on(sent(limiter.peek_async("alice"))).unwrap().used(), 0);
}

#[test]
fn the_window_end_is_that_of_the_last_quota_with_anything_used() {
    let (limiter, clock) = limiter(&[Quota::per_minute(5), Quota::per_hour(7)]);
    assert_eq!(limiter.window_end("alice"), Ok(None));
    let decision = limiter.check("alice").unwrap();
    assert_eq!(limiter.window_end("alice"), Ok(Some(decision.quotas()[1].window().end())));
    clock.advance(Duration::from_secs(3600));
    assert_eq!(limiter.window_end("alice"), Ok(None));
}

#[test]
fn a_limiter_needs_a_quota_and_no_two_on_the_same_counters() {
    let build =
        |builder: tollgate::LimiterBuilder| builder.build(MemoryStore::new()).err().map(|error| error.kind());
    assert_eq!(build(Limiter::builder("none")), Some(QuotaErrorKind::NoQuota));
    let twice = Limiter::builder("twice").quota(Quota::per_minute(5)).quota("9/60s".parse().unwrap());
    let error = twice.build(MemoryStore::new()).unwrap_err();
    assert_eq!((error.kind(), error.range()), (QuotaErrorKind::SameWindow, None));
    assert_eq!(
        error.to_string(),
        "quotas `5/1m` and `9/1m`: two quotas of one policy have the same window, anchor and zone"
    );
    let apart =
        Limiter::builder("apart").quota(Quota::per_minute(5)).quota("9/60s@first_hit".parse().unwrap());
    assert_eq!(build(apart), None);
}

#[test]
fn a_limiter_counts_denials_if_it_is_told_to() {
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let builder = Limiter::builder("test").quota(Quota::per_minute(2)).count_denied(CountDenied::Yes);
    let limiter = builder.build(store).unwrap();
    let used: Vec<u64> = (0..4).map(|_| limiter.check("alice").unwrap().used()).collect();
    assert_eq!(used, [1, 2, 3, 4]);
}

/// A step that charged one counter and only looked at another whose window was over rolled the latter over with
/// nothing used. It then lived on, and a key that had room was told that the store was full.
#[test]
fn a_look_beside_a_charge_takes_no_room() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).max_keys(2).build();
    let (second, day) =
        (PolicyQuota::new("a", Quota::per_second(3)), PolicyQuota::new("a", Quota::per_day(3)));
    let (alice, bob) = (Key::from("alice"), Key::from("bob"));
    let charge = |cost| [Charge::new(&second, &alice, cost), Charge::new(&day, &alice, 1)];
    assert!(SyncStore::charge(&store, &charge(1)).unwrap().is_admitted());
    clock.advance(Duration::from_secs(1));
    assert!(SyncStore::charge(&store, &charge(0)).unwrap().is_admitted());
    assert!(SyncStore::charge(&store, &[Charge::new(&second, &bob, 1)]).unwrap().is_admitted());
}
