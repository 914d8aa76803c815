//! Holds that are reserved before an end or not at all: rules 16 and 24.

use std::time::Duration;

use tollgate::{
    CountDenied, HoldAdjustment, HoldAnswer, PolicyInFlight, PolicyQuota, Reason, StoreError, Timestamp,
};

use super::ends::ended;
use super::quota;
use crate::hold_under_test::{HoldsUnderTest, TestedHold, TestedStep};
use crate::{SettableClock, StoreUnderTest};

/// Longer than a test takes.
const LONG: Duration = Duration::from_secs(3_600);

fn in_flight(text: &str) -> PolicyInFlight {
    PolicyInFlight::new("conformance", text.parse().expect("a limit in flight"))
}

/// Holds of up to two units, with a hundred words an hour, before an end or without one.
struct Desk<'a, S> {
    subject: &'a S,
    in_flight: Vec<PolicyInFlight>,
    quotas: Vec<PolicyQuota>,
}

impl<'a, S: StoreUnderTest> Desk<'a, S> {
    fn new(subject: &'a S) -> Self {
        Self { subject, in_flight: vec![in_flight("2~in_flight")], quotas: vec![quota("100/1h")] }
    }

    fn holds(&self) -> HoldsUnderTest<'a, S> {
        HoldsUnderTest::new(self.subject, &self.in_flight, &self.quotas)
    }

    fn before(&self, end: Timestamp) -> HoldsUnderTest<'a, S> {
        self.holds().with_end(end)
    }

    /// Returns the live units and the usage.
    async fn standing(&self) -> (Vec<u32>, Vec<u64>) {
        (self.holds().live().await, self.holds().used().await)
    }
}

/// Reserves, and returns the store's time if the end has come.
async fn reserve<S: StoreUnderTest>(
    holds: &HoldsUnderTest<'_, S>,
    hold: TestedHold,
    end: Timestamp,
) -> Result<HoldAnswer, Timestamp> {
    let answer = holds.try_step(hold, TestedStep::Reserve).await;
    if let Ok(HoldAnswer::Decided(states)) = &answer {
        let is_in_time = |now| now < end || states.is_repeated();
        assert!(
            states.charged().iter().all(|state| is_in_time(state.now())),
            "not before {end:?}: {states:?}"
        );
    }
    answer.map_err(|error: StoreError| ended(&error, end))
}

/// Rule 24: until its end, a reservation gets the answers of one without an end.
pub async fn a_reservation_before_its_end_is_an_ordinary_one<S: StoreUnderTest>(subject: &S) {
    let desk = Desk::new(subject);
    let holds = desk.before(subject.now().await + LONG);
    let hold = holds.takes(1, 40).await;
    assert_eq!(desk.standing().await, (vec![1], vec![40]));
    assert_eq!(holds.reserves(TestedHold::new(1, 61)).await.reason(), Some(Reason::QuotaExceeded));
    assert_eq!(holds.reserves(TestedHold::new(2, 10)).await.reason(), Some(Reason::InFlightExceeded));
    assert!(holds.reserves(TestedHold::new(0, 10)).await.is_admitted());
    assert!(holds.reserves(hold).await.is_repeated());
    assert_eq!(desk.standing().await, (vec![1], vec![40]));
    holds.takes(1, 60).await;
    holds.ends(hold).await;
    assert_eq!(desk.standing().await, (vec![1], vec![100]));
}

/// Rule 24: at its end and later, a reservation takes and charges nothing, whatever it would be answered, and its id is
/// not known.
pub async fn a_reservation_at_its_end_changes_nothing<S: StoreUnderTest>(subject: &S) {
    let desk = Desk::new(subject);
    let end = subject.now().await;
    for taken in 0..=2 {
        let standing = desk.standing().await;
        for hold in [(0, 1), (1, 0), (1, 10), (1, 101), (2, 10), (3, 10)] {
            let hold = TestedHold::new(hold.0, hold.1);
            for end in [end, end - LONG] {
                let holds = desk.before(end);
                assert!(reserve(&holds, hold, end).await.is_err(), "{hold:?} beside {taken}");
                assert_eq!(holds.renews(hold).await, HoldAnswer::Expired);
            }
        }
        assert_eq!(desk.standing().await, standing);
        if taken < 2 {
            let hold = TestedHold::new(1, 20);
            assert!(reserve(&desk.before(end), hold, end).await.is_err());
            let states = desk.holds().reserves(hold).await;
            assert!(states.is_admitted() && !states.is_repeated(), "{states:?}");
        }
    }
    assert_eq!(desk.standing().await, (vec![2], vec![40]));
}

/// Rules 16 and 24: a repeated reservation gets its first answer at any time, and an id that belongs to other terms, or is
/// settled, its usual one.
pub async fn a_known_id_gets_the_same_answer_at_any_time<S: StoreUnderTest>(subject: &S) {
    let desk = Desk::new(subject);
    let now = subject.now().await;
    let hold = desk.before(now + LONG).takes(1, 40).await;
    let late = desk.before(now);
    let states = late.reserves(hold).await;
    assert!(states.is_admitted() && states.is_repeated(), "{states:?}");
    assert_eq!((states.in_flight()[0].units(), states.charged()[0].used()), (1, 40));
    assert_eq!(late.asks(TestedHold { cost: 41, ..hold }).await, HoldAnswer::Conflict);
    // The id is not bound to the end.
    for holds in [desk.holds(), desk.before(now + 2 * LONG)] {
        assert!(holds.reserves(hold).await.is_repeated());
    }
    assert_eq!(desk.standing().await, (vec![1], vec![40]));
    late.ends(hold).await;
    assert_eq!(late.asks(hold).await, HoldAnswer::Ended);
    assert_eq!(desk.standing().await, (vec![0], vec![40]));
}

/// Rule 24: a look, a renewal and the end of a hold heed no end.
pub async fn only_a_reservation_heeds_its_end<S: StoreUnderTest>(subject: &S) {
    let desk = Desk::new(subject);
    let now = subject.now().await;
    let hold = desk.before(now + LONG).takes(1, 40).await;
    let late = desk.before(now);
    let looked = late.looks(1, 10).await;
    assert!(looked.is_admitted(), "{looked:?}");
    assert_eq!(late.renews(hold).await, HoldAnswer::Renewed { left: late.length() });
    let HoldAnswer::Settled(states) = late.settles(hold, &[HoldAdjustment::Charge(5)]).await else {
        panic!("it is settled");
    };
    assert_eq!(states[0].used(), 45);
}

/// Rules 6, 14 and 24: before the end, a denial in flight charges what a denial charges; afterwards nothing.
pub async fn a_denial_in_flight_is_counted_before_the_end_alone<S: StoreUnderTest>(subject: &S) {
    let words = quota("100/1h").with_count_denied(CountDenied::Overdraft);
    let desk = Desk { quotas: vec![words], ..Desk::new(subject) };
    let now = subject.now().await;
    desk.holds().takes(2, 1).await;
    let denied = TestedHold::new(1, 5);
    assert!(reserve(&desk.before(now), denied, now).await.is_err());
    assert_eq!(desk.standing().await, (vec![2], vec![1]));
    let states = desk.before(now + LONG).reserves(denied).await;
    assert_eq!(states.reason(), Some(Reason::InFlightExceeded));
    assert_eq!(desk.standing().await, (vec![2], vec![6]));
    assert!(reserve(&desk.before(now), denied, now).await.is_err());
    assert_eq!(desk.standing().await, (vec![2], vec![6]));
}

/// Rules 16 and 24: so has a hold without charges, or without units in flight.
pub async fn a_reservation_of_quotas_alone_has_an_end<S: StoreUnderTest>(subject: &S) {
    let now = subject.now().await;
    let (units, words) = ([in_flight("2~in_flight")], [quota("100/1h")]);
    for (key, units, words) in [("words", &[][..], &words[..]), ("units", &units[..], &[][..])] {
        let holds = |end| HoldsUnderTest::new(subject, units, words).with_key(key).with_end(end);
        let hold = TestedHold::new(1, 10);
        assert!(reserve(&holds(now), hold, now).await.is_err(), "{key}");
        assert_eq!(holds(now).renews(hold).await, HoldAnswer::Expired, "{key}");
        let states = holds(now + LONG).reserves(hold).await;
        assert!(states.is_admitted() && !states.is_repeated(), "{key}: {states:?}");
        assert!(holds(now).reserves(hold).await.is_repeated(), "{key}");
    }
}

/// Rule 24: a hold is taken in the millisecond before its end, not in that of its end, and again after a step back.
pub async fn a_hold_is_taken_until_the_millisecond_before_its_end<S: SettableClock>(subject: &S) {
    let desk = Desk { in_flight: vec![in_flight("9~in_flight")], ..Desk::new(subject) };
    let end = subject.now().await + Duration::from_secs(2);
    let holds = desk.before(end);
    for (millis, live) in [(-2_000, 1), (-1, 2), (0, 2), (1, 2), (2_000, 2), (-1, 3), (0, 3)] {
        let now = Timestamp::from_unix_millis(end.as_unix_millis() + millis);
        subject.set_time(now);
        let answer = reserve(&holds, TestedHold::new(1, 1), end).await;
        assert_eq!(answer.is_ok(), millis < 0, "{answer:?} at {millis}");
        if let Err(ended) = answer {
            assert_eq!(ended, now);
        }
        assert_eq!(desk.standing().await, (vec![live], vec![live.into()]), "at {millis}");
    }
}
