//! Charges and holds with an end, while the server's clock goes forward by milliseconds.
//!
//! Each client is the only one of its key, and knows all that was charged. Ends lie around the server's time, so that
//! every answer may be the last before an end or the first after it.

use std::thread;
use std::time::Duration;

use fastrand::Rng;
use tollgate::{
    Charge, HoldAnswer, HoldId, HoldLength, HoldStep, HoldTerms, InFlightCharge, Key, PolicyInFlight,
    PolicyQuota, QuotaState, Store, StoreError, Timestamp,
};
use tollgate_redis::RedisStore;
use tollgate_testkit::servers::{Server, Settings};
use tollgate_testkit::{StoreSteps, block_on};

use crate::crowd::{build, patient};
use crate::fault::{Fault, Found, Round};
use crate::process::url;

pub(crate) const ENDS: Fault = Fault { name: "ends", round: ends };

#[test]
fn nothing_is_charged_at_an_end_and_everything_before_it() {
    ENDS.test(2);
}

/// Nothing of these comes back within a round, and nothing is denied.
const QUOTAS: [&str; 4] =
    ["1000000/3653d", "1000000/3653d@first_hit", "1000000/1h~log:1h", "1000000/year@Europe/Berlin"];

const UNITS: &str = "1000000~in_flight";

/// They share batches.
const CLIENTS: usize = 6;

/// Steps of a client.
const ASKS: usize = 150;

struct Client<'r> {
    store: &'r RedisStore,
    server: &'r Server,
    quotas: &'r [PolicyQuota],
    jobs: &'r PolicyInFlight,
    key: Key<'static>,
    rng: Rng,
    /// What was charged to each quota.
    used: Vec<u64>,
    /// A hold that was admitted.
    admitted: Option<HoldId>,
    found: Found,
}

fn ends(round: &mut Round) {
    let server = Settings::new(round.software()).steered_clock().start();
    server.clock().set(server.time());
    let store = build(patient(&url(&server)));
    let quotas = QUOTAS.map(|text| PolicyQuota::new("ends", text.parse().unwrap()));
    let jobs = PolicyInFlight::new("ends", UNITS.parse().unwrap());
    let found: Vec<Found> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let client = Client {
                    store: &store,
                    server: &server,
                    quotas: &quotas,
                    jobs: &jobs,
                    key: Key::from(format!("client-{number}")),
                    rng: round.rng.fork(),
                    used: vec![0; quotas.len()],
                    admitted: None,
                    found: Found::default(),
                };
                scope.spawn(move || client.run())
            })
            .collect();
        while !clients.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(2));
            server.clock().step(round.rng.i64(1..4));
            round.found.faults += 1;
        }
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    found.into_iter().for_each(|found| round.found.add(found));
}

impl Client<'_> {
    fn run(mut self) -> Found {
        for _ in 0..ASKS {
            let now = self.server.time();
            // The clock may have stepped since, so an end that lies ahead may have come.
            let end = Timestamp::from_unix_millis(now.as_unix_millis() + self.rng.i64(-1..=4));
            match self.rng.u8(0..4) {
                0 => self.reserve(end),
                1 => self.repeat(end),
                _ => self.charge(end),
            }
            if !self.found.violations.is_empty() {
                break;
            }
        }
        let charges: Vec<Charge<'_>> = self.quotas.iter().map(|it| Charge::new(it, &self.key, 1)).collect();
        let looked = block_on(self.store.peek(&charges)).unwrap();
        let used: Vec<u64> = looked.iter().map(QuotaState::used).collect();
        self.found.expect(used == self.used, || format!("{used:?} are used, {:?} were charged", self.used));
        self.found
    }

    /// Charges some of the quotas, by turns from one of them on.
    fn charge(&mut self, end: Timestamp) {
        let (first, count) = (self.rng.usize(0..self.quotas.len()), self.rng.usize(1..=self.quotas.len()));
        let places: Vec<usize> = (first..first + count).map(|place| place % self.quotas.len()).collect();
        let cost = self.rng.u32(1..3);
        let charges: Vec<Charge<'_>> =
            places.iter().map(|place| Charge::new(&self.quotas[*place], &self.key, cost)).collect();
        let answer = block_on(self.store.charge_before(&charges, end));
        let answer = answer.map(|counted| counted.iter().copied().collect::<Vec<_>>());
        self.judge(end, &places, cost, answer);
    }

    /// Reserves a hold of all quotas.
    fn reserve(&mut self, end: Timestamp) {
        let (id, places): (_, Vec<usize>) = (HoldId::random(), (0..self.quotas.len()).collect());
        let answer = self.hold(id, end).map(|answer| match answer {
            HoldAnswer::Decided(states) if states.is_admitted() && !states.is_repeated() => {
                states.charged().iter().copied().collect::<Vec<_>>()
            }
            other => panic!("a new hold that has room is {other:?}"),
        });
        if answer.is_ok() {
            self.admitted = Some(id);
        }
        self.judge(end, &places, 1, answer);
    }

    /// Repeats a hold that was admitted: its end does not matter any more.
    fn repeat(&mut self, end: Timestamp) {
        let Some(id) = self.admitted else { return };
        let answer = self.hold(id, end);
        let is_repeated = matches!(&answer, Ok(HoldAnswer::Decided(states)) if states.is_repeated());
        self.found.expect(is_repeated, || format!("a hold that was admitted: {answer:?}"));
    }

    fn hold(&self, id: HoldId, end: Timestamp) -> Result<HoldAnswer, StoreError> {
        let units = [InFlightCharge::new(self.jobs, &self.key, 1)];
        let charges: Vec<Charge<'_>> = self.quotas.iter().map(|it| Charge::new(it, &self.key, 1)).collect();
        let terms = HoldTerms::new(id, &units, &charges, HoldLength::MAX).before(end);
        block_on(async { self.store.hold_until(HoldStep::Reserve(terms), None).await })
    }

    fn judge(
        &mut self,
        end: Timestamp,
        places: &[usize],
        cost: u32,
        answer: Result<Vec<QuotaState>, StoreError>,
    ) {
        let what = || format!("{answer:?} before {end:?}");
        match &answer {
            Ok(states) => {
                for (place, state) in places.iter().zip(states) {
                    self.used[*place] += u64::from(cost);
                    let used = self.used[*place];
                    let is_right = state.now() < end && state.used() == used && state.has_room();
                    self.found.expect(is_right, || format!("{used} were charged: {}", what()));
                }
            }
            Err(error @ StoreError::Ended { now }) => {
                let is_right = *now >= end && !error.may_have_charged();
                self.found.expect(is_right, || format!("not too late: {}", what()));
            }
            Err(_) => self.found.violations.push(format!("no answer (G6): {}", what())),
        }
    }
}
