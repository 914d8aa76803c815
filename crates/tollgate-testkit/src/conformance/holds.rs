//! Holds with an id: rules 13 to 21.

use std::time::Duration;

use tollgate::{
    CountDenied, HoldAdjustment, HoldAnswer, HoldLength, HoldStates, InFlight, PolicyInFlight, Reason,
    SettledStates,
};

use super::{quota, short_quota};
use crate::hold_under_test::{HoldsUnderTest, TestedHold};
use crate::{CounterUnderTest, SettableClock, StoreUnderTest};

const MILLISECOND: Duration = Duration::from_millis(1);

/// The longest life of a hold.
const HOUR: Duration = Duration::from_secs(3_600);

/// A server and the test may read clocks that are a few milliseconds apart.
const SLACK: Duration = Duration::from_millis(10);

/// One quota of each kind, with room for a hundred units at once.
const HUNDRED: [&str; 4] = ["100/1h", "100/1h~burst", "100/1h~sliding", "100/1h~log"];

fn in_flight(text: &str) -> PolicyInFlight {
    PolicyInFlight::new("conformance", text.parse().expect("a limit in flight"))
}

/// Returns what settling answered, if it has settled.
fn settled(answer: HoldAnswer) -> SettledStates {
    let HoldAnswer::Settled(states) = answer else { panic!("not settled, but {answer:?}") };
    states
}

fn live(states: &HoldStates) -> Vec<u32> {
    states.in_flight().iter().map(|state| state.live()).collect()
}

/// Rules 13 and 14, G1, G2: as many units are live as the limit says, and no more; a denial names no wait.
pub async fn a_limit_in_flight_admits_its_units_and_no_more<S: StoreUnderTest>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("3~in_flight")], &[]);
    let two = holds.reserves(TestedHold::new(2, 0)).await;
    let state = two.in_flight()[0];
    assert_eq!((state.limit(), state.live(), state.units(), state.remaining()), (3, 2, 2, 1));
    for _ in 0..2 {
        let denied = holds.reserves(TestedHold::new(2, 0)).await;
        let state = denied.in_flight()[0];
        assert_eq!(denied.reason(), Some(Reason::InFlightExceeded));
        assert_eq!((state.live(), state.units(), state.remaining()), (2, 0, 1));
    }
    let last = holds.takes(1, 0).await;
    assert_eq!(holds.reserves(TestedHold::new(1, 0)).await.reason(), Some(Reason::InFlightExceeded));
    holds.ends(last).await;
    assert_eq!(holds.live().await, [2]);
    holds.takes(1, 0).await;
    assert_eq!(holds.live().await, [3]);
}

/// Rule 13: a hold of no units takes and charges nothing, is not remembered, and gets the answer of one unit.
pub async fn a_hold_of_no_units_only_asks<S: StoreUnderTest>(subject: &S) {
    let words = quota("100/1h").with_count_denied(CountDenied::Overdraft);
    let holds = HoldsUnderTest::new(subject, &[in_flight("2~in_flight")], &[words]);
    let nothing = TestedHold::new(0, 10);
    for _ in 0..3 {
        let states = holds.reserves(nothing).await;
        assert_eq!((states.is_admitted(), states.is_repeated(), live(&states)), (true, false, vec![0]));
        assert_eq!((states.in_flight()[0].units(), states.charged()[0].units()), (0, 0));
    }
    assert_eq!(holds.renews(nothing).await, HoldAnswer::Expired);
    let other = TestedHold { units: 2, cost: 5, ..nothing };
    assert!(holds.reserves(other).await.is_admitted());
    let denied = holds.reserves(TestedHold::new(0, 10)).await;
    assert_eq!((denied.reason(), live(&denied)), (Some(Reason::InFlightExceeded), vec![2]));
    assert_eq!(holds.used().await, [5]);
}

/// Rules 14 and 21: more units than the limit, or than a thousand, can never be live.
pub async fn more_units_than_can_ever_be_live_are_denied_for_good<S: StoreUnderTest>(subject: &S) {
    let few = HoldsUnderTest::new(subject, &[in_flight("2~in_flight")], &[quota("1/1h")]);
    few.takes(1, 1).await;
    // Whatever the quotas say.
    let never = few.reserves(TestedHold::new(3, 1)).await;
    assert_eq!((never.reason(), live(&never)), (Some(Reason::CostExceedsLimit), vec![1]));
    let none = HoldsUnderTest::new(subject, &[in_flight("0~in_flight")], &[]).with_key("bob");
    assert_eq!(none.reserves(TestedHold::new(1, 0)).await.reason(), Some(Reason::CostExceedsLimit));

    let most = PolicyInFlight::new("conformance", InFlight::new(InFlight::MAX_LIMIT).expect("a limit"));
    let many = HoldsUnderTest::new(subject, &[most], &[]).with_key("carol");
    let thousand = many.takes(InFlight::MAX_UNITS, 0).await;
    many.takes(InFlight::MAX_UNITS, 0).await;
    for units in [InFlight::MAX_UNITS + 1, u32::MAX] {
        let never = many.reserves(TestedHold::new(units, 0)).await;
        assert_eq!((never.reason(), live(&never)), (Some(Reason::CostExceedsLimit), vec![2_000]));
    }
    many.ends(thousand).await;
    assert_eq!(many.live().await, [1_000]);
}

/// Rule 14: if quotas deny a hold, their decision and their wait are the answer.
pub async fn quotas_decide_before_the_limit_in_flight<S: StoreUnderTest>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("1~in_flight")], &[quota("10/1h")]);
    let first = holds.takes(1, 6).await;
    let both = holds.reserves(TestedHold::new(1, 5)).await;
    assert_eq!(both.reason(), Some(Reason::QuotaExceeded));
    assert!(both.charged()[0].retry_at().is_some());
    let only_in_flight = holds.reserves(TestedHold::new(1, 4)).await;
    assert_eq!(only_in_flight.reason(), Some(Reason::InFlightExceeded));
    assert_eq!((only_in_flight.charged()[0].reason(), only_in_flight.charged()[0].units()), (None, 0));
    holds.ends(first).await;
    assert_eq!(holds.reserves(TestedHold::new(1, 5)).await.reason(), Some(Reason::QuotaExceeded));
    assert_eq!((holds.live().await, holds.used().await), (vec![0], vec![6]));
}

/// Rules 6 and 14: a denial by the limit in flight charges what a denial charges, and is not remembered.
pub async fn a_denial_in_flight_charges_what_a_denial_charges<S: StoreUnderTest>(subject: &S) {
    for (key, count_denied, used) in [
        ("no", CountDenied::No, [1, 1]),
        ("yes", CountDenied::Yes, [1, 1]),
        ("overdraft", CountDenied::Overdraft, [6, 11]),
    ] {
        let words = quota("100/1h").with_count_denied(count_denied);
        let holds = HoldsUnderTest::new(subject, &[in_flight("1~in_flight")], &[words]).with_key(key);
        holds.takes(1, 1).await;
        let denied = TestedHold::new(1, 5);
        for used in used {
            assert_eq!(holds.reserves(denied).await.reason(), Some(Reason::InFlightExceeded));
            assert_eq!(holds.used().await, [used], "{count_denied:?}");
        }
        assert_eq!(holds.renews(denied).await, HoldAnswer::Expired);
        holds.looks(1, 5).await;
        assert_eq!(holds.used().await, [used[1]], "a look at {count_denied:?}");
    }
}

/// Rules 8 and 16: either every limit in flight and every quota of any kind has room, or nothing is taken.
pub async fn a_hold_takes_all_parts_or_none<S: StoreUnderTest>(subject: &S) {
    let wide = PolicyInFlight::new("wide", InFlight::new(9).expect("a limit"));
    let quotas = HUNDRED.map(quota);
    let holds = HoldsUnderTest::new(subject, &[wide, in_flight("2~in_flight")], &quotas);
    let first = holds.takes(1, 30).await;
    holds.takes(1, 30).await;
    let denied = holds.reserves(TestedHold::new(1, 30)).await;
    assert_eq!((denied.reason(), live(&denied)), (Some(Reason::InFlightExceeded), vec![2, 2]));
    assert!(denied.charged().iter().all(|state| state.used() == 60 && state.units() == 0));
    holds.ends(first).await;
    let denied = holds.reserves(TestedHold::new(1, 41)).await;
    assert_eq!((denied.reason(), live(&denied)), (Some(Reason::QuotaExceeded), vec![1, 1]));
    let admitted = holds.reserves(TestedHold::new(1, 40)).await;
    assert_eq!((admitted.is_admitted(), live(&admitted)), (true, vec![2, 2]));
    assert!(admitted.charged().iter().all(|state| state.used() == 100 && state.units() == 40));
}

/// Rule 13: policies and keys have counters of their own, which no quota shares.
pub async fn limits_in_flight_have_their_own_counters<S: StoreUnderTest>(subject: &S) {
    let texts = ["conformance", "conformanc"];
    let policies =
        texts.map(|name| PolicyInFlight::new(name, "1~in_flight".parse().expect("a limit in flight")));
    for policy in &policies {
        for key in ["alice", "alice~in_flight", "bob"] {
            HoldsUnderTest::new(subject, std::slice::from_ref(policy), &[]).with_key(key).takes(1, 0).await;
        }
    }
    let policy = quota("5/1h");
    assert_eq!(CounterUnderTest::new(subject, &policy, "alice").used().await, 0);
}

/// Rule 16: a repeated reservation gets its first answer, and takes nothing.
pub async fn a_repeated_reservation_gets_its_first_answer<S: StoreUnderTest>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("2~in_flight")], &HUNDRED.map(quota));
    let hold = TestedHold::new(1, 30);
    let first = holds.reserves(hold).await;
    holds.takes(1, 20).await;
    for _ in 0..3 {
        let again = holds.reserves(hold).await;
        assert!(again.is_repeated());
        assert_eq!(live(&again), live(&first));
        let told = |states: &HoldStates| -> Vec<_> {
            let each = states.charged().iter();
            each.map(|state| (state.used(), state.units(), state.mark(), state.reset_at())).collect()
        };
        assert_eq!(told(&again), told(&first));
    }
    assert_eq!((holds.live().await, holds.used().await), (vec![2], vec![50; 4]));
}

/// Rule 16: an id belongs to the policies, the key, the units and the costs of its first use. Limits are no part of that.
pub async fn an_id_belongs_to_what_it_was_first_admitted_for<S: StoreUnderTest>(subject: &S) {
    let (jobs, words) = (in_flight("5~in_flight"), quota("100/1h"));
    let (only_jobs, only_words) = ([jobs], [words.clone()]);
    let holds = HoldsUnderTest::new(subject, &only_jobs, &only_words);
    let hold = holds.takes(1, 30).await;
    let others = [
        (HoldsUnderTest::new(subject, &only_jobs, &only_words), 2, 30),
        (HoldsUnderTest::new(subject, &only_jobs, &only_words), 1, 31),
        (HoldsUnderTest::new(subject, &only_jobs, &[]), 1, 30),
        (HoldsUnderTest::new(subject, &[], &only_words), 1, 30),
        (HoldsUnderTest::new(subject, &only_jobs, &[quota("100/1d")]), 1, 30),
        (HoldsUnderTest::new(subject, &only_jobs, &[words, quota("9/1d")]), 1, 30),
        // The only one with another key.
        (HoldsUnderTest::new(subject, &only_jobs, &only_words).with_key("bob"), 1, 30),
    ];
    let others_of_key = others.len() - usize::from(subject.remembers_ids_by_key());
    for (other, units, cost) in others.into_iter().take(others_of_key) {
        let with_others = TestedHold { units, cost, ..hold };
        assert_eq!(other.asks(with_others).await, HoldAnswer::Conflict);
        assert_eq!(other.renews(with_others).await, HoldAnswer::Conflict);
        assert_eq!(other.settles(with_others, &[HoldAdjustment::Charge(9)]).await, HoldAnswer::Conflict);
    }
    assert_eq!((holds.live().await, holds.used().await), (vec![1], vec![30]));
    let raised = HoldsUnderTest::new(subject, &[in_flight("9~in_flight")], &[quota("900/1h")]);
    assert!(raised.reserves(hold).await.is_repeated());
    raised.ends(hold).await;
    // Settled, it still belongs to it.
    let with_others = TestedHold { units: 2, ..hold };
    assert_eq!(holds.asks(with_others).await, HoldAnswer::Conflict);
    assert_eq!(holds.asks(hold).await, HoldAnswer::Ended);
}

/// Rule 16: a limit that changes in between does not change the first answer, of any kind of quota.
pub async fn a_changed_limit_leaves_the_first_answer<S: StoreUnderTest>(subject: &S) {
    let jobs = [in_flight("2~in_flight")];
    let quotas =
        |limit| ["/1h", "/1h~burst", "/1h~sliding", "/1h~log"].map(|it| quota(&format!("{limit}{it}")));
    for (key, limit) in [("lowered", 7), ("same", 100), ("raised", 177)] {
        let holds = HoldsUnderTest::new(subject, &jobs, &quotas(100)).with_key(key);
        holds.takes(1, 29).await;
        let hold = TestedHold::new(1, 30);
        let first = holds.reserves(hold).await;
        let changed = HoldsUnderTest::new(subject, &jobs, &quotas(limit)).with_key(key);
        let again = changed.reserves(hold).await;
        assert!(again.is_repeated(), "{key}");
        let told = |states: &HoldStates| -> Vec<_> {
            states.charged().iter().map(|state| (state.used(), state.units(), state.mark())).collect()
        };
        assert_eq!(told(&again), told(&first), "{key}");
        let charged = settled(holds.settles(hold, &[HoldAdjustment::Charge(5); 4]).await);
        let again = settled(changed.settles(hold, &[HoldAdjustment::Charge(5); 4]).await);
        for (again, charged) in again.iter().zip(charged.iter()) {
            assert_eq!((again.used(), again.units()), (charged.used(), charged.units()), "{key}");
        }
    }
}

/// Rule 16: a denial is not remembered: the id is free, and is decided again.
pub async fn only_an_admitted_answer_is_remembered<S: StoreUnderTest>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("1~in_flight")], &[quota("100/1h")]);
    let first = holds.takes(1, 90).await;
    let denied = TestedHold::new(1, 20);
    assert_eq!(holds.reserves(denied).await.reason(), Some(Reason::QuotaExceeded));
    let denied = TestedHold { cost: 10, ..denied };
    assert_eq!(holds.reserves(denied).await.reason(), Some(Reason::InFlightExceeded));
    holds.ends(first).await;
    let states = holds.reserves(denied).await;
    assert!(states.is_admitted() && !states.is_repeated());
}

/// Rule 17, G5: at the end of its length, a hold frees its units, and its charges stay. Then its id is unknown.
pub async fn a_hold_ends_after_its_length<S: StoreUnderTest>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("1~in_flight")], &[quota("100/1h")]);
    let holds = holds.with_length(subject.short_window());
    let hold = holds.takes(1, 30).await;
    subject.reach(subject.now().await + holds.length() + SLACK).await;
    assert_eq!((holds.live().await, holds.used().await), (vec![0], vec![30]));
    assert_eq!(holds.renews(hold).await, HoldAnswer::Expired);
    assert_eq!(holds.settles(hold, &[HoldAdjustment::Charge(9)]).await, HoldAnswer::Expired);
    // Another begins with the same id.
    let other = TestedHold { cost: 5, ..hold };
    assert!(holds.reserves(other).await.is_admitted());
    assert_eq!((holds.live().await, holds.used().await), (vec![1], vec![35]));
}

/// Rules 17 and 21: the next step that takes or is denied units reports those that have expired, and no other does.
pub async fn expired_units_are_reported_once<S: StoreUnderTest>(subject: &S) {
    let limit = PolicyInFlight::new("expires", "5~in_flight".parse().expect("a limit in flight"));
    let holds = HoldsUnderTest::new(subject, std::slice::from_ref(&limit), &[]).with_length(HOUR);
    // It outlives the others, so a slow machine loses none of them with their key.
    let first = TestedHold::new(1, 0);
    assert_eq!(holds.reserves(first).await.in_flight()[0].expired(), 0);
    let short = HoldsUnderTest::new(subject, &[limit], &[]).with_length(subject.short_window());
    short.takes(1, 0).await;
    short.takes(2, 0).await;
    subject.reach(subject.now().await + short.length() + SLACK).await;
    let expired = |states: &HoldStates| states.in_flight()[0].expired();
    assert_eq!(expired(&holds.looks(1, 0).await), 0);
    assert_eq!(expired(&holds.reserves(TestedHold::new(0, 0)).await), 0);
    let hold = TestedHold::new(4, 0);
    let states = holds.reserves(hold).await;
    assert_eq!((states.is_admitted(), expired(&states), live(&states)), (true, 3, vec![5]));
    let again = holds.reserves(hold).await;
    assert_eq!((again.is_repeated(), expired(&again)), (true, 0));
    assert_eq!(expired(&holds.reserves(TestedHold::new(1, 0)).await), 0);
    // Settled and forgotten units have not expired.
    holds.ends(first).await;
    assert_eq!(holds.resets().await, 4);
    assert_eq!(expired(&holds.reserves(TestedHold::new(1, 0)).await), 0);
}

/// Rules 17 and 21: a denial reports them as well.
pub async fn a_denial_reports_expired_units<S: StoreUnderTest>(subject: &S) {
    let limit = PolicyInFlight::new("denies", "5~in_flight".parse().expect("a limit in flight"));
    let holds = HoldsUnderTest::new(subject, std::slice::from_ref(&limit), &[quota("10/1h")]);
    let holds = holds.with_length(HOUR);
    holds.takes(1, 6).await;
    let short = HoldsUnderTest::new(subject, &[limit], &[]).with_length(subject.short_window());
    short.takes(3, 0).await;
    subject.reach(subject.now().await + short.length() + SLACK).await;
    let denied = holds.reserves(TestedHold::new(1, 6)).await;
    assert_eq!((denied.reason(), denied.in_flight()[0].expired()), (Some(Reason::QuotaExceeded), 3));
    let denied = holds.reserves(TestedHold::new(5, 0)).await;
    assert_eq!((denied.reason(), denied.in_flight()[0].expired()), (Some(Reason::InFlightExceeded), 0));
}

/// Rule 17: a renewal starts the length again.
pub async fn a_renewal_starts_the_length_again<S: StoreUnderTest>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("1~in_flight")], &[quota("100/1h")]);
    let holds = holds.with_length(4 * subject.short_window());
    let mut before = subject.now().await;
    let hold = holds.takes(1, 30).await;
    for _ in 0..3 {
        subject.reach(before + holds.length() * 3 / 4).await;
        let renewed = subject.now().await;
        let answer = holds.renews(hold).await;
        // A slow machine may have come too late.
        if subject.now().await < before + holds.length() - SLACK {
            assert_eq!(answer, HoldAnswer::Renewed { left: holds.length() });
        }
        if answer == HoldAnswer::Expired {
            return;
        }
        before = renewed;
    }
    subject.reach(subject.now().await + holds.length() + SLACK).await;
    assert_eq!((holds.renews(hold).await, holds.live().await), (HoldAnswer::Expired, vec![0]));
}

/// Rule 17: so does a repeated reservation, which says that the hold lives for its length.
pub async fn a_repeated_reservation_renews_the_hold<S: SettableClock>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("2~in_flight:30s")], &[quota("100/1h")]);
    let start = subject.now().await;
    let (hold, other) = (holds.takes(1, 10).await, holds.takes(1, 10).await);
    subject.set_time(start + Duration::from_secs(20));
    assert!(holds.reserves(hold).await.is_repeated());
    // The other one ends.
    subject.set_time(start + Duration::from_secs(50) - MILLISECOND);
    assert_eq!((holds.live().await, holds.renews(other).await), (vec![1], HoldAnswer::Expired));
    subject.set_time(start + Duration::from_secs(50));
    assert_eq!((holds.live().await, holds.renews(hold).await), (vec![0], HoldAnswer::Expired));
}

/// Rule 17: a limit in flight may set a length, and the shortest of all counts.
pub async fn the_shortest_length_counts<S: StoreUnderTest>(subject: &S) {
    let short = format!("1~in_flight:{}ms", subject.short_window().as_millis());
    let long = PolicyInFlight::new("long", "1~in_flight:1h".parse().expect("a limit in flight"));
    let holds = HoldsUnderTest::new(subject, &[long, in_flight(&short)], &[]);
    let hold = holds.takes(1, 0).await;
    subject.reach(subject.now().await + subject.short_window() + SLACK).await;
    assert_eq!((holds.renews(hold).await, holds.live().await), (HoldAnswer::Expired, vec![0, 0]));
}

/// Rules 10 and 18: settling gives unused units back to what was charged, for every kind.
pub async fn settling_gives_back_what_was_not_used<S: StoreUnderTest>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("1~in_flight")], &HUNDRED.map(quota));
    let hold = TestedHold::new(1, 80);
    let admitted = holds.reserves(hold).await;
    let give_back = |state: &tollgate::QuotaState| HoldAdjustment::GiveBack { units: 60, mark: state.mark() };
    let adjustments: Vec<_> = admitted.charged().iter().map(give_back).collect();
    let states = settled(holds.settles(hold, &adjustments).await);
    for (text, state) in HUNDRED.iter().zip(states.iter()) {
        // A unit of a bucket may have drained meanwhile.
        assert!((19..=20).contains(&state.used()) && (59..=60).contains(&state.units()), "{text}: {state:?}");
        assert!(state.used() == 20 || text.ends_with("burst"), "{text}: {state:?}");
    }
    assert_eq!(states.len(), 4);
    assert_eq!(holds.live().await, [0]);
    holds.takes(1, 80).await;
}

/// Rule 18: an overrun is charged without asking for room, for every kind.
pub async fn settling_charges_an_overrun<S: StoreUnderTest>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("1~in_flight")], &HUNDRED.map(quota));
    let hold = holds.takes(1, 80).await;
    let states = settled(holds.settles(hold, &[HoldAdjustment::Charge(50); 4]).await);
    for (text, state) in HUNDRED.iter().zip(states.iter()) {
        assert_eq!((state.used(), state.units(), state.has_room()), (130, 50, true), "{text}: {state:?}");
    }
    assert_eq!(holds.reserves(TestedHold::new(1, 1)).await.reason(), Some(Reason::QuotaExceeded));
}

/// Rule 18: with a cap, an overrun is charged up to the limit, for every kind.
pub async fn settling_charges_up_to_the_limit<S: StoreUnderTest>(subject: &S) {
    for (key, cost, overrun, charged) in
        [("less", 80, 15, 15), ("just", 80, 20, 20), ("more", 80, 50, 20), ("full", 100, 50, 0)]
    {
        let holds = HoldsUnderTest::new(subject, &[], &HUNDRED.map(quota)).with_key(key);
        let hold = holds.takes(1, cost).await;
        let states = settled(holds.settles(hold, &[HoldAdjustment::ChargeUpTo(overrun); 4]).await);
        for (text, state) in HUNDRED.iter().zip(states.iter()) {
            let used = u64::from(cost + charged);
            assert_eq!((state.used(), state.units()), (used, charged), "{key}, {text}: {state:?}");
        }
    }
    // Above a lowered limit, nothing is charged.
    let holds = HoldsUnderTest::new(subject, &[], &[quota("100/1h")]).with_key("lowered");
    let hold = holds.takes(1, 80).await;
    let lowered = HoldsUnderTest::new(subject, &[], &[quota("50/1h")]).with_key("lowered");
    let states = settled(lowered.settles(hold, &[HoldAdjustment::ChargeUpTo(9)]).await);
    assert_eq!((states[0].used(), states[0].units()), (80, 0));
}

/// Rule 18: only charges that are adjusted have a state, in their order.
pub async fn settling_keeps_what_is_fixed<S: StoreUnderTest>(subject: &S) {
    let quotas = ["100/1h", "200/1d", "300/2d"].map(quota);
    let holds = HoldsUnderTest::new(subject, &[], &quotas);
    let hold = holds.takes(1, 10).await;
    let adjustments = [HoldAdjustment::Charge(1), HoldAdjustment::Keep, HoldAdjustment::Charge(2)];
    let states = settled(holds.settles(hold, &adjustments).await);
    let told: Vec<_> = states.iter().map(|state| (state.limit(), state.used(), state.units())).collect();
    assert_eq!(told, [(100, 11, 1), (300, 12, 2)]);
    assert_eq!(holds.used().await, [11, 10, 12]);
}

/// Rules 16 and 17: settling again gets the first answer, and frees and adjusts nothing. Other calls say that it ended, and
/// other adjustments are a conflict.
pub async fn settling_twice_settles_once<S: StoreUnderTest>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("2~in_flight")], &[quota("100/1h")]);
    let hold = holds.takes(1, 30).await;
    let first = settled(holds.settles(hold, &[HoldAdjustment::Charge(5)]).await);
    let other = holds.takes(2, 10).await;
    let again = settled(holds.settles(hold, &[HoldAdjustment::Charge(5)]).await);
    assert!(!first.is_repeated() && again.is_repeated());
    let told = |states: &SettledStates| (states.len(), states[0].used(), states[0].units());
    assert_eq!(told(&again), told(&first));
    let mark = first[0].mark();
    let others = [
        HoldAdjustment::Keep,
        HoldAdjustment::Charge(4),
        HoldAdjustment::Charge(9),
        HoldAdjustment::ChargeUpTo(5),
        HoldAdjustment::GiveBack { units: 5, mark },
    ];
    for adjustment in others {
        assert_eq!(holds.settles(hold, &[adjustment]).await, HoldAnswer::Conflict, "{adjustment:?}");
    }
    assert_eq!(holds.asks(hold).await, HoldAnswer::Ended);
    assert_eq!(holds.renews(hold).await, HoldAnswer::Ended);
    assert_eq!((holds.live().await, holds.used().await), (vec![2], vec![45]));
    holds.ends(other).await;
}

/// Rule 17: what is asked of an unknown id gives and charges nothing.
pub async fn an_unknown_id_changes_nothing<S: StoreUnderTest>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("2~in_flight")], &[quota("100/1h")]);
    let states = holds.reserves(TestedHold::new(1, 30)).await;
    let unknown = TestedHold::new(1, 30);
    let give_back = HoldAdjustment::GiveBack { units: 30, mark: states.charged()[0].mark() };
    for adjustment in [give_back, HoldAdjustment::Charge(9), HoldAdjustment::ChargeUpTo(9)] {
        assert_eq!(holds.settles(unknown, &[adjustment]).await, HoldAnswer::Expired);
    }
    assert_eq!(holds.renews(unknown).await, HoldAnswer::Expired);
    assert_eq!((holds.live().await, holds.used().await), (vec![1], vec![30]));
}

/// Rules 10 and 18: a closed window gets nothing back, and an overrun falls into the open one.
pub async fn settling_late_leaves_closed_windows_alone<S: StoreUnderTest>(subject: &S) {
    let short = short_quota(subject, 100, tollgate::Anchor::Epoch);
    let holds = HoldsUnderTest::new(subject, &[in_flight("3~in_flight")], &[short]);
    let holds = holds.with_length(HoldLength::MAX.duration());
    let (unused, overrun) = (TestedHold::new(1, 30), TestedHold::new(1, 40));
    let state = holds.reserves(unused).await.charged()[0];
    holds.reserves(overrun).await;
    subject.reach(state.reset_at()).await;
    let give_back = HoldAdjustment::GiveBack { units: 30, mark: state.mark() };
    let states = settled(holds.settles(unused, &[give_back]).await);
    assert_eq!(states[0].units(), 0);
    let states = settled(holds.settles(overrun, &[HoldAdjustment::Charge(7)]).await);
    assert_eq!(states[0].units(), 7);
    assert!(states[0].mark().time() > state.mark().time());
    assert_eq!(holds.live().await, [0]);
}

/// Rules 15, 17 and 19: a reset forgets all units. Their holds are lost, free none of later ones, and can be settled.
pub async fn a_reset_loses_the_units_of_holds<S: StoreUnderTest>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("3~in_flight")], &[quota("100/1h")]);
    let lost = [holds.takes(1, 10).await, holds.takes(2, 10).await];
    assert_eq!(holds.resets().await, 3);
    assert_eq!(holds.resets().await, 0);
    assert_eq!((holds.live().await, holds.used().await), (vec![0], vec![20]));
    let later = holds.takes(3, 10).await;
    for hold in lost {
        assert_eq!(holds.renews(hold).await, HoldAnswer::Lost);
        let states = settled(holds.settles(hold, &[HoldAdjustment::Charge(1)]).await);
        assert_eq!(states[0].units(), 1);
        assert_eq!(holds.live().await, [3]);
    }
    assert_eq!(holds.renews(later).await, HoldAnswer::Renewed { left: holds.length() });
    assert_eq!(holds.used().await, [32]);
}

/// Rule 13: a lowered limit ends no hold, and admits none until enough have ended.
pub async fn a_lowered_limit_in_flight_ends_no_hold<S: StoreUnderTest>(subject: &S) {
    let [three, one] =
        ["3~in_flight", "1~in_flight"].map(|text| HoldsUnderTest::new(subject, &[in_flight(text)], &[]));
    let all = [three.takes(1, 0).await, three.takes(1, 0).await, three.takes(1, 0).await];
    for (ended, hold) in all.into_iter().enumerate() {
        let denied = one.reserves(TestedHold::new(1, 0)).await;
        let state = denied.in_flight()[0];
        let live = 3 - u32::try_from(ended).expect("a few");
        assert_eq!((denied.reason(), state.live()), (Some(Reason::InFlightExceeded), live));
        assert_eq!((state.limit(), state.remaining()), (1, 0));
        assert_eq!(one.renews(hold).await, HoldAnswer::Renewed { left: one.length() });
        one.ends(hold).await;
    }
    one.takes(1, 0).await;
}

/// Rule 16: a look gets the answer of an unknown id, and takes nothing.
pub async fn a_look_takes_nothing<S: StoreUnderTest>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("2~in_flight")], &[quota("100/1h")]);
    holds.takes(1, 60).await;
    for _ in 0..3 {
        let states = holds.looks(1, 40).await;
        assert_eq!((states.reason(), live(&states)), (None, vec![1]));
        assert_eq!((states.in_flight()[0].units(), states.charged()[0].units()), (0, 0));
    }
    assert_eq!(holds.looks(2, 40).await.reason(), Some(Reason::InFlightExceeded));
    assert_eq!(holds.looks(1, 41).await.reason(), Some(Reason::QuotaExceeded));
    assert_eq!(holds.looks(3, 41).await.reason(), Some(Reason::CostExceedsLimit));
    holds.takes(1, 40).await;
}

/// Rule 16: a hold and a check charge the same counters.
pub async fn checks_and_holds_share_the_counters_of_quotas<S: StoreUnderTest>(subject: &S) {
    let words = quota("100/1h");
    let holds = HoldsUnderTest::new(subject, &[in_flight("2~in_flight")], std::slice::from_ref(&words));
    let alice = CounterUnderTest::new(subject, &words, "alice");
    assert!(alice.takes(30).await.is_allowed());
    let hold = holds.takes(1, 50).await;
    assert_eq!(alice.used().await, 80);
    assert!(!alice.takes(21).await.is_allowed());
    assert!(alice.takes(20).await.is_allowed());
    assert!(!holds.reserves(TestedHold::new(1, 1)).await.is_admitted());
    let states = settled(holds.settles(hold, &[HoldAdjustment::Charge(5)]).await);
    assert_eq!((states[0].used(), alice.used().await), (105, 105));
}

/// Rules 16 and 18: a reservation without units in flight, even at no cost, can be settled.
pub async fn a_reservation_needs_no_units_in_flight<S: StoreUnderTest>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[], &[quota("100/1h")]);
    let hold = holds.takes(1, 0).await;
    assert!(holds.reserves(hold).await.is_repeated());
    assert_eq!(holds.used().await, [0]);
    assert_eq!(holds.renews(hold).await, HoldAnswer::Renewed { left: holds.length() });
    let states = settled(holds.settles(hold, &[HoldAdjustment::Charge(30)]).await);
    assert_eq!((states[0].used(), states[0].units()), (30, 30));
    let many = [holds.takes(1, 10).await, holds.takes(1, 10).await];
    assert_eq!(holds.used().await, [50]);
    for hold in many {
        holds.ends(hold).await;
    }
    assert_eq!(holds.used().await, [50]);
}

/// Rule 17: a hold lives until just before its end, by the store's clock; so does one that is renewed.
pub async fn a_hold_lives_to_the_millisecond<S: SettableClock>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("1~in_flight:30s")], &[]);
    let start = subject.now().await;
    let hold = holds.takes(1, 0).await;
    let end = start + Duration::from_secs(30);
    subject.set_time(end - MILLISECOND);
    assert_eq!(holds.live().await, [1]);
    assert_eq!(holds.renews(hold).await, HoldAnswer::Renewed { left: Duration::from_secs(30) });
    subject.set_time(end - MILLISECOND + Duration::from_secs(30) - MILLISECOND);
    assert_eq!(holds.reserves(TestedHold::new(1, 0)).await.reason(), Some(Reason::InFlightExceeded));
    subject.set_time(end - MILLISECOND + Duration::from_secs(30));
    assert_eq!(holds.renews(hold).await, HoldAnswer::Expired);
    holds.takes(1, 0).await;
}

/// Rule 17: a settled id is remembered for ten seconds, or for one length if that is shorter.
pub async fn a_settled_id_is_remembered_for_a_while<S: SettableClock>(subject: &S) {
    for (key, length, remembered) in [("long", 3_600, 10), ("short", 4, 4)] {
        let holds = HoldsUnderTest::new(subject, &[in_flight("1~in_flight")], &[quota("100/1h")]);
        let holds = holds.with_length(Duration::from_secs(length)).with_key(key);
        let hold = holds.takes(1, 10).await;
        let start = subject.now().await;
        let first = settled(holds.settles(hold, &[HoldAdjustment::Charge(5)]).await);
        let end = start + Duration::from_secs(remembered);
        subject.set_time(end - MILLISECOND);
        let again = settled(holds.settles(hold, &[HoldAdjustment::Charge(5)]).await);
        assert_eq!((again[0].used(), again[0].units()), (first[0].used(), first[0].units()));
        assert_eq!(holds.asks(hold).await, HoldAnswer::Ended);
        subject.set_time(end);
        assert_eq!(holds.settles(hold, &[HoldAdjustment::Charge(5)]).await, HoldAnswer::Expired);
        assert_eq!(holds.used().await, [15]);
    }
}

/// Rule 20: however far the clock steps back, no hold is left longer than its length from then.
pub async fn a_step_back_leaves_no_hold_longer_than_its_length<S: SettableClock>(subject: &S) {
    for (key, millis) in [("little", 1), ("more", 29_000), ("much", 1_000_000)] {
        let holds = HoldsUnderTest::new(subject, &[in_flight("1~in_flight:30s")], &[]).with_key(key);
        let start = subject.now().await;
        holds.takes(1, 0).await;
        let back = start - Duration::from_millis(millis);
        subject.set_time(back);
        assert_eq!(holds.live().await, [1], "{key}");
        subject.set_time(back + Duration::from_secs(30));
        assert_eq!(holds.live().await, [0], "{key}");
        subject.set_time(start);
    }
}

/// Rule 20: a step forward ends holds, and never makes one live longer.
pub async fn a_step_forward_ends_holds<S: SettableClock>(subject: &S) {
    let holds = HoldsUnderTest::new(subject, &[in_flight("1~in_flight:30s")], &[]);
    let hold = holds.takes(1, 0).await;
    subject.set_time(subject.now().await + Duration::from_secs(7_200));
    assert_eq!((holds.live().await, holds.renews(hold).await), (vec![0], HoldAnswer::Expired));
    holds.takes(1, 0).await;
}
