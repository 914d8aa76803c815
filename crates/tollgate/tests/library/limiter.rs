//! Quotas over memory and over any store.

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tollgate::{
    Answer, AnswerError, AnyStore, Charge, CountDenied, Decision, FallbackStore, Key, Limiter, ManualClock,
    Mark, MemoryStore, OnStoreFailure, PolicyQuota, Quota, QuotaErrorKind, QuotaState, QuotaStates, Receipt,
    ReceiptItem, SharedLimiter, Source, Step, Store, StoreError, Timestamp,
};
use tollgate_testkit::{FaultyStore, StoreFault, Unreachable, block_on};

fn limiter(quotas: &[Quota]) -> (Limiter<ManualClock>, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let builder =
        quotas.iter().cloned().fold(Limiter::builder("test"), |builder, quota| builder.quota(quota));
    (builder.build(store).unwrap(), clock)
}

/// Returns the content of a decision, for comparison.
fn said(decision: &Decision<'_>) -> (usize, QuotaStates) {
    (decision.deciding(), decision.quotas().clone())
}

#[test]
fn memory_answers_at_once_and_other_stores_later() {
    let (quota, key) = (PolicyQuota::new("a", Quota::per_minute(5)), Key::from("alice"));
    let charges = [Charge::new(&quota, &key, 5)];
    let (memory, waiting) = (MemoryStore::new(), FaultyStore::new(MemoryStore::new()));
    let boxed = AnyStore::new(memory.clone());
    assert!(matches!(memory.step(Step::Charge(&charges)), Answer::Now(Ok(counted)) if counted.is_admitted()));
    assert!(matches!(boxed.step(Step::Charge(&charges)), Answer::Now(Ok(counted)) if !counted.is_admitted()));
    let Answer::Later(later) = waiting.step(Step::Charge(&charges)) else {
        panic!("it never answers at once")
    };
    drop(later);
    let counted = block_on(async { waiting.step(Step::Charge(&charges)).await });
    assert!(counted.unwrap().is_admitted(), "an answer that nobody waited for has charged nothing");
}

/// The same steps on every kind of store.
#[test]
fn limiters_in_memory_and_over_any_store_answer_alike() {
    async fn compare<S: Store>(
        plain: &Limiter<ManualClock>,
        any: &SharedLimiter<S>,
        clocks: [&ManualClock; 2],
    ) {
        for minute in 0..3 {
            for cost in [2, 3, 1, 0, 6] {
                let decision = plain.check_cost("alice", cost).unwrap();
                let other = any.check_cost("alice", cost).await.unwrap();
                assert_eq!(said(&decision), said(&other), "minute {minute}, cost {cost}");
                let (mut receipt, mut other) = (decision.into_receipt(), other.into_receipt());
                let refunded = plain.refund_units(&mut receipt, 1);
                assert_eq!(refunded, any.refund_units(&mut other, 1).await.unwrap());
                let left =
                    |receipt: &Receipt| receipt.items().iter().map(ReceiptItem::units).collect::<Vec<_>>();
                assert_eq!(left(&receipt), left(&other));
            }
            assert_eq!(said(&plain.check("alice").unwrap()), said(&any.check("alice").await.unwrap()));
            assert_eq!(said(&plain.peek("alice").unwrap()), said(&any.peek("alice").await.unwrap()));
            assert_eq!(plain.record("alice", 2).unwrap(), any.record("alice", 2).await.unwrap());
            assert_eq!(plain.set("bob", 4).unwrap(), any.set("bob", 4).await.unwrap());
            plain.reset("bob");
            any.reset("bob").await.unwrap();
            for cost in [1, 4, 3] {
                let [mut receipt, mut other] = [
                    plain.check_cost("carol", 3).unwrap().into_receipt(),
                    any.check_cost("carol", 3).await.unwrap().into_receipt(),
                ];
                let settled = plain.settle(&mut receipt, cost).unwrap();
                assert_eq!(settled, any.settle(&mut other, cost).await.unwrap(), "minute {minute}, {cost}");
                assert!(receipt.is_empty() && other.is_empty());
            }
            assert_eq!(plain.window_end("alice"), any.window_end("alice").await.unwrap());
            assert_eq!((plain.window_end("bob"), any.window_end("bob").await.unwrap()), (None, None));
            for clock in clocks {
                clock.advance(Duration::from_secs(60));
            }
        }
    }
    let quotas = [Quota::per_minute(5), Quota::per_day(7)];
    let shared = |quotas: &[Quota], store| {
        let builder = quotas.iter().cloned().fold(Limiter::builder("test"), |it, quota| it.quota(quota));
        builder.build_shared(store).unwrap()
    };
    let memory = || {
        let clock = ManualClock::default();
        (MemoryStore::builder().clock(clock.clone()).build(), clock)
    };
    block_on(async {
        let ((plain, clock), (store, other)) = (limiter(&quotas), memory());
        compare(&plain, &shared(&quotas, AnyStore::new(store)), [&clock, &other]).await;
        let ((plain, clock), (store, other)) = (limiter(&quotas), memory());
        compare(&plain, &shared(&quotas, AnyStore::new(FaultyStore::new(store))), [&clock, &other]).await;
        let ((plain, clock), (store, other)) = (limiter(&quotas), memory());
        let builder = quotas.iter().cloned().fold(Limiter::builder("test"), |it, quota| it.quota(quota));
        compare(&plain, &builder.build_shared(&Arc::new(store)).unwrap(), [&clock, &other]).await;
    });
}

#[test]
fn a_decision_names_the_policy_and_the_quota_that_decided() {
    let (limiter, _clock) = limiter(&[Quota::per_minute(5), Quota::per_day(3)]);
    let decision = limiter.check(("alice", "/search")).unwrap();
    assert_eq!((decision.policy(), decision.quota()), ("test", &Quota::per_day(3)));
    let kept = decision.into_owned();
    assert_eq!((kept.policy(), kept.quota(), kept.remaining()), ("test", &Quota::per_day(3), 2));

    let (a, b) = (PolicyQuota::new("a", Quota::per_minute(5)), PolicyQuota::new("b", Quota::per_minute(4)));
    let kept = {
        let (alice, bob) = (Key::from("alice".to_owned()), Key::from(7_u64));
        let charges = [Charge::new(&a, &alice, 1), Charge::new(&b, &bob, 1)];
        let decision = limiter.check_all(&charges).unwrap();
        assert_eq!((decision.policy(), decision.quota()), ("b", b.quota()));
        decision.into_owned()
    };
    assert_eq!((kept.policy(), kept.quota()), ("b", b.quota()));
    let mut receipt = kept.into_receipt();
    let keys: Vec<_> = receipt.items().iter().map(|item| item.key().clone()).collect();
    assert_eq!(keys, [Key::from("alice"), Key::from(7_u64)]);
    assert_eq!(limiter.refund(&mut receipt).iter().map(QuotaState::units).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(limiter.under(&b).check(7_u64).unwrap().used(), 1);
}

#[test]
fn a_refund_goes_to_the_windows_of_its_decision() {
    let (limiter, clock) = limiter(&[Quota::per_minute(5), Quota::per_day(7)]);
    let mut receipt = limiter.check_cost("alice", 5).unwrap().into_receipt();
    clock.advance(Duration::from_secs(60));
    // Others have used units in the next minute, which stay.
    assert!(limiter.check_cost("alice", 2).unwrap().is_allowed());
    let refunded = limiter.refund(&mut receipt);
    let refunded: Vec<_> = refunded.iter().map(|state| (state.units(), state.used())).collect();
    assert_eq!(refunded, [(0, 2), (5, 2)]);
}

/// Limit 1: the denial of B must not give back what A took.
#[test]
fn a_denial_and_a_look_have_nothing_to_give_back() {
    let (limiter, _clock) = limiter(&[Quota::per_minute(1), Quota::per_day(7)]);
    let looked = limiter.check_cost("alice", 0).unwrap().into_receipt();
    let allowed = limiter.check("alice").unwrap();
    let denied = limiter.check("alice").unwrap();
    assert!(allowed.is_allowed() && !denied.is_allowed());
    let nothing = [looked, denied.into_receipt(), limiter.peek("alice").unwrap().into_receipt()];
    for mut receipt in nothing {
        assert!(receipt.is_empty());
        assert!(limiter.refund(&mut receipt).is_empty());
    }
    let given = limiter.refund(&mut allowed.into_receipt());
    assert_eq!(given.iter().map(|state| (state.units(), state.used())).collect::<Vec<_>>(), [(1, 0); 2]);
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
    // The first two share a counter: a denial by one charges it for both.
    let charges = [&counting, &wider, &other].map(|quota| Charge::new(quota, &key, 1));
    assert!(limiter.check_all(&charges).unwrap().is_allowed());
    let denied = limiter.check_all(&charges).unwrap();
    assert_eq!(denied.quotas().iter().map(|quota| quota.used()).collect::<Vec<_>>(), [4, 4, 1]);
    assert_eq!(denied.quotas().iter().map(|quota| quota.units()).collect::<Vec<_>>(), [1, 1, 0]);
    let refunded = limiter.refund(&mut denied.into_receipt());
    let refunded: Vec<_> = refunded.iter().map(|state| (state.units(), state.used())).collect();
    assert_eq!(refunded, [(1, 3), (1, 2)]);

    // A cost above the limit is never charged.
    let never = [Charge::new(&counting, &key, 3)];
    assert!(limiter.check_all(&never).unwrap().into_receipt().is_empty());
}

/// A receipt names its counters, so it does not touch those of other limiters.
#[test]
fn a_receipt_gives_back_to_its_own_counters_only() {
    let (limiter, _clock) = limiter(&[Quota::per_minute(5)]);
    let (a, b) = (PolicyQuota::new("a", Quota::per_minute(5)), PolicyQuota::new("b", Quota::per_minute(5)));
    let key = Key::from("alice");
    let charges = [Charge::new(&a, &key, 1), Charge::new(&b, &key, 1)];
    let mut receipt = limiter.check_all(&charges).unwrap().into_receipt();
    assert!(limiter.check("alice").unwrap().is_allowed());
    assert_eq!(limiter.refund(&mut receipt).iter().map(QuotaState::units).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(limiter.peek("alice").unwrap().used(), 1);
    let counted = limiter.store().take(Step::Peek(&charges)).unwrap();
    assert!(counted.iter().all(|quota| quota.used() == 0));
}

#[test]
fn part_of_a_receipt_is_given_back_and_never_more_than_it_says() {
    let (limiter, _clock) = limiter(&[Quota::per_minute(9)]);
    assert!(limiter.check_cost("alice", 3).unwrap().is_allowed());
    for (cost, units, used) in [(4, 3, 4), (4, 0, 8), (1, 9, 8)] {
        let mut receipt = limiter.check_cost("alice", cost).unwrap().into_receipt();
        assert_eq!(limiter.refund_units(&mut receipt, units)[0].used(), used, "{units} of {cost}");
    }
}

/// A refund of a part used up the receipt, and the rest could never be given back.
#[test]
fn a_partial_refund_leaves_the_rest_in_the_receipt() {
    let (limiter, _clock) = limiter(&[Quota::per_minute(9), Quota::per_day(20)]);
    let used = || limiter.peek("alice").unwrap().quotas()[0].used();
    let units = |receipt: &Receipt| receipt.items().iter().map(ReceiptItem::units).collect::<Vec<_>>();
    let mut receipt = limiter.check_cost("alice", 5).unwrap().into_receipt();
    limiter.refund_units(&mut receipt, 1);
    assert_eq!((used(), units(&receipt)), (4, vec![4, 4]));
    limiter.refund_units(&mut receipt, 0);
    limiter.refund_units(&mut receipt, 1);
    assert_eq!((used(), units(&receipt)), (3, vec![3, 3]));
    limiter.settle(&mut receipt, 2).unwrap();
    assert_eq!((used(), receipt.items().len()), (2, 0));

    let mut receipt = limiter.check_cost("bob", 5).unwrap().into_receipt();
    limiter.refund_units(&mut receipt, 2);
    limiter.settle(&mut receipt, 4).unwrap();
    assert_eq!(limiter.peek("bob").unwrap().quotas()[0].used(), 4, "the missing unit is charged");
}

/// During an outage, B was admitted uncounted. A refund of some units lost B's item, and so did one of all units of an
/// item: work that cost more afterwards was charged on the other quota only.
#[test]
fn a_partial_refund_loses_no_item_that_can_still_be_settled() {
    let (limiter, _clock) = limiter(&[Quota::per_minute(99)]);
    let quota = |policy| PolicyQuota::new(policy, Quota::per_minute(99));
    let used = |policy| limiter.under(&quota(policy)).peek("alice").unwrap().used();
    let charge = |policy, units| {
        let quota = quota(policy);
        let decision = limiter.under(&quota).check_cost("alice", units).unwrap();
        ReceiptItem::new(quota.clone(), Key::from("alice"), units, decision.quotas()[0].mark())
    };
    let uncounted = ReceiptItem::new(quota("b"), Key::from("alice"), 0, Mark::at(Timestamp::EPOCH));
    let mut receipt: Receipt =
        [charge("a", 5), uncounted.with_cost(5), charge("c", 3), charge("fixed", 2).fixed()]
            .into_iter()
            .collect();
    let given = limiter.refund_units(&mut receipt, 3);
    assert_eq!(given.iter().map(QuotaState::units).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(
        receipt.items().iter().map(ReceiptItem::cost).collect::<Vec<_>>(),
        [Some(2), Some(5), Some(0), None]
    );

    limiter.settle(&mut receipt, 9).unwrap();
    assert_eq!([used("a"), used("b"), used("c"), used("fixed")], [9, 4, 9, 2]);
}

/// A check is settled at 7, then at 3, then at 9, as the work becomes known: each time, only the difference is moved,
/// also after the window that was charged first.
#[test]
fn an_adjusted_receipt_can_be_adjusted_again_and_given_back() {
    let (memory, clock) = limiter(&[Quota::per_minute(99)]);
    let limiter = SharedLimiter::from(memory.clone());
    let used = || memory.peek("alice").unwrap().used();
    block_on(async {
        let mut receipt = limiter.check_cost("alice", 5).await.unwrap().into_receipt();
        for cost in [7, 7, 3, 9, 0, 4] {
            receipt.adjust(limiter.store(), cost).await.unwrap();
            assert_eq!((used(), receipt.items()[0].cost()), (u64::from(cost), Some(cost)));
        }
        clock.advance(Duration::from_secs(60));
        // 4 of the cost were charged to the minute before, where nothing can be given back any more.
        for (cost, expected) in [(10, 6), (7, 3), (2, 0), (10, 6)] {
            receipt.adjust(limiter.store(), cost).await.unwrap();
            assert_eq!(used(), expected, "{cost}");
        }
        assert_eq!(limiter.refund(&mut receipt).await.unwrap()[0].units(), 6);
        assert_eq!((used(), receipt.items().len()), (0, 0));
    });
}

/// The receipt kept the larger charge, although it had come back by itself: then nothing was given back.
#[test]
fn a_receipt_that_was_adjusted_upwards_gives_back_the_charge_of_which_more_is_left() {
    // Ten units are charged, and five more after some seconds. The last two are what is given back, and what stays.
    for (quota, seconds, given, stays) in [
        // A unit comes back each second.
        ("60/1m~burst", 4, 6, 5),
        ("60/1m~burst", 7, 5, 3),
        ("60/1m~burst", 20, 5, 0),
        // In the same window, one mark names both.
        ("60/1m~sliding", 30, 15, 0),
        ("60/1m~sliding", 60, 10, 5),
        ("60/1m~sliding", 120, 5, 0),
        ("60/1m~log", 59, 10, 5),
        ("60/1m~log", 60, 5, 0),
        ("60/1m~log:2s", 61, 10, 5),
        ("60/1m~log:2s", 62, 5, 0),
    ] {
        // A minute of the clock begins, and so does a step of two seconds.
        let clock = ManualClock::at(Timestamp::from_unix_millis(1_700_000_040_000));
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let memory = Limiter::builder("test").quota(quota.parse::<Quota>().unwrap()).build(store).unwrap();
        let limiter = SharedLimiter::from(memory.clone());
        block_on(async {
            let mut receipt = limiter.check_cost("alice", 10).await.unwrap().into_receipt();
            clock.advance(Duration::from_secs(seconds));
            receipt.adjust(limiter.store(), 15).await.unwrap();
            assert_eq!(receipt.items()[0].cost(), Some(15));
            let refund = limiter.refund(&mut receipt).await.unwrap();
            let used = memory.peek("alice").unwrap().used();
            assert_eq!((refund[0].units(), used), (given, stays), "{quota} after {seconds} s");
        });
    }
}

#[test]
fn a_part_that_was_provably_not_given_back_stays_with_the_rest() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = Limiter::builder("test").quota(Quota::per_minute(9)).build_shared(store.clone()).unwrap();
    block_on(async {
        let mut receipt = limiter.check_cost("alice", 5).await.unwrap().into_receipt();
        store.begin(StoreFault::unreachable());
        assert!(limiter.refund_units(&mut receipt, 2).await.is_err());
        assert_eq!(
            receipt.items().iter().map(|item| (item.units(), item.cost())).collect::<Vec<_>>(),
            [(5, Some(5))]
        );
        store.end();
        assert_eq!(limiter.refund(&mut receipt).await.unwrap()[0].units(), 5);
        assert!(receipt.items().is_empty());
    });
}

#[test]
fn a_reservation_gives_back_what_was_not_needed() {
    let (limiter, _clock) = limiter(&[Quota::per_minute(9), Quota::per_day(20)]);
    let reserve = |cost| limiter.reserve(limiter.check_cost("alice", cost).unwrap().into_receipt());
    let used = || limiter.peek("alice").unwrap().quotas().iter().map(QuotaState::used).collect::<Vec<_>>();
    reserve(5).commit(2).unwrap();
    assert_eq!(used(), [2, 2]);
    // The missing units are taken without asking for room.
    reserve(5).commit(9).unwrap();
    assert_eq!(used(), [11, 11]);
    // A denial reserves nothing, so there is nothing to settle.
    reserve(5).commit(9).unwrap();
    assert_eq!(used(), [11, 11]);
    limiter.reset("alice");
    drop(reserve(5));
    assert_eq!(used(), [0, 0]);
    let mut kept = reserve(5).keep();
    assert_eq!(used(), [5, 5]);
    assert_eq!(limiter.refund(&mut kept)[0].units(), 5);
}

/// A refund used up its receipt. If the store failed, the units could never be given back.
#[test]
fn a_refund_that_provably_failed_can_be_repeated() {
    let store = FaultyStore::new(MemoryStore::new());
    let builder = Limiter::builder("test").quota(Quota::per_minute(9)).quota(Quota::per_day(9));
    let limiter = builder.build_shared(store.clone()).unwrap();
    let used = async || {
        limiter.peek("alice").await.unwrap().quotas().iter().map(QuotaState::used).collect::<Vec<_>>()
    };
    block_on(async {
        let mut receipt = limiter.check_cost("alice", 5).await.unwrap().into_receipt();
        store.begin(StoreFault::unreachable());
        let error = limiter.refund(&mut receipt).await.unwrap_err();
        assert_eq!((error.may_have_charged(), receipt.items().len()), (false, 2));
        // The first quota is refunded, and the second is not.
        store.end();
        store.begin_after(1, StoreFault::unreachable());
        let error = limiter.refund(&mut receipt).await.unwrap_err();
        assert_eq!((error.may_have_charged(), receipt.items().len()), (true, 1));
        store.end();
        assert_eq!(used().await, [0, 5]);
        assert_eq!(limiter.refund(&mut receipt).await.unwrap().len(), 1);
        assert_eq!((used().await, receipt.is_empty()), (vec![0, 0], true));

        // The same for settling.
        let mut receipt = limiter.check_cost("alice", 5).await.unwrap().into_receipt();
        store.begin_after(1, StoreFault::unreachable());
        assert!(limiter.settle(&mut receipt, 7).await.unwrap_err().may_have_charged());
        store.end();
        assert_eq!(used().await, [7, 5]);
        limiter.settle(&mut receipt, 7).await.unwrap();
        assert_eq!(used().await, [7, 7]);
    });
}

/// The units may have been given back already; a second try would give back the units of others.
#[test]
fn a_refund_that_may_have_happened_is_not_repeated() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = SharedLimiter::new(Quota::per_minute(9), store.clone());
    block_on(async {
        let mut receipt = limiter.check_cost("alice", 5).await.unwrap().into_receipt();
        assert!(limiter.check_cost("alice", 2).await.unwrap().is_allowed());
        store.begin(StoreFault::LosesAnswers);
        assert!(limiter.refund(&mut receipt).await.unwrap_err().may_have_charged());
        store.end();
        assert!(receipt.is_empty());
        assert_eq!(limiter.peek("alice").await.unwrap().used(), 2);

        // The caller goes away while the call is in flight.
        let mut receipt = limiter.check_cost("alice", 5).await.unwrap().into_receipt();
        store.begin(StoreFault::HoldsAnswers);
        {
            let mut refund = std::pin::pin!(limiter.refund(&mut receipt));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(refund.as_mut().poll(&mut context).is_pending());
        }
        store.end();
        assert!(receipt.is_empty());
    });
}

/// If the memory was full halfway, the rest of a reservation could not be settled any more.
#[test]
fn units_without_room_to_be_settled_stay_in_the_receipt() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).max_counters(2).build();
    let builder = Limiter::builder("test").quota(Quota::per_day(9)).quota(Quota::per_minute(9));
    let limiter = builder.build(store).unwrap();
    let mut receipt = limiter.check_cost("alice", 2).unwrap().into_receipt();
    clock.advance(Duration::from_secs(60));
    let bob = Limiter::with_store(Quota::per_hour(9), limiter.store().clone());
    assert!(bob.check("bob").unwrap().is_allowed());
    assert!(limiter.settle(&mut receipt, 5).is_err());
    assert_eq!(receipt.items().len(), 1);
    bob.reset("bob");
    assert_eq!(limiter.settle(&mut receipt, 5).unwrap()[0].used(), 3);
}

/// After an error, the remaining quotas were not changed, and the error did not name its quota.
#[test]
fn an_error_names_its_quota_and_all_others_are_settled() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).max_counters(2).build();
    let builder = Limiter::builder("test").quota(Quota::per_minute(9)).quota(Quota::per_day(9));
    let limiter = builder.build(store).unwrap();
    let shared = SharedLimiter::from(limiter.clone());
    let mut receipt = limiter.check_cost("alice", 2).unwrap().into_receipt();
    clock.advance(Duration::from_secs(60));
    let bob = Limiter::with_store(Quota::per_hour(9), limiter.store().clone());
    assert!(bob.check("bob").unwrap().is_allowed());

    let error = block_on(shared.settle(&mut receipt, 5)).unwrap_err();
    assert_eq!(error.quota(), &limiter.quotas()[0]);
    assert_eq!(
        error.to_string(),
        "policy `test`, quota 9/1m: the store may or may not have counted this request"
    );
    assert!(error.may_have_charged());
    assert!(matches!(error.cause().trouble_of(), Some(StoreError::Full)), "and this is why");
    assert_eq!(receipt.items().len(), 1);
    bob.reset("bob");
    let used = limiter.peek("alice").unwrap().quotas().iter().map(QuotaState::used).collect::<Vec<_>>();
    assert_eq!(used, [0, 5]);
    assert_eq!(block_on(shared.settle(&mut receipt, 5)).unwrap()[0].used(), 3);
}

/// A reset or a set that failed at the second quota claimed that nothing was changed, and so did a record.
#[test]
fn an_error_after_a_change_says_so() {
    let store = FaultyStore::new(MemoryStore::new());
    let builder = Limiter::builder("test").quota(Quota::per_minute(9)).quota(Quota::per_day(9));
    let limiter = builder.build_shared(store.clone()).unwrap();
    block_on(async {
        for (spared, may_have) in [(0, false), (1, true)] {
            let away = || store.begin_after(spared, StoreFault::unreachable());
            away();
            let errors = [
                limiter.reset("alice").await.unwrap_err(),
                {
                    away();
                    limiter.set("alice", 3).await.unwrap_err()
                },
                {
                    away();
                    limiter.record("alice", 3).await.unwrap_err()
                },
            ];
            for error in errors {
                assert_eq!(error.may_have_charged(), may_have, "{error:?}");
                assert!(error.trouble_of::<Unreachable>().is_some());
            }
        }
    });
}

#[test]
fn only_what_the_store_decided_is_given_back() {
    let (limiter, _clock) = limiter(&[Quota::per_minute(5)]);
    let decision = limiter.check("alice").unwrap();
    let elsewhere = |quota: &QuotaState| quota.with_source(Source::Fallback);
    let counted = decision.quotas().iter().map(elsewhere).collect();
    let fallback = Decision::new(limiter.quotas(), "alice".into(), counted).unwrap();
    assert_eq!((decision.source(), fallback.source()), (Source::Store, Source::Fallback));
    assert!(fallback.into_receipt().is_empty());
}

/// An answer of a store with too few or too many quotas, or with none.
#[test]
fn a_decision_needs_a_state_for_each_quota() {
    let (limiter, _clock) = limiter(&[Quota::per_minute(5)]);
    let state = limiter.check("alice").unwrap().quotas()[0];
    for states in [vec![], vec![state; 2]] {
        assert!(Decision::new(limiter.quotas(), "alice".into(), states.into_iter().collect()).is_none());
    }
    assert!(Decision::of_charges(&[], std::iter::empty().collect()).is_none());
    let store = FaultyStore::new(MemoryStore::new());
    store.begin(StoreFault::ForgetsQuotas);
    let error = block_on(SharedLimiter::new(Quota::per_day(1), store).check("alice")).map(drop).unwrap_err();
    assert_eq!(error.trouble_of(), Some(&AnswerError::Nonsense));
}

/// In memory this was a panic, and over any other store an error about the store's limits.
#[test]
fn a_check_without_charges_is_a_mistake_of_the_caller() {
    let in_memory = Limiter::new(Quota::per_day(1));
    let shared = SharedLimiter::new(Quota::per_day(1), FaultyStore::new(MemoryStore::new()));
    assert!(std::panic::catch_unwind(|| in_memory.check_all(&[]).map(drop)).is_err());
    assert!(std::panic::catch_unwind(|| drop(shared.check_all(&[]))).is_err());
}

/// Servers spawn these futures.
#[test]
fn steps_over_any_store_can_be_sent_to_other_threads() {
    fn sent<T: Send>(value: T) -> T {
        value
    }
    let limiter = SharedLimiter::new(Quota::per_minute(5), FaultyStore::new(MemoryStore::new()));
    let mut receipt = block_on(sent(limiter.check("alice"))).unwrap().into_receipt();
    assert_eq!(block_on(sent(limiter.record("alice", 2))).unwrap()[0].used(), 3);
    assert_eq!(block_on(sent(limiter.refund(&mut receipt))).unwrap()[0].units(), 1);
    assert_eq!(block_on(sent(limiter.set("alice", 4))).unwrap()[0].used(), 4);
    block_on(sent(limiter.reset("alice"))).unwrap();
    assert_eq!(block_on(sent(limiter.peek("alice"))).unwrap().used(), 0);
}

#[test]
fn the_window_end_is_that_of_the_last_quota_with_anything_used() {
    let (limiter, clock) = limiter(&[Quota::per_minute(5), Quota::per_hour(7)]);
    assert_eq!(limiter.window_end("alice"), None);
    let decision = limiter.check("alice").unwrap();
    assert_eq!(limiter.window_end("alice"), Some(decision.quotas()[1].reset_at()));
    clock.advance(Duration::from_secs(3600));
    assert_eq!(limiter.window_end("alice"), None);
}

/// A full store refused to answer that an unknown key has used nothing.
#[test]
fn a_full_store_knows_when_windows_end() {
    let store = MemoryStore::builder().clock(ManualClock::default()).max_counters(2).build();
    let hour = Limiter::with_store(Quota::per_hour(7), store.clone());
    let end = hour.check("alice").unwrap().state().reset_at();
    assert!(hour.check("bob").unwrap().is_allowed());
    // The quota per minute has no counter.
    let builder = || Limiter::builder("default").quota(Quota::per_minute(5)).quota(Quota::per_hour(7));
    let (both, shared) = (builder().build(store.clone()).unwrap(), builder().build_shared(store).unwrap());
    for (key, end) in [("alice", Some(end)), ("carol", None)] {
        assert_eq!(both.window_end(key), end);
        assert_eq!(block_on(shared.window_end(key)).unwrap(), end);
    }
    let away = FaultyStore::new(MemoryStore::new());
    away.begin(StoreFault::unreachable());
    assert!(block_on(builder().build_shared(away).unwrap().window_end("alice")).is_err());
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
        "quotas `5/1m` and `9/1m`: two quotas of one policy have the same window, kind, anchor and zone"
    );
    let apart =
        Limiter::builder("apart").quota(Quota::per_minute(5)).quota("9/60s@first_hit".parse().unwrap());
    assert_eq!(build(apart), None);
}

/// For code that holds any limiter, sometimes in memory and sometimes over another store.
#[test]
fn a_limiter_over_any_store_goes_on_with_the_same_counters() {
    let (memory, _) = limiter(&[Quota::per_minute(3), Quota::per_day(2)]);
    assert!(memory.check("alice").unwrap().is_allowed());
    let any: SharedLimiter<AnyStore> = SharedLimiter::from(memory.clone()).into_any();
    assert!(Arc::ptr_eq(any.quotas(), memory.quotas()));
    assert_eq!(block_on(any.check("alice")).unwrap().quotas()[1].remaining(), 0);
    assert!(!memory.check("alice").unwrap().is_allowed());
}

#[test]
fn a_limiter_counts_denials_if_it_is_told_to() {
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let builder = Limiter::builder("test").quota(Quota::per_minute(2)).count_denied(CountDenied::Yes);
    let limiter = builder.build(store).unwrap();
    let used: Vec<u64> = (0..4).map(|_| limiter.check("alice").unwrap().used()).collect();
    assert_eq!(used, [1, 2, 3, 4]);
}

/// A step charged one counter and peeked at another whose window was over. The peek replaced the closed counter by an
/// empty one, which took room, and a key that should have had room was told that the store was full.
#[test]
fn a_look_next_to_a_charge_takes_no_room() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).max_counters(2).build();
    let (second, day) =
        (PolicyQuota::new("a", Quota::per_second(3)), PolicyQuota::new("a", Quota::per_day(3)));
    let (alice, bob) = (Key::from("alice"), Key::from("bob"));
    let charge = |cost| [Charge::new(&second, &alice, cost), Charge::new(&day, &alice, 1)];
    assert!(store.take(Step::Charge(&charge(1))).unwrap().is_admitted());
    clock.advance(Duration::from_secs(1));
    assert!(store.take(Step::Charge(&charge(0))).unwrap().is_admitted());
    assert!(store.take(Step::Charge(&[Charge::new(&second, &bob, 1)])).unwrap().is_admitted());
}

/// Each quota of a receipt or a change had its own deadline. So a call over eight quotas of a hanging store took eight
/// times as long as allowed (G6).
#[test]
fn a_call_over_several_quotas_has_one_deadline() {
    let hanging = FaultyStore::new(MemoryStore::new());
    let deadlines = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&deadlines);
    let store = FallbackStore::new(hanging.clone(), OnStoreFailure::Closed).deadline(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::ready(())
    });
    let quotas = Limiter::builder("test").quota(Quota::per_minute(9)).quota(Quota::per_hour(9));
    let limiter = quotas.quota(Quota::per_day(9)).build_shared(store).unwrap();
    let made = || deadlines.swap(0, Ordering::Relaxed);
    let late = Some(&AnswerError::Late);
    block_on(async {
        let mut refunded = limiter.check_cost("alice", 5).await.unwrap().into_receipt();
        let mut settled = limiter.check_cost("bob", 5).await.unwrap().into_receipt();
        hanging.begin(StoreFault::Hangs);
        assert_eq!(made(), 0);
        assert_eq!(limiter.refund(&mut refunded).await.unwrap_err().cause().trouble_of(), late);
        assert_eq!(made(), 1, "a refund");
        assert_eq!(limiter.settle(&mut settled, 3).await.unwrap_err().cause().trouble_of(), late);
        assert_eq!(made(), 1, "settling");
        assert_eq!(limiter.reset("alice").await.unwrap_err().trouble_of(), late);
        assert_eq!(made(), 1, "a reset");
        assert_eq!(limiter.set("alice", 3).await.unwrap_err().trouble_of(), late);
        assert_eq!(made(), 1, "a set");
        assert_eq!(limiter.record("alice", 3).await.unwrap_err().trouble_of(), late);
        assert_eq!(made(), 1, "a record");
    });
}

/// A caller that gave back a part must not give that part back again.
#[test]
fn an_error_about_a_receipt_names_what_changed_all_the_same() {
    let store = FaultyStore::new(MemoryStore::new());
    let builder = Limiter::builder("test").quota(Quota::per_minute(9)).quota(Quota::per_day(9));
    let limiter = builder.build_shared(store.clone()).unwrap();
    block_on(async {
        let mut receipt = limiter.check_cost("alice", 5).await.unwrap().into_receipt();
        store.begin(StoreFault::unreachable());
        assert!(limiter.refund(&mut receipt).await.unwrap_err().changed().is_empty());
        store.begin_after(1, StoreFault::unreachable());
        let error = limiter.refund(&mut receipt).await.unwrap_err();
        assert_eq!((error.changed(), error.quota()), (&limiter.quotas()[..1], &limiter.quotas()[1]));
    });
}
