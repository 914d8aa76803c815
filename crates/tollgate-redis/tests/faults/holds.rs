//! Holds of the only client of a key, who knows all that lives: replies are lost and steps repeated, the clock goes
//! forward by steps, and in the end everybody is gone and every key expires.
//!
//! The oracle is a list of holds with their ends, and a sum. It shares nothing with the store.

use std::time::Duration;

use fastrand::Rng;
use tollgate::{
    Charge, HoldAdjustment, HoldAnswer, HoldId, HoldLength, HoldStates, HoldStep, HoldTerms, InFlightCharge,
    Key, Mark, PolicyInFlight, PolicyQuota, Store, StoreError, Timestamp,
};
use tollgate_redis::RedisStore;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Server, Settings};

use crate::crowd::{build, patient};
use crate::expiry;
use crate::fault::{Fault, Found, Round};
use crate::process::url;

pub(crate) const HOLDS: Fault = Fault { name: "holds", round: holds };

#[test]
fn holds_keep_their_promises_on_a_server() {
    HOLDS.test(3);
}

/// Small, so that holds meet it all the time.
const UNITS: u32 = 4;

/// What is given back is not used up in a test.
const COSTS: u64 = 1_000_000;

/// How many steps the client takes.
const STEPS: usize = 300;

const LENGTHS: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(8)];

/// A hold that was admitted.
#[derive(Debug, Clone, Copy)]
struct Known {
    id: HoldId,
    units: u32,
    cost: u32,
    length: Duration,
    end: Timestamp,
    mark: Mark,
    /// How it was settled, so that its units are free. `end` is then until when the id is remembered.
    settled: Option<HoldAdjustment>,
    /// Whether its units were reset.
    is_lost: bool,
}

struct Client<'r> {
    server: &'r Server,
    store: RedisStore,
    jobs: PolicyInFlight,
    words: PolicyQuota,
    key: Key<'static>,
    rng: Rng,
    now: Timestamp,
    known: Vec<Known>,
    used: u64,
    found: Found,
}

/// What is asked of a hold.
#[derive(Debug, Clone, Copy)]
enum Ask {
    Reserve,
    Look,
    Renew,
    Settle(HoldAdjustment),
}

fn holds(round: &mut Round) {
    let server = Settings::new(round.software()).steered_clock().start();
    let now = server.time();
    server.clock().set(now);
    let mut client = Client {
        server: &server,
        store: build(patient(&url(&server)).local_denials(0)),
        jobs: PolicyInFlight::new("holds", format!("{UNITS}~in_flight").parse().unwrap()),
        words: PolicyQuota::new("holds", format!("{COSTS}/3653d").parse().unwrap()),
        key: "only".into(),
        rng: round.rng.fork(),
        now,
        known: Vec::new(),
        used: 0,
        found: Found::default(),
    };
    for _ in 0..STEPS {
        client.step();
    }
    round.found.add(client.found);
    // A policy's counter of ten years, and what holds leave for a length.
    let years = Duration::from_secs(3_654 * 86_400);
    expiry::check(&server, &[("holds", years), ("", LENGTHS[1])], &mut round.found);
}

impl Client<'_> {
    fn step(&mut self) {
        match self.rng.u32(0..12) {
            0..4 => self.reserve(),
            4..6 => self.repeat(),
            6..8 => self.renew(),
            8..10 => self.settle(),
            10 => self.wait(),
            _ if self.rng.u32(0..6) == 0 => self.reset(),
            _ => self.wait(),
        }
        self.compare();
    }

    fn ask(&self, known: &Known, ask: Ask) -> Result<HoldAnswer, StoreError> {
        let units = [InFlightCharge::new(&self.jobs, &self.key, known.units)];
        let charges = [Charge::new(&self.words, &self.key, known.cost)];
        let terms = HoldTerms::new(known.id, &units, &charges, HoldLength::new(known.length).unwrap());
        let adjustments = [if let Ask::Settle(adjustment) = ask { adjustment } else { HoldAdjustment::Keep }];
        let step = match ask {
            Ask::Reserve => HoldStep::Reserve(terms),
            Ask::Look => HoldStep::Look(terms),
            Ask::Renew => HoldStep::Renew(terms),
            Ask::Settle(_) => HoldStep::Settle(terms, &adjustments),
        };
        block_on(async { self.store.hold_until(step, None).await })
    }

    fn decided(&self, known: &Known, ask: Ask) -> Option<HoldStates> {
        match self.ask(known, ask) {
            Ok(HoldAnswer::Decided(states)) => Some(states),
            _ => None,
        }
    }
}

impl Client<'_> {
    fn live(&self) -> u32 {
        let live = |known: &&Known| known.settled.is_none() && !known.is_lost && known.end > self.now;
        self.known.iter().filter(live).map(|known| known.units).sum()
    }

    /// Notes a broken promise if it is broken.
    fn expect(&mut self, holds: bool, what: &str, seen: impl std::fmt::Debug) {
        let place = self.found.faults;
        self.found.expect(holds, || format!("{what}, at step {place}: {seen:?}"));
    }

    fn any(&mut self) -> Option<usize> {
        // Mostly late ones, of which more are live.
        let count = self.known.len();
        (count > 0).then(|| count - 1 - self.rng.usize(0..count.min(10)))
    }

    fn reserve(&mut self) {
        let length = LENGTHS[self.rng.usize(0..2)];
        let units = if self.rng.u32(0..10) == 0 { UNITS + 1 } else { self.rng.u32(1..3) };
        let known = Known {
            id: HoldId::random(),
            units,
            cost: self.rng.u32(0..50),
            length,
            end: self.now,
            mark: Mark::at(self.now),
            settled: None,
            is_lost: false,
        };
        self.decide(known, None);
    }

    /// Reserves with an id that is not known any more, or never was.
    fn decide(&mut self, known: Known, place: Option<usize>) {
        let live = self.live();
        let has_room = live + known.units <= UNITS;
        let Some(states) = self.decided(&known, Ask::Reserve) else {
            return self.expect(false, "a new hold is decided", known);
        };
        self.expect(
            states.is_admitted() == has_room,
            "a hold is admitted if and only if it has room",
            &states,
        );
        self.expect(!states.is_repeated(), "a new hold is no repetition", &states);
        if !states.is_admitted() {
            return;
        }
        self.used += u64::from(known.cost);
        self.expect(states.in_flight()[0].live() == live + known.units, "its units are live", &states);
        let known = Known {
            end: self.now + known.length,
            mark: states.charged()[0].mark(),
            settled: None,
            is_lost: false,
            ..known
        };
        match place {
            Some(place) => self.known[place] = known,
            None => self.known.push(known),
        }
    }

    /// Reserves again, as after a lost reply, or with another cost.
    fn repeat(&mut self) {
        let Some(place) = self.any() else { return };
        let known = self.known[place];
        if known.end <= self.now {
            return self.decide(known, Some(place));
        }
        if self.rng.u32(0..4) == 0 {
            let answer = self.ask(&Known { cost: known.cost + 1, ..known }, Ask::Reserve);
            return self.expect(
                matches!(answer, Ok(HoldAnswer::Conflict)),
                "an id is bound to its cost",
                answer,
            );
        }
        let answer = self.ask(&known, Ask::Reserve);
        let is_right = match &answer {
            Ok(HoldAnswer::Decided(states)) => {
                known.settled.is_none() && states.is_repeated() && states.charged()[0].mark() == known.mark
            }
            Ok(HoldAnswer::Ended) => known.settled.is_some(),
            _ => false,
        };
        if matches!(answer, Ok(HoldAnswer::Decided(_))) {
            self.known[place].end = self.now + known.length;
        }
        self.expect(is_right, "a repeated reservation gets its first answer", answer);
    }

    fn renew(&mut self) {
        let Some(place) = self.any() else { return };
        let known = self.known[place];
        let answer = self.ask(&known, Ask::Renew);
        let is_right = match &answer {
            Ok(HoldAnswer::Expired) => known.end <= self.now,
            Ok(HoldAnswer::Ended) => known.end > self.now && known.settled.is_some(),
            Ok(HoldAnswer::Lost) => known.end > self.now && known.is_lost && known.settled.is_none(),
            Ok(HoldAnswer::Renewed { left }) => {
                known.end > self.now && !known.is_lost && known.settled.is_none() && *left == known.length
            }
            _ => false,
        };
        self.expect(is_right, "a renewal says what became of the hold", (known, &answer));
        if matches!(answer, Ok(HoldAnswer::Renewed { .. } | HoldAnswer::Lost)) {
            self.known[place].end = self.now + known.length;
        }
    }

    fn settle(&mut self) {
        let Some(place) = self.any() else { return };
        let known = self.known[place];
        let (adjustment, used) = if self.rng.bool() {
            let units = self.rng.u32(0..=known.cost);
            let used = self.used - u64::from(units).min(self.used);
            (HoldAdjustment::GiveBack { units, mark: known.mark }, used)
        } else {
            let units = self.rng.u32(1..9);
            (HoldAdjustment::Charge(units), self.used + u64::from(units))
        };
        // Once it is settled, half of the calls repeat the first one.
        let adjustment = known.settled.filter(|_| self.rng.bool()).unwrap_or(adjustment);
        let answer = self.ask(&known, Ask::Settle(adjustment));
        match answer {
            Ok(HoldAnswer::Expired) => {
                self.expect(
                    known.end <= self.now,
                    "a hold that lives or is remembered has not expired",
                    known,
                );
            }
            Ok(HoldAnswer::Settled(_)) => {
                let is_right = known.end > self.now && known.settled.is_none_or(|first| first == adjustment);
                self.expect(is_right, "a hold settles once, while it lives or is remembered", known);
                if known.settled.is_none() && known.end > self.now {
                    self.used = used;
                    let end = self.now + known.length.min(Duration::from_secs(10));
                    self.known[place] = Known { settled: Some(adjustment), end, ..known };
                }
            }
            Ok(HoldAnswer::Conflict) => {
                let is_right = known.end > self.now && known.settled.is_some_and(|first| first != adjustment);
                self.expect(is_right, "only a settled hold refuses another settlement", known);
            }
            answer => self.expect(false, "a hold is settled or has expired", answer),
        }
    }

    fn reset(&mut self) {
        let live = self.live();
        let charge = InFlightCharge::new(&self.jobs, &self.key, 0);
        let answer = block_on(async { self.store.hold_until(HoldStep::Reset(charge), None).await });
        let is_right = matches!(answer, Ok(HoldAnswer::Forgotten { units }) if units == live);
        self.expect(is_right, "a reset forgets the live units", (live, answer));
        let now = self.now;
        let live = |known: &&mut Known| known.settled.is_none() && known.end > now;
        self.known.iter_mut().filter(live).for_each(|known| known.is_lost = true);
    }

    fn wait(&mut self) {
        let wait = Duration::from_millis(self.rng.u64(1..2_500));
        self.now = self.now + wait;
        self.server.clock().set(self.now);
    }

    /// What the store counts is what lives and what was charged.
    fn compare(&mut self) {
        self.found.faults += 1;
        let look = Known {
            id: HoldId::random(),
            units: 1,
            cost: 0,
            length: LENGTHS[0],
            end: self.now,
            mark: Mark::at(self.now),
            settled: None,
            is_lost: false,
        };
        let (live, used) = (self.live(), self.used);
        let seen = self.decided(&look, Ask::Look);
        let is_right = seen
            .as_ref()
            .is_some_and(|states| (states.in_flight()[0].live(), states.charged()[0].used()) == (live, used));
        self.expect(is_right, "the store counts what is live and used", (live, used, seen));
        let names: Vec<String> = self.server.command(["KEYS", "*~in_flight*"]);
        let latest = (self.now + LENGTHS[1] + Duration::from_secs(1)).as_unix_millis();
        for name in names {
            let expiry: i64 = self.server.command(["PEXPIRETIME", &name]);
            self.expect((0..=latest).contains(&expiry), "units in flight expire", expiry);
        }
    }
}
