//! Several charges in one step, several steps in one call: rules 8 and 9.

use tollgate::Reason;

use super::quota;
use crate::caller::decide;
use crate::{Caller, StoreSteps, Subject};

/// Rule 8: either every quota has room and all are charged, or none is.
pub async fn quotas_are_charged_all_or_none<S: Subject>(subject: &S) {
    let (wide, narrow) = (quota("10/1h"), quota("2/1d"));
    let (wide, narrow) = (Caller::new(subject, &wide, "alice"), Caller::new(subject, &narrow, "alice"));
    for charges in [[wide.charge(1), narrow.charge(1)], [narrow.charge(1), wide.charge(1)]] {
        assert!(decide(subject, &charges).await.is_allowed());
    }
    for charges in [[wide.charge(1), narrow.charge(1)], [narrow.charge(1), wide.charge(1)]] {
        let denied = decide(subject, &charges).await;
        assert_eq!((denied.is_allowed(), denied.used(), denied.remaining()), (false, 2, 0));
    }
    assert_eq!((wide.used().await, narrow.used().await), (2, 2));
}

/// Rule 8: each charge has a cost and a key of its own.
pub async fn charges_of_a_step_have_costs_and_keys_of_their_own<S: Subject>(subject: &S) {
    let (user, everybody) = (quota("5/1h"), quota("100/1d"));
    let alice = Caller::new(subject, &user, "alice");
    let bob = Caller::new(subject, &user, "bob");
    let all = Caller::new(subject, &everybody, "all");
    assert!(decide(subject, &[alice.charge(5), bob.charge(2), all.charge(30)]).await.is_allowed());
    assert!(!decide(subject, &[alice.charge(1), bob.charge(1), all.charge(1)]).await.is_allowed());
    assert_eq!((alice.used().await, bob.used().await, all.used().await), (5, 2, 30));
}

/// Rule 8: a charge of nothing takes nothing, but has its say: its quota must have room for one.
pub async fn a_quota_that_is_only_looked_at_can_deny<S: Subject>(subject: &S) {
    let (hour, day) = (quota("1/1h"), quota("9/1d"));
    let (hour, day) = (Caller::new(subject, &hour, "alice"), Caller::new(subject, &day, "alice"));
    assert!(decide(subject, &[hour.charge(0), day.charge(1)]).await.is_allowed());
    hour.fills().await;
    assert!(!decide(subject, &[hour.charge(0), day.charge(1)]).await.is_allowed());
    assert_eq!((hour.used().await, day.used().await), (1, 1));
}

/// Rule 8: charges of one step on one counter add up.
pub async fn charges_on_one_counter_add_up<S: Subject>(subject: &S) {
    let quota = quota("5/1h");
    let alice = Caller::new(subject, &quota, "alice");
    let admitted = decide(subject, &[alice.charge(2), alice.charge(1)]).await;
    assert!(admitted.is_allowed());
    let counted = |quota: &tollgate::QuotaState| (quota.used(), quota.units());
    assert_eq!(admitted.quotas().iter().map(counted).collect::<Vec<_>>(), [(3, 2), (3, 1)]);
    let denied = decide(subject, &[alice.charge(1), alice.charge(2)]).await;
    assert_eq!((denied.is_allowed(), denied.used()), (false, 3));
    assert!(decide(subject, &[alice.charge(1), alice.charge(0), alice.charge(1)]).await.is_allowed());
    assert_eq!(alice.used().await, 5);
}

/// Rules 7 and 8: charges on one counter that together are above its limit can never pass.
pub async fn charges_that_add_up_above_the_limit_are_denied_for_good<S: Subject>(subject: &S) {
    let quota = quota("5/1h");
    let alice = Caller::new(subject, &quota, "alice");
    let denied = decide(subject, &[alice.charge(3), alice.charge(3)]).await;
    assert_eq!((denied.reason(), denied.retry_after()), (Some(Reason::CostExceedsLimit), None));
    assert_eq!(denied.used(), 0);
}

/// Rule 9: of several that deny, the one with the longest wait decides.
pub async fn the_longest_wait_decides_a_denial<S: Subject>(subject: &S) {
    let (hour, long, wide) = (quota("1/1h"), quota("1/3653d"), quota("9/1d"));
    let callers = [&hour, &long, &wide].map(|quota| Caller::new(subject, quota, "alice"));
    let charges = callers.each_ref().map(|caller| caller.charge(1));
    let admitted = decide(subject, &charges).await;
    assert_eq!((admitted.is_allowed(), admitted.deciding(), admitted.quotas().len()), (true, 0, 3));
    let denied = decide(subject, &charges).await;
    assert_eq!((denied.is_allowed(), denied.deciding()), (false, 1));
    assert_eq!(denied.retry_after(), denied.quotas()[1].retry_after());
    assert!(denied.quotas()[0].retry_after() < denied.quotas()[1].retry_after());
    assert_eq!((denied.quotas()[2].reason(), denied.quotas()[2].used()), (None, 1));
}

/// Rule 9: of several that admit, the one with the least share left decides.
pub async fn the_least_share_decides_an_admission<S: Subject>(subject: &S) {
    let (wide, narrow) = (quota("100/1h"), quota("9/1d"));
    let (wide, narrow) = (Caller::new(subject, &wide, "alice"), Caller::new(subject, &narrow, "alice"));
    let admitted = decide(subject, &[wide.charge(1), narrow.charge(1)]).await;
    assert_eq!((admitted.deciding(), admitted.remaining()), (1, 8));
    let admitted = decide(subject, &[wide.charge(90), narrow.charge(1)]).await;
    assert_eq!((admitted.deciding(), admitted.remaining()), (0, 9));
}

/// A step without charges is admitted and says what time it is.
pub async fn a_step_without_charges_is_admitted<S: Subject>(subject: &S) {
    let counted = subject.store().charge(&[]).await.unwrap();
    assert!(counted.is_admitted() && counted.is_empty());
}

/// A batch takes one step for each request, one after another in some order: one that is denied harms no other, and
/// none is counted twice.
pub async fn requests_of_a_batch_are_independent<S: Subject>(subject: &S) {
    let (hour, day) = (quota("5/1h"), quota("100/1d"));
    let alice = Caller::new(subject, &hour, "alice");
    let bob = Caller::new(subject, &hour, "bob");
    let all = Caller::new(subject, &day, "all");
    let requests: [&[_]; 6] = [
        &[alice.charge(3), all.charge(3)],
        &[alice.charge(6), all.charge(6)],
        &[],
        &[bob.charge(5), all.charge(5)],
        &[alice.charge(3), all.charge(3)],
        &[bob.charge(0)],
    ];
    let answers: Vec<_> =
        subject.store().charge_each(&requests).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().map(|answer| answer.len()).collect::<Vec<_>>(), [2, 2, 0, 2, 2, 1]);
    assert!(!answers[1].is_admitted() && answers[2].is_admitted() && answers[3].is_admitted());
    // Two compete, and whichever is taken first fits.
    assert!(answers[0].is_admitted() != answers[4].is_admitted());
    assert_eq!((alice.used().await, bob.used().await, all.used().await), (3, 5, 8));
    assert!(subject.store().charge_each(&[]).await.is_empty());
}

/// In this process, the requests of a batch are taken in the given order.
pub async fn a_batch_is_taken_in_the_given_order<S: Subject>(subject: &S) {
    let (hour, day) = (quota("5/1h"), quota("100/1d"));
    let alice = Caller::new(subject, &hour, "alice");
    let all = Caller::new(subject, &day, "all");
    let (one, two, three) = ([alice.charge(1)], [alice.charge(2), all.charge(2)], [alice.charge(3)]);
    let requests: [&[_]; 6] = [&two, &three, &one, &two, &three, &one];
    let answers = subject.store().charge_each(&requests).await.into_iter().map(Result::unwrap);
    let answers: Vec<_> = answers.map(|counted| (counted.is_admitted(), counted[0].used())).collect();
    assert_eq!(answers, [(true, 2), (true, 5), (false, 5), (false, 5), (false, 5), (false, 5)]);
}

/// G1, G2: a batch of many requests on one key admits exactly as many as fit.
pub async fn a_batch_on_one_key_admits_exactly_the_limit<S: Subject>(subject: &S) {
    let quota = quota("20/1h");
    let alice = Caller::new(subject, &quota, "alice");
    let one = [alice.charge(1)];
    let answers = subject.store().charge_each(&[&one[..]; 50]).await;
    let mut seen: Vec<u64> = Vec::new();
    for counted in answers.into_iter().map(Result::unwrap).filter(tollgate::Counted::is_admitted) {
        seen.push(counted[0].used());
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=20).collect::<Vec<_>>());
}
