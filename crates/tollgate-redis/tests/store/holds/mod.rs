//! Holds with an id on real servers: what is particular to this store.

mod across;
mod side_by_side;

use std::time::Duration;

use tollgate::{
    Charge, HoldAdjustment, HoldAnswer, HoldId, HoldLength, HoldStates, HoldStep, HoldTerms, InFlightCharge,
    Key, Mark, PolicyInFlight, PolicyQuota, Reason, Store, StoreError,
};
use tollgate_redis::{KeyLayout, RedisError, RedisStore};
use tollgate_testkit::servers::{Server, Settings, Software};
use tollgate_testkit::{StoreSteps, block_on, instant};

use crate::servers::{build, is, on_cluster, shared, shared_cluster, store};

/// A limit in flight and a quota of one key.
struct Desk {
    store: RedisStore,
    jobs: PolicyInFlight,
    words: PolicyQuota,
    key: Key<'static>,
}

/// A hold of its key.
#[derive(Clone, Copy)]
struct Asked {
    id: HoldId,
    units: u32,
    cost: u32,
}

impl Asked {
    fn new(units: u32, cost: u32) -> Self {
        Self { id: HoldId::random(), units, cost }
    }
}

impl Desk {
    fn new(store: RedisStore, jobs: &str, words: &str) -> Self {
        Self {
            store,
            jobs: PolicyInFlight::new("jobs", jobs.parse().unwrap()),
            words: PolicyQuota::new("jobs", words.parse().unwrap()),
            key: "alice".into(),
        }
    }

    /// Takes the step of a hold of these units and this cost.
    fn take(&self, asked: Asked, ask: Ask) -> Result<HoldAnswer, StoreError> {
        let units = [InFlightCharge::new(&self.jobs, &self.key, asked.units)];
        let charges = [Charge::new(&self.words, &self.key, asked.cost)];
        let terms = HoldTerms::new(asked.id, &units, &charges, HoldLength::default());
        let adjustments = [if let Ask::Settle(adjustment) = ask { adjustment } else { HoldAdjustment::Keep }];
        take(
            &self.store,
            match ask {
                Ask::Reserve => HoldStep::Reserve(terms),
                Ask::Look => HoldStep::Look(terms),
                Ask::Renew => HoldStep::Renew(terms),
                Ask::Settle(_) => HoldStep::Settle(terms, &adjustments),
            },
        )
    }

    fn ask(&self, asked: Asked, ask: Ask) -> HoldAnswer {
        self.take(asked, ask).unwrap()
    }

    fn reserve(&self, asked: Asked) -> HoldStates {
        decided(self.ask(asked, Ask::Reserve))
    }

    fn renew(&self, asked: Asked) -> HoldAnswer {
        self.ask(asked, Ask::Renew)
    }

    fn settle(&self, asked: Asked, adjustment: HoldAdjustment) -> HoldAnswer {
        self.ask(asked, Ask::Settle(adjustment))
    }

    fn live(&self) -> u32 {
        let asked = Asked::new(1, 1);
        decided(self.ask(asked, Ask::Look)).in_flight()[0].live()
    }

    fn used(&self) -> u64 {
        block_on(self.store.peek(&[Charge::new(&self.words, &self.key, 0)])).unwrap()[0].used()
    }
}

/// What is asked of a hold.
#[derive(Clone, Copy)]
enum Ask {
    Reserve,
    Look,
    Renew,
    Settle(HoldAdjustment),
}

fn take(store: &RedisStore, step: HoldStep<'_>) -> Result<HoldAnswer, StoreError> {
    block_on(async { store.hold_until(step, None).await })
}

fn decided(answer: HoldAnswer) -> HoldStates {
    let HoldAnswer::Decided(states) = answer else { panic!("{answer:?}") };
    states
}

fn settled(answer: &HoldAnswer) -> Vec<u32> {
    let HoldAnswer::Settled(states) = answer else { panic!("{answer:?}") };
    states.iter().map(|state| state.units()).collect()
}

fn repeated(answer: HoldAnswer) -> HoldAnswer {
    let HoldAnswer::Settled(states) = answer else { panic!("{answer:?}") };
    HoldAnswer::Settled(states.repeated())
}

fn mark(states: &HoldStates) -> Mark {
    states.charged()[0].mark()
}

#[test]
fn a_hold_takes_and_charges_in_one_step_and_is_settled_once() {
    for software in Software::ALL {
        let server = shared(software);
        let desk = Desk::new(build(store(&server)), "3~in_flight", "100/1h");
        let (first, second) = (Asked::new(2, 60), Asked::new(1, 60));
        let states = desk.reserve(first);
        assert!(states.is_admitted() && !states.is_repeated());
        assert_eq!((states.in_flight()[0].live(), states.charged()[0].used()), (2, 60));
        // The quota has no room, so no unit is taken; then the limit in flight has none, so nothing is charged.
        assert_eq!(desk.reserve(second).reason(), Some(Reason::QuotaExceeded));
        assert_eq!((desk.live(), desk.used()), (2, 60));
        assert_eq!(desk.reserve(Asked::new(2, 1)).reason(), Some(Reason::InFlightExceeded));
        assert_eq!(desk.reserve(Asked::new(4, 1)).reason(), Some(Reason::CostExceedsLimit));
        assert_eq!((desk.live(), desk.used()), (2, 60));
        // A repetition gets the first answer, and with other terms a conflict.
        assert_eq!(desk.reserve(first), states.clone().repeated());
        assert_eq!(desk.ask(Asked { cost: 61, ..first }, Ask::Reserve), HoldAnswer::Conflict);
        assert_eq!(desk.renew(Asked { units: 1, ..first }), HoldAnswer::Conflict);
        assert_eq!(desk.renew(first), HoldAnswer::Renewed { left: Duration::from_secs(60) });
        let give = HoldAdjustment::GiveBack { units: 50, mark: mark(&states) };
        let answer = desk.settle(first, give);
        assert_eq!(settled(&answer), [50]);
        assert_eq!((desk.live(), desk.used()), (0, 10));
        assert_eq!(desk.settle(first, give), repeated(answer));
        assert_eq!(desk.settle(first, HoldAdjustment::Charge(9)), HoldAnswer::Conflict);
        assert_eq!(desk.ask(first, Ask::Reserve), HoldAnswer::Ended);
        assert_eq!(desk.renew(first), HoldAnswer::Ended);
        assert_eq!((desk.live(), desk.used()), (0, 10));
        assert_eq!(desk.settle(Asked::new(1, 1), give), HoldAnswer::Expired);
        // An overrun, of which only what fits is charged.
        assert!(desk.reserve(second).is_admitted());
        assert_eq!(settled(&desk.settle(second, HoldAdjustment::ChargeUpTo(90))), [30]);
        assert_eq!(desk.used(), 100);
    }
}

/// A denial charges what it would charge without a limit in flight.
#[test]
fn a_limit_in_flight_that_denies_charges_what_a_denial_charges() {
    let mut desk = Desk::new(build(store(&shared(Software::Redis))), "1~in_flight", "10/1h");
    desk.words = desk.words.with_count_denied(tollgate::CountDenied::Overdraft);
    assert!(desk.reserve(Asked::new(1, 4)).is_admitted());
    let denied = desk.reserve(Asked::new(1, 9));
    assert_eq!(denied.reason(), Some(Reason::InFlightExceeded));
    assert_eq!((denied.charged()[0].units(), desk.used()), (9, 13));
    let denied = desk.reserve(Asked::new(1, 1));
    assert_eq!(denied.reason(), Some(Reason::QuotaExceeded), "the quota decides if it denies too");
}

#[test]
fn a_reset_forgets_units_and_nothing_brings_them_back() {
    let desk = Desk::new(build(store(&shared(Software::Redis))), "3~in_flight", "100/1h");
    let (first, second) = (Asked::new(3, 10), Asked::new(3, 10));
    assert!(desk.reserve(first).is_admitted());
    let reset = || {
        let charge = InFlightCharge::new(&desk.jobs, &desk.key, 0);
        take(&desk.store, HoldStep::Reset(charge)).unwrap()
    };
    assert_eq!(reset(), HoldAnswer::Forgotten { units: 3 });
    assert_eq!(reset(), HoldAnswer::Forgotten { units: 0 });
    assert!(desk.reserve(second).is_admitted());
    assert_eq!(desk.renew(first), HoldAnswer::Lost);
    assert_eq!(desk.live(), 3);
    // It frees none of the second's.
    assert_eq!(settled(&desk.settle(first, HoldAdjustment::Charge(5))), [5]);
    assert_eq!((desk.live(), desk.used()), (3, 25));
}

/// A reset that the server refused was answered with the number of units, and they were still live.
#[test]
fn a_reset_that_the_server_refuses_is_an_error() {
    for software in Software::ALL {
        let server = Server::start(software);
        let desk = Desk::new(build(store(&server)), "3~in_flight", "100/1h");
        assert!(desk.reserve(Asked::new(3, 10)).is_admitted());
        let reset = || take(&desk.store, HoldStep::Reset(InFlightCharge::new(&desk.jobs, &desk.key, 0)));
        server.command::<()>(["CONFIG", "SET", "min-replicas-to-write", "1"]);
        assert!(matches!(reset(), Err(error) if RedisError::of(&error) == Some(&RedisError::NotReady)));
        assert_eq!(desk.live(), 3);
        server.command::<()>(["CONFIG", "SET", "min-replicas-to-write", "0"]);
        assert_eq!(reset().unwrap(), HoldAnswer::Forgotten { units: 3 });
        assert_eq!(desk.live(), 0);
    }
}

/// A server whose clock is moved by hand, and a limit in flight on it.
fn steered(jobs: &str) -> (Server, Desk) {
    let server = Settings::new(Software::Redis).steered_clock().start();
    server.clock().set(instant("2030-01-01T00:00:00Z"));
    let store = build(store(&server).local_denials(0));
    (server, Desk::new(store, jobs, "1000000/1h"))
}

#[test]
fn a_hold_ends_with_its_length_unless_it_is_renewed() {
    let (server, desk) = steered("2~in_flight:30s");
    let begun = instant("2030-01-01T00:00:00Z");
    let after = |millis| server.clock().set(begun + Duration::from_millis(millis));
    let (first, second) = (Asked::new(1, 1), Asked::new(1, 1));
    assert!(desk.reserve(first).is_admitted() && desk.reserve(second).is_admitted());
    after(20_000);
    assert_eq!(desk.renew(second), HoldAnswer::Renewed { left: Duration::from_secs(30) });
    after(29_999);
    assert_eq!(desk.live(), 2);
    after(30_000);
    assert_eq!(desk.live(), 1);
    assert_eq!(desk.renew(first), HoldAnswer::Expired);
    assert_eq!(desk.settle(first, HoldAdjustment::Charge(9)), HoldAnswer::Expired);
    assert!(desk.reserve(first).is_admitted(), "an expired id is as good as a new one");
    after(49_999);
    assert_eq!(desk.live(), 2);
    after(50_000);
    assert_eq!(desk.live(), 1);
    assert_eq!(desk.used(), 3, "what was charged stays charged");
    // A settled id is remembered for ten seconds.
    let answer = desk.settle(first, HoldAdjustment::Charge(9));
    after(59_999);
    assert_eq!(desk.settle(first, HoldAdjustment::Charge(9)), repeated(answer));
    after(60_000);
    assert_eq!(desk.settle(first, HoldAdjustment::Charge(9)), HoldAnswer::Expired);
}

/// Every name of a hold expires by itself, also if nothing is asked any more, and the last end decides.
#[test]
fn every_name_of_a_hold_expires() {
    let (server, desk) = steered("9~in_flight");
    let begun = instant("2030-01-01T00:00:00Z");
    let expiries = || -> Vec<i64> {
        let mut names: Vec<String> = server.command(["KEYS", "*in_flight*"]);
        names.extend(server.command::<Vec<String>>(["KEYS", "*~hold*"]));
        names.sort_unstable();
        names.iter().map(|name| server.command(["PEXPIRETIME", name])).collect()
    };
    let at = |seconds: u64| (begun + Duration::from_secs(seconds)).as_unix_millis() + 1_000;
    let (long, short) = (Asked::new(1, 1), Asked::new(1, 1));
    assert!(desk.reserve(long).is_admitted());
    assert_eq!(expiries(), [at(60), at(60)]);
    server.clock().set(begun + Duration::from_secs(30));
    let charge = [InFlightCharge::new(&desk.jobs, &desk.key, 1)];
    let terms = HoldTerms::new(short.id, &charge, &[], HoldLength::new(Duration::from_secs(5)).unwrap());
    assert!(decided(take(&desk.store, HoldStep::Reserve(terms)).unwrap()).is_admitted());
    let mut sorted = expiries();
    sorted.sort_unstable();
    assert_eq!(sorted, [at(35), at(60), at(60)], "a hold that ends earlier leaves the expiry");
    assert!(matches!(desk.renew(long), HoldAnswer::Renewed { .. }));
    let mut sorted = expiries();
    sorted.sort_unstable();
    assert_eq!(sorted, [at(35), at(90), at(90)]);
    // Another program has removed the expiry of the counter: the next hold restores it.
    let name: Vec<String> = server.command(["KEYS", "*in_flight*"]);
    server.command::<i64>(["PERSIST", &name[0]]);
    server.clock().set(begun + Duration::from_secs(80));
    let terms =
        HoldTerms::new(HoldId::random(), &charge, &[], HoldLength::new(Duration::from_secs(5)).unwrap());
    assert!(decided(take(&desk.store, HoldStep::Reserve(terms)).unwrap()).is_admitted());
    assert_eq!(server.command::<i64>(["PEXPIRETIME", &name[0]]), at(90));
}

/// Holds that nobody ends pile up nowhere: each step removes more than it adds.
#[test]
fn units_that_have_ended_are_removed_faster_than_new_ones_come() {
    let (server, desk) = steered("2000~in_flight:1s");
    let begun = instant("2030-01-01T00:00:00Z");
    let mut most = 0;
    for second in 0..12 {
        server.clock().set(begun + Duration::from_secs(2 * second));
        for _ in 0..2 {
            assert!(desk.reserve(Asked::new(1_000, 1)).is_admitted());
        }
        let name: Vec<String> = server.command(["KEYS", "*in_flight*"]);
        most = most.max(server.command::<i64>(["ZCARD", &name[0]]));
    }
    assert_eq!(most, 2_000);
    // A denial removes a hundred.
    let _ = desk.reserve(Asked::new(1_000, 1));
    server.clock().set(begun + Duration::from_millis(23_500));
    assert!(desk.reserve(Asked::new(1, 1)).is_admitted());
    let name: Vec<String> = server.command(["KEYS", "*in_flight*"]);
    assert_eq!(server.command::<i64>(["ZCARD", &name[0]]), 1_901);
}

/// However many units a hold asks for, a step does no more work than the most that a hold can have needs.
#[test]
fn a_request_for_many_units_sweeps_few() {
    let (server, desk) = steered("2000~in_flight");
    assert!(desk.reserve(Asked::new(1, 1)).is_admitted());
    let name: Vec<String> = server.command(["KEYS", "*in_flight*"]);
    for unit in 0..5_000 {
        server.command::<i64>(["ZADD", &name[0], "1", &unit.to_string()]);
    }
    for (units, left) in [(u32::MAX, 3_001), (2, 2_901), (1_000, 901)] {
        let _ = desk.reserve(Asked::new(units, 1_000_001));
        assert_eq!(server.command::<i64>(["ZCARD", &name[0]]), left, "{units}");
    }
}

/// After a step back, a hold would have lived for the whole step.
#[test]
fn a_step_back_leaves_no_unit_longer_than_the_longest_length() {
    let (server, desk) = steered("250~in_flight:10s");
    let begun = instant("2030-01-01T00:00:00Z");
    assert!(desk.reserve(Asked::new(150, 1)).is_admitted());
    let back = instant("2029-12-31T00:00:00Z");
    server.clock().set(back);
    assert!(desk.reserve(Asked::new(1, 1)).is_admitted());
    assert!(desk.reserve(Asked::new(1, 1)).is_admitted());
    assert_eq!(desk.live(), 152);
    let name: Vec<String> = server.command(["KEYS", "*in_flight*"]);
    assert_eq!(
        server.command::<i64>(["PEXPIRETIME", &name[0]]),
        (back + Duration::from_secs(10)).as_unix_millis() + 1_000
    );
    server.clock().set(back + Duration::from_millis(9_999));
    assert_eq!(desk.live(), 152);
    server.clock().set(back + Duration::from_secs(10));
    assert_eq!(desk.live(), 0);
    let _ = begun;
}

/// A key of a hold in which another program has written.
#[test]
fn a_key_that_is_no_hold_is_an_error_and_changes_nothing() {
    let server = shared(Software::Redis);
    let desk = Desk::new(build(store(&server).prefix("wrong")), "3~in_flight", "100/1h");
    let (asked, good) = (Asked::new(1, 1), Asked::new(1, 1));
    assert!(desk.reserve(good).is_admitted());
    let names: Vec<String> = server.command(["KEYS", "wrong:1:*~hold*"]);
    for value in ["nonsense", "this is longer than the head of a record is"] {
        server.command::<()>(["SET", &names[0], value]);
        for step in [Ask::Reserve, Ask::Renew] {
            let answer = desk.take(good, step);
            // A text of this length is a record that has ended.
            let is_short = value.len() < 34;
            assert_eq!(is(&answer, RedisError::WrongType), is_short, "{answer:?}");
        }
        server.command::<i64>(["DEL", &names[0]]);
    }
    let names: Vec<String> = server.command(["KEYS", "wrong:1:*in_flight*"]);
    server.command::<i64>(["DEL", &names[0]]);
    server.command::<()>(["SET", &names[0], "5"]);
    let used = desk.used();
    for step in [Ask::Reserve, Ask::Look] {
        assert!(is(&desk.take(asked, step), RedisError::WrongType));
    }
    assert_eq!(desk.used(), used);
    // A reset heals it.
    let charge = InFlightCharge::new(&desk.jobs, &desk.key, 0);
    take(&desk.store, HoldStep::Reset(charge)).unwrap();
    assert!(desk.reserve(asked).is_admitted());
}

/// On a Cluster, all names of one key are in one slot; several keys are refused.
#[test]
fn a_cluster_has_holds_of_one_key() {
    for software in Software::ALL {
        let cluster = shared_cluster(software);
        let desk = Desk::new(build(on_cluster(&cluster)), "2~in_flight", "100/1h");
        let (first, second) = (Asked::new(2, 60), Asked::new(1, 60));
        assert!(desk.reserve(first).is_admitted());
        assert!(desk.reserve(first).is_repeated());
        assert_eq!(desk.ask(Asked { cost: 1, ..first }, Ask::Reserve), HoldAnswer::Conflict);
        assert!(!desk.reserve(second).is_admitted());
        assert!(matches!(desk.renew(first), HoldAnswer::Renewed { .. }));
        assert_eq!(settled(&desk.settle(first, HoldAdjustment::Charge(1))), [1]);
        let bob = Key::from("bob");
        let charges = [Charge::new(&desk.words, &desk.key, 1), Charge::new(&desk.words, &bob, 1)];
        let terms = HoldTerms::new(HoldId::random(), &[], &charges, HoldLength::default());
        let refused = take(&desk.store, HoldStep::Reserve(terms));
        assert!(matches!(refused, Err(StoreError::Uncountable(_))), "{refused:?}");
    }
}

#[test]
fn another_systems_layout_has_no_holds() {
    let store = build(store(&shared(Software::Redis)).layout(KeyLayout::SPRING_STARTER));
    let desk = Desk::new(store, "2~in_flight", "100/1h");
    let answer = desk.take(Asked::new(1, 1), Ask::Reserve);
    assert!(matches!(answer, Err(StoreError::Uncountable(text)) if text.contains("layout")), "{answer:?}");
}
