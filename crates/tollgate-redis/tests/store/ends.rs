//! Charges and holds with an end, where this process or a Cluster could get it wrong.

use std::time::Duration;

use tollgate::{
    Charge, CountDenied, HoldAnswer, HoldId, HoldLength, HoldStep, HoldTerms, InFlightCharge, Key,
    PolicyInFlight, PolicyQuota, QuotaState, QuotaStates, Source, Step, Store, StoreError, Timestamp,
};
use tollgate_redis::{AcrossSlots, KeyLayout, RedisStore};
use tollgate_testkit::servers::{Cluster, SLOTS, Server, Settings, Software};
use tollgate_testkit::{StoreSteps, block_on};

use crate::servers::{build, on_cluster, store};

const MILLISECOND: Duration = Duration::from_millis(1);

fn charge_before(
    store: &RedisStore,
    charges: &[Charge<'_>],
    end: Timestamp,
) -> Result<QuotaStates, StoreError> {
    block_on(store.charge_before(charges, end))
}

fn steered(software: Software) -> (Server, Timestamp) {
    let server = Settings::new(software).steered_clock().start();
    let now = server.time();
    server.clock().set(now);
    (server, now)
}

#[track_caller]
fn assert_ended<A: std::fmt::Debug>(answer: Result<A, StoreError>, at: Timestamp) {
    assert!(matches!(&answer, Err(StoreError::Ended { now }) if *now == at), "{answer:?} at {at:?}");
    assert!(answer.is_err_and(|error| !error.may_have_charged() && !error.is_outage()));
}

/// Else an override whose end has come would go on denying in a process that remembers a denial by it.
#[test]
fn a_remembered_denial_does_not_answer_a_charge_with_an_end() {
    for software in Software::ALL {
        let (server, now) = steered(software);
        let store = build(store(&server));
        let (quota, key) = (PolicyQuota::new("any", "1/1h".parse().unwrap()), Key::from("alice"));
        let one = [Charge::new(&quota, &key, 1)];
        assert!(block_on(store.charge(&one)).unwrap().is_admitted());
        let denied = charge_before(&store, &one, now + MILLISECOND).unwrap();
        assert_eq!((denied.is_admitted(), denied[0].source()), (false, Source::Store));
        // That denial is remembered for others.
        let source = block_on(store.charge(&one)).unwrap()[0].source();
        assert_eq!(source, Source::Local);
        for _ in 0..3 {
            assert_ended(charge_before(&store, &one, now), now);
            let denied = charge_before(&store, &one, now + MILLISECOND).unwrap();
            assert_eq!((denied.is_admitted(), denied[0].source()), (false, Source::Store));
        }
        let steps = [now, now + MILLISECOND].map(|end| Step::ChargeBefore { charges: &one, end });
        let mut answers = block_on(async { store.step_each(&steps).await }).into_iter();
        assert_ended(answers.next().unwrap(), now);
        assert_eq!(answers.next().unwrap().unwrap()[0].source(), Source::Store);
    }
}

/// Windows in keys, a sorted set of RLaaS, and a calendar's window that the step names.
#[test]
fn counters_with_the_names_of_other_systems_are_charged_before_the_end_only() {
    let (server, now) = steered(Software::Redis);
    let own = |store: RedisStore, text: &str| (store, PolicyQuota::new("any", text.parse().unwrap()));
    let stores = [
        own(build(store(&server).layout(KeyLayout::RLAAS)), "9/10s~log"),
        own(build(store(&server).layout(KeyLayout::RLAAS)), "9/10s"),
        own(build(store(&server).layout(KeyLayout::SPRING_STARTER)), "9/1h"),
        own(build(store(&server)), "9/day@Europe/Berlin"),
    ];
    for (store, quota) in &stores {
        let key = Key::from("alice");
        let one = [Charge::new(quota, &key, 1)];
        let used = || block_on(store.peek(&one)).unwrap()[0].used();
        assert_ended(charge_before(store, &one, now), now);
        assert_eq!(used(), 0, "{quota:?}");
        for used in [1, 2] {
            let charged = charge_before(store, &one, now + MILLISECOND).unwrap();
            assert_eq!((charged.is_admitted(), charged[0].used()), (true, used), "{quota:?}");
        }
        assert_ended(charge_before(store, &one, now), now);
        assert_eq!(used(), 2, "{quota:?}");
    }
}

/// A Cluster, and two keys whose servers have clocks that stand still; the first one's slot is asked first.
struct Pair {
    cluster: Cluster,
    store: RedisStore,
    names: [String; 2],
    now: Timestamp,
}

impl Pair {
    fn new() -> Self {
        let cluster = Cluster::with(&Settings::new(Software::Redis).steered_clock()).calm();
        for node in cluster.nodes() {
            // By their own clocks, the others are away.
            node.command::<()>(["CONFIG", "SET", "cluster-node-timeout", "1000000000"]);
        }
        let named_in = |third: u16| {
            let slots = third * (SLOTS / 3) + 1..(third + 1) * (SLOTS / 3);
            let slot = |name: &String| cluster.slot_of(&format!("{{{name}}}"));
            (0..).map(|user| format!("user-{user}")).find(|name| slots.contains(&slot(name))).unwrap()
        };
        let names = [named_in(0), named_in(2)];
        let plain = on_cluster(&cluster).identity(tollgate_redis::KeyIdentity::Plain);
        let store = build(plain.across_slots(AcrossSlots::Reserve).local_denials(0));
        let now = cluster.nodes()[0].time();
        Self { store, names, now, cluster }
    }

    /// Sets the servers' clocks to so many milliseconds from now.
    fn set(&self, millis: [i64; 2]) -> [Timestamp; 2] {
        [0, 1].map(|place| {
            let slot = self.cluster.slot_of(&format!("{{{}}}", self.names[place]));
            let time = Timestamp::from_unix_millis(self.now.as_unix_millis() + millis[place]);
            self.cluster.primary_of(slot).clock().set(time);
            time
        })
    }

    fn used(&self, quotas: [&PolicyQuota; 2]) -> [u64; 2] {
        [0, 1].map(|place| {
            let key = Key::from(self.names[place].clone());
            block_on(self.store.peek(&[Charge::new(quotas[place], &key, 1)])).unwrap()[0].used()
        })
    }
}

/// Each server compares the end with its own clock, and what the others took is given back.
#[test]
fn a_charge_across_slots_is_made_in_all_of_them_before_its_end_or_in_none() {
    let pair = Pair::new();
    let quota = PolicyQuota::new("pair", "5/3653d".parse().unwrap());
    let keys = pair.names.each_ref().map(|name| Key::from(name.clone()));
    let charges = keys.each_ref().map(|key| Charge::new(&quota, key, 1));
    let end = Timestamp::from_unix_millis(pair.now.as_unix_millis() + 100);
    let used = || pair.used([&quota, &quota]);
    for (millis, ended) in [([100, 0], Some(0)), ([0, 100], Some(1)), ([250, 99], Some(0)), ([99, 99], None)]
    {
        let times = pair.set(millis);
        let answer = charge_before(&pair.store, &charges, end);
        match ended {
            Some(place) => {
                assert_ended(answer, times[place]);
                assert_eq!(used(), [0, 0], "{millis:?}");
            }
            None => {
                let charged = answer.unwrap();
                let counts: Vec<u64> = charged.iter().map(QuotaState::used).collect();
                assert_eq!((charged.is_admitted(), counts), (true, vec![1, 1]), "{millis:?}");
                assert_eq!(used(), [1, 1], "{millis:?}");
            }
        }
    }
}

/// The slots after a denial are charged for it, if denials count. There, too, it can be too late. The answer then had that
/// slot's quotas as unused, although the slot had answered.
#[test]
fn a_denial_across_slots_is_not_counted_where_the_end_has_come() {
    let pair = Pair::new();
    let first = PolicyQuota::new("pair", "0/3653d".parse().unwrap());
    let second =
        PolicyQuota::new("pair", "5/3653d".parse().unwrap()).with_count_denied(CountDenied::Overdraft);
    let keys = pair.names.each_ref().map(|name| Key::from(name.clone()));
    let charges = [Charge::new(&first, &keys[0], 1), Charge::new(&second, &keys[1], 1)];
    assert!(block_on(pair.store.charge(&charges[1..])).unwrap().is_admitted());
    let end = Timestamp::from_unix_millis(pair.now.as_unix_millis() + 100);
    let reserve = || {
        let terms = HoldTerms::new(HoldId::random(), &[], &charges, HoldLength::MAX).before(end);
        let answer = block_on(async { pair.store.hold_until(HoldStep::Reserve(terms), None).await });
        let Ok(HoldAnswer::Decided(states)) = answer else { panic!("{answer:?}") };
        states.charged().clone()
    };
    for (millis, expected) in [([0, 100], [1, 1]), ([0, 99], [2, 3])] {
        pair.set(millis);
        let charged = charge_before(&pair.store, &charges, end).unwrap();
        for (denied, used) in [charged, reserve()].iter().zip(expected) {
            assert!(!denied.is_admitted());
            assert_eq!((denied[1].used(), denied[1].source()), (used, Source::Store), "{millis:?}");
        }
        assert_eq!(pair.used([&first, &second]), [0, expected[1]], "{millis:?}");
    }
}

/// What a slot took of a hold that is too late for another one is given back, and its id is free.
#[test]
fn a_hold_across_slots_is_reserved_in_all_of_them_before_its_end_or_in_none() {
    let pair = Pair::new();
    let (jobs, quota) = (
        PolicyInFlight::new("pair", "5~in_flight".parse().unwrap()),
        PolicyQuota::new("pair", "5/3653d".parse().unwrap()),
    );
    let keys = pair.names.each_ref().map(|name| Key::from(name.clone()));
    let flights = keys.each_ref().map(|key| InFlightCharge::new(&jobs, key, 1));
    let charges = keys.each_ref().map(|key| Charge::new(&quota, key, 1));
    let end = Timestamp::from_unix_millis(pair.now.as_unix_millis() + 100);
    let (id, length) = (HoldId::random(), HoldLength::MAX);
    let terms = HoldTerms::new(id, &flights, &charges, length).before(end);
    let step = |step: HoldStep<'_>| block_on(async { pair.store.hold_until(step, None).await });
    let live = || match step(HoldStep::Look(terms)) {
        Ok(HoldAnswer::Decided(states)) => states.in_flight().iter().map(|it| it.live()).sum::<u32>(),
        other => panic!("{other:?}"),
    };
    for (millis, ended) in [([100, 0], 0), ([0, 100], 1)] {
        let times = pair.set(millis);
        // Twice, because an id that was left in a slot would be repeated there.
        for _ in 0..2 {
            assert_ended(step(HoldStep::Reserve(terms)), times[ended]);
            assert_eq!((live(), pair.used([&quota, &quota])), (0, [0, 0]), "{millis:?}");
        }
    }
    let is_repeated = |answer: &Result<HoldAnswer, StoreError>| {
        let Ok(HoldAnswer::Decided(states)) = answer else { panic!("{answer:?}") };
        assert!(states.is_admitted());
        states.is_repeated()
    };
    pair.set([99, 99]);
    assert!(!is_repeated(&step(HoldStep::Reserve(terms))));
    // Whatever the end.
    pair.set([100, 5_000]);
    assert!(is_repeated(&step(HoldStep::Reserve(terms))));
    assert_eq!((live(), pair.used([&quota, &quota])), (2, [1, 1]));
}
