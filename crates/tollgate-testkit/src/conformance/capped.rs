//! The behaviour of a store with a cap when it is full: promise G8.

use tollgate::{CountDenied, Counter, StoreError};

use super::{quota, short_quota};
use crate::counter_under_test::decide;
use crate::{CappedStore, CounterUnderTest, StoreSteps};

/// G8: a full store refuses unknown keys, and keeps counting known ones.
pub async fn a_full_store_refuses_only_unseen_keys<S: CappedStore>() {
    let subject = &S::with_max_counters(3);
    let quota = quota("5/1h");
    let known = [0_u64, 1, 2].map(|key| CounterUnderTest::new(subject, &quota, key));
    for caller in &known {
        assert!(caller.takes(4).await.is_allowed());
    }
    let stranger = CounterUnderTest::new(subject, &quota, "stranger");
    for _ in 0..100 {
        assert!(matches!(subject.store().charge(&[stranger.charge(1)]).await, Err(StoreError::Full)));
    }
    for caller in &known {
        assert!(!caller.takes(2).await.is_allowed());
        assert!(caller.takes(1).await.is_allowed());
        assert!(!caller.takes(1).await.is_allowed());
    }
}

/// G8: a store is never full below 95 % of its cap, and never holds more than its cap.
pub async fn a_store_is_full_between_95_percent_and_its_cap<S: CappedStore>() {
    for cap in [1, 2, 20, 1000] {
        let subject = &S::with_max_counters(cap);
        let quota = quota("5/1h");
        let mut held = 0;
        for key in 0..3 * cap as u64 {
            let stranger = CounterUnderTest::new(subject, &quota, key);
            match subject.store().charge(&[stranger.charge(5)]).await {
                Ok(counted) => held += usize::from(counted.is_admitted()),
                Err(StoreError::Full) => assert!(held * 100 >= cap * 95, "full at {held} of {cap}"),
                Err(error) => panic!("{error}"),
            }
        }
        assert!(held <= cap, "{held} live counters under a cap of {cap}");
    }
}

/// G8: a flood of unseen keys never makes a store forget a key that is at its limit.
pub async fn a_flood_of_keys_resets_no_counter<S: CappedStore>() {
    let subject = &S::with_max_counters(50);
    let quota = quota("5/1h");
    let victim = CounterUnderTest::new(subject, &quota, "victim");
    victim.fills().await;
    for key in 0..2_000_u64 {
        let stranger = CounterUnderTest::new(subject, &quota, key);
        let _ = subject.store().charge(&[stranger.charge(1)]).await;
        if key % 100 == 0 {
            assert!(!victim.takes(1).await.is_allowed());
        }
    }
}

/// G8: room is all or nothing as well: a step that needs several new counters creates none in vain.
pub async fn a_step_that_finds_no_room_charges_nothing<S: CappedStore>() {
    let subject = &S::with_max_counters(3);
    let quota = quota("5/1h");
    let callers = [0_u64, 1, 2, 3].map(|key| CounterUnderTest::new(subject, &quota, key));
    let [known, other, third, fourth] = &callers;
    assert!(known.takes(1).await.is_allowed() && other.takes(1).await.is_allowed());
    let charges = [known.charge(1), third.charge(1), fourth.charge(1)];
    assert!(matches!(subject.store().charge(&charges).await, Err(StoreError::Full)));
    assert!(matches!(subject.store().peek(&charges).await, Err(StoreError::Full)));
    assert_eq!(known.used().await, 1);
    assert!(third.takes(1).await.is_allowed());
}

/// Rule 6, G8: a denial stands in a full store, even if an overdraft on an unseen key cannot be charged for it.
pub async fn a_denial_stands_without_room_for_an_overdraft<S: CappedStore>() {
    let subject = &S::with_max_counters(1);
    let (quota, overdraft) = (quota("1/1h"), quota("5/2h").with_count_denied(CountDenied::Overdraft));
    let known = CounterUnderTest::new(subject, &quota, "known");
    known.fills().await;
    let stranger = CounterUnderTest::new(subject, &overdraft, "stranger");
    let denied = decide(subject, &[known.charge(1), stranger.charge(3)]).await;
    assert_eq!((denied.is_allowed(), denied.deciding(), denied.quotas()[1].units()), (false, 0, 0));
    assert!(matches!(subject.store().charge(&[stranger.charge(3)]).await, Err(StoreError::Full)));
}

/// G8: a peek at an unseen key gets the answer that its charge would get.
pub async fn a_look_at_an_unseen_key_finds_the_store_full<S: CappedStore>() {
    let subject = &S::with_max_counters(1);
    let quota = quota("5/1h");
    CounterUnderTest::new(subject, &quota, "known").fills().await;
    let stranger = CounterUnderTest::new(subject, &quota, "stranger");
    for cost in [0, 1] {
        assert!(matches!(subject.store().charge(&[stranger.charge(cost)]).await, Err(StoreError::Full)));
        assert!(matches!(subject.store().peek(&[stranger.charge(cost)]).await, Err(StoreError::Full)));
    }
    assert!(matches!(subject.store().record(&stranger.charge(1)).await, Err(StoreError::Full)));
    assert!(matches!(
        subject.store().set(&Counter::new(&quota, stranger.key()), 1).await,
        Err(StoreError::Full)
    ));
}

/// G8: a charge that can never pass is denied even if there is no room for its counter.
pub async fn a_denial_needs_no_room<S: CappedStore>() {
    let subject = &S::with_max_counters(1);
    let quota = quota("5/1h");
    let known = CounterUnderTest::new(subject, &quota, "known");
    known.fills().await;
    let stranger = CounterUnderTest::new(subject, &quota, "stranger");
    assert!(!stranger.takes(6).await.is_allowed());
    let both = [stranger.charge(1), known.charge(1)];
    assert!(!subject.store().charge(&both).await.unwrap().is_admitted());
}

/// G5, G8: the room of closed windows is free at once, for one new counter and for several.
pub async fn closed_windows_make_room<S: CappedStore>() {
    let subject = &S::with_max_counters(4);
    let quota = short_quota(subject, 5, tollgate::Anchor::Epoch);
    for round in 0..5_u64 {
        let callers = [0_u64, 1, 2, 3].map(|key| CounterUnderTest::new(subject, &quota, (round, key)));
        let charges = callers.each_ref().map(|caller| caller.charge(1));
        let window = if round % 2 == 0 {
            subject.store().charge(&charges).await.unwrap()[0].window().unwrap()
        } else {
            // One counter is left out, so that the next step needs more room than is free.
            subject.store().charge(&charges[1..]).await.unwrap()[0].window().unwrap()
        };
        subject.reach(window.end()).await;
    }
}

/// A reset frees the room of its counter.
pub async fn a_reset_makes_room<S: CappedStore>() {
    let subject = &S::with_max_counters(1);
    let quota = quota("5/1h");
    let (alice, bob) =
        (CounterUnderTest::new(subject, &quota, "alice"), CounterUnderTest::new(subject, &quota, "bob"));
    alice.fills().await;
    assert!(matches!(subject.store().charge(&[bob.charge(1)]).await, Err(StoreError::Full)));
    alice.resets().await;
    bob.fills().await;
    assert!(matches!(subject.store().charge(&[alice.charge(1)]).await, Err(StoreError::Full)));
}

/// A request of a batch that finds no room does not affect the others.
pub async fn a_batch_goes_on_past_a_request_without_room<S: CappedStore>() {
    let subject = &S::with_max_counters(1);
    let quota = quota("5/1h");
    let (alice, bob) =
        (CounterUnderTest::new(subject, &quota, "alice"), CounterUnderTest::new(subject, &quota, "bob"));
    assert!(alice.takes(1).await.is_allowed());
    let (one, other) = ([alice.charge(1)], [bob.charge(1)]);
    let answers = subject.store().charge_each(&[&one, &other, &one]).await;
    assert!(matches!(answers[1], Err(StoreError::Full)));
    assert!(answers[0].is_ok() && answers[2].is_ok());
    assert_eq!(alice.used().await, 3);
}
