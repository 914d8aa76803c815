//! The same random steps on a server and in memory: the answers are the same.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tollgate::{
    Charge, CountDenied, HoldAdjustment, HoldAnswer, HoldId, HoldLength, HoldStates, HoldStep, HoldTerms,
    InFlightCharge, Key, ManualClock, Mark, MemoryStore, PolicyInFlight, PolicyQuota, Step, Timestamp,
};
use tollgate_redis::RedisStore;
use tollgate_testkit::servers::{Server, Settings, Software};
use tollgate_testkit::{StoreSteps, instant};

use super::take;
use crate::servers::{build, store};

/// Quotas of every kind, with every way to charge denials.
const QUOTAS: [&str; 6] =
    ["12/10s", "12/10s@first_hit", "12/10s~burst", "12/10s~sliding", "12/10s~log:1s", "12/day@Europe/Berlin"];

#[derive(Debug, Clone)]
enum Asked {
    Reserve(Shape),
    Look(Shape),
    Renew(Shape),
    /// By how much each cost is missed, and whether an overrun is charged within the limit only.
    Settle(Shape, [i8; 2], bool),
    Reset(usize),
    /// A charge without a hold.
    Charge(usize, u32),
    Wait(u64),
}

/// A hold: its id and key, and the units and costs.
#[derive(Debug, Clone, Copy)]
struct Shape {
    id: u8,
    key: usize,
    units: [u32; 2],
    costs: [u32; 2],
    length: u64,
}

fn shape() -> impl Strategy<Value = Shape> {
    // An id nearly always has its own parts, so that it is found again.
    let own = (0..5_u8).prop_map(|id| {
        let n = u32::from(id);
        Shape { id, key: usize::from(id) % 2, units: [1 + n % 3, n % 2], costs: [n * 2, 3], length: 4_000 }
    });
    let other = (0..5_u8, 0..2_usize, [0..4_u32, 0..3], [0..9_u32, 0..14], 1_000..30_000_u64)
        .prop_map(|(id, key, units, costs, length)| Shape { id, key, units, costs, length });
    prop_oneof![5 => own, 1 => other]
}

fn asked() -> impl Strategy<Value = Asked> {
    prop_oneof![
        6 => shape().prop_map(Asked::Reserve),
        1 => shape().prop_map(Asked::Look),
        3 => shape().prop_map(Asked::Renew),
        4 => (shape(), [-4..5_i8, -4..5], any::<bool>()).prop_map(|(shape, by, cap)| Asked::Settle(shape, by, cap)),
        1 => (0..2_usize).prop_map(Asked::Reset),
        2 => (0..2_usize, 0..5_u32).prop_map(|(key, cost)| Asked::Charge(key, cost)),
        4 => prop_oneof![1..50_u64, 500..6_000_u64].prop_map(Asked::Wait),
    ]
}

struct Sides<'s> {
    server: &'s Server,
    redis: RedisStore,
    clock: ManualClock,
    memory: MemoryStore<ManualClock>,
    in_flight: [PolicyInFlight; 2],
    quotas: [PolicyQuota; 2],
    keys: [Key<'static>; 2],
    ids: Vec<HoldId>,
    /// The marks of the last charges of each id.
    marks: Vec<[Option<Mark>; 2]>,
    /// The expired units of each limit that the server and the memory have reported.
    expired: [[u32; 2]; 2],
    now: Timestamp,
}

impl Sides<'_> {
    fn both<T: PartialEq + std::fmt::Debug>(redis: T, memory: T) -> Result<T, TestCaseError> {
        prop_assert_eq!(&redis, &memory, "the server, and then the memory");
        Ok(redis)
    }

    /// Adds up the expired units, and takes them out of the answers. Memory reports those of all keys of a policy. The
    /// server reports later, or never.
    fn without_expired(&mut self, answers: [HoldAnswer; 2]) -> Result<[HoldAnswer; 2], TestCaseError> {
        for (side, answer) in answers.iter().enumerate() {
            if let HoldAnswer::Decided(states) = answer {
                for (place, state) in states.in_flight().iter().enumerate() {
                    self.expired[place][side] += state.expired();
                }
            }
        }
        for [redis, memory] in self.expired {
            prop_assert!(redis <= memory, "{redis} expired units on the server, and {memory} in memory");
        }
        Ok(answers.map(|answer| match answer {
            HoldAnswer::Decided(states) => {
                let in_flight = states.in_flight().iter().map(|state| state.with_expired(0)).collect();
                let others = HoldStates::new(in_flight, states.charged().clone());
                HoldAnswer::Decided(if states.is_repeated() { others.repeated() } else { others })
            }
            other => other,
        }))
    }

    fn take(&mut self, asked: &Asked) -> Result<(), TestCaseError> {
        let shape = match asked {
            Asked::Wait(millis) => {
                self.now = self.now + Duration::from_millis(*millis);
                self.server.clock().set(self.now);
                self.clock.set(self.now);
                return Ok(());
            }
            Asked::Charge(key, cost) => {
                let charges = self.quotas.each_ref().map(|quota| Charge::new(quota, &self.keys[*key], *cost));
                let redis = tollgate_testkit::block_on(self.redis.charge(&charges)).unwrap();
                Self::both(redis, self.memory.take(Step::Charge(&charges)).unwrap())?;
                return Ok(());
            }
            Asked::Reset(which) => {
                let step = HoldStep::Reset(InFlightCharge::new(&self.in_flight[*which], &self.keys[0], 0));
                Self::both(take(&self.redis, step).unwrap(), self.memory.take_hold(step).unwrap())?;
                return Ok(());
            }
            Asked::Reserve(shape) | Asked::Look(shape) | Asked::Renew(shape) | Asked::Settle(shape, ..) => {
                shape
            }
        };
        let key = &self.keys[shape.key];
        let units = [0, 1].map(|place| InFlightCharge::new(&self.in_flight[place], key, shape.units[place]));
        let charges = [0, 1].map(|place| Charge::new(&self.quotas[place], key, shape.costs[place]));
        let length = HoldLength::new(Duration::from_millis(shape.length)).unwrap();
        let terms = HoldTerms::new(self.ids[usize::from(shape.id)], &units, &charges, length);
        let marks = self.marks[usize::from(shape.id)];
        let adjustments = match asked {
            Asked::Settle(_, by, caps) => [0, 1].map(|place| match (by[place], marks[place]) {
                (0, _) | (..0, None) => HoldAdjustment::Keep,
                (by @ ..0, Some(mark)) => HoldAdjustment::GiveBack {
                    units: u32::from(by.unsigned_abs()).min(shape.costs[place]),
                    mark,
                },
                (by, _) if *caps => HoldAdjustment::ChargeUpTo(u32::from(by.unsigned_abs())),
                (by, _) => HoldAdjustment::Charge(u32::from(by.unsigned_abs())),
            }),
            _ => [HoldAdjustment::Keep; 2],
        };
        let step = match asked {
            Asked::Reserve(_) => HoldStep::Reserve(terms),
            Asked::Look(_) => HoldStep::Look(terms),
            Asked::Renew(_) => HoldStep::Renew(terms),
            _ => HoldStep::Settle(terms, &adjustments),
        };
        let answers = [take(&self.redis, step).unwrap(), self.memory.take_hold(step).unwrap()];
        let [redis, memory] = self.without_expired(answers)?;
        let answer = Self::both(redis, memory)?;
        if let (HoldAnswer::Decided(states), Asked::Reserve(_)) = (&answer, asked) {
            self.marks[usize::from(shape.id)] = [0, 1].map(|place| Some(states.charged()[place].mark()));
        }
        Ok(())
    }
}

fn check(software: Software) {
    let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    let steps = (
        proptest::collection::vec(asked(), 20..80),
        [0..QUOTAS.len(), 0..QUOTAS.len()],
        prop::sample::select(vec![CountDenied::No, CountDenied::Yes, CountDenied::Overdraft]),
    );
    let server = Settings::new(software).steered_clock().start();
    runner
        .run(&steps, |(steps, quotas, count_denied)| {
            let now = instant("2030-01-01T00:00:00Z");
            server.clock().set(now);
            let clock = ManualClock::default();
            clock.set(now);
            let quota = |policy: &str, place: usize| PolicyQuota::new(policy, QUOTAS[place].parse().unwrap());
            let mut sides = Sides {
                redis: build(store(&server).local_denials(0)),
                server: &server,
                memory: MemoryStore::builder().clock(clock.clone()).build(),
                clock,
                in_flight: [
                    PolicyInFlight::new("jobs", "4~in_flight:5s".parse().unwrap()),
                    PolicyInFlight::new("team", "3~in_flight".parse().unwrap()),
                ],
                quotas: [quota("jobs", quotas[0]).with_count_denied(count_denied), quota("team", quotas[1])],
                keys: ["alice".into(), "bob".into()],
                ids: (0..5).map(|_| HoldId::random()).collect(),
                marks: vec![[None; 2]; 5],
                expired: [[0; 2]; 2],
                now,
            };
            steps.iter().try_for_each(|asked| sides.take(asked))
        })
        .unwrap();
}

#[test]
fn a_server_and_the_memory_give_the_same_answers() {
    for software in Software::ALL {
        check(software);
    }
}
