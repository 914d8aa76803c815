//! The connection is cut at every byte of a request and of its reply.
//!
//! Here it is known what has to come of every charge: it ran if all of its request has passed, and is acknowledged
//! if all of its reply has.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::crowd::trouble;
use tollgate::{Charge, Key, PolicyQuota};
use tollgate_redis::RedisError;
use tollgate_redis::RedisStore;
use tollgate_testkit::StoreSteps;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{ByteDirection, ConnectionEnd, FaultProxy, Server};

use crate::crowd::{build, patient};
use crate::expiry;
use crate::fault::{Fault, Found, Round};

/// Cut at every byte, closed or reset.
pub(crate) const CUT: Fault = Fault { name: "cut", round: cut };

#[test]
fn a_charge_that_is_cut_at_any_byte_counts_once_or_not_at_all() {
    CUT.test(3);
}

/// Connections that are cut at the same time, so that they need not wait for each other to be made again.
const LANES: usize = 16;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// No round crosses the end of one of these.
const DECADE: Duration = Duration::from_secs(3653 * 24 * 3600);
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);

/// Quotas that take different ways through the script: a window from the first hit, one that the caller declares,
/// and two at once.
const QUOTAS: [&[&str]; 3] =
    [&["1000000/1d@first_hit"], &["1000000/year@Europe/Berlin"], &["1000000/1d@first_hit", "1000000/3653d"]];

fn cut(round: &mut Round) {
    let server = Server::start(round.software());
    let texts = round.in_turn(&QUOTAS);
    let quotas: Vec<_> = (0..).zip(texts).map(|(n, text)| policy(n, text)).collect();
    // So that each byte is cut in both ways in one round or the next.
    let parity = round.rng.u64(0..2);
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                let (server, quotas, next) = (&server, &quotas, &next);
                scope.spawn(move || Lane::start(server, quotas, lane).cut_all(next, parity))
            })
            .collect();
        for lane in lanes {
            round.found.add(lane.join().unwrap());
        }
    });
    let longest = [("policy-0", DAY.max(YEAR)), ("policy-1", DECADE)];
    expiry::check(&server, &longest, &mut round.found);
}

fn policy(number: usize, text: &str) -> PolicyQuota {
    PolicyQuota::new(&format!("policy-{number}"), text.parse().unwrap())
}

/// One connection, and one who charges.
struct Lane<'a> {
    proxy: FaultProxy,
    store: RedisStore,
    quotas: &'a [PolicyQuota],
    key: String,
    /// What was certainly counted.
    used: u64,
    found: Found,
}

impl<'a> Lane<'a> {
    fn start(server: &Server, quotas: &'a [PolicyQuota], lane: usize) -> Self {
        let proxy = FaultProxy::before(server.address());
        // Patient, so that a stall of a busy machine is no unknown outcome.
        let store = build(patient(&format!("redis://{}", proxy.address())).connections(1));
        let key = format!("lane-{lane}");
        let mut lane = Self { proxy, store, quotas, key, used: 0, found: Found::default() };
        // From here on all counts are spelt with as many digits.
        lane.charge(100_000).unwrap();
        lane.used = 100_000;
        lane
    }

    /// Takes the next place to cut until there is none left.
    fn cut_all(mut self, next: &AtomicU64, parity: u64) -> Found {
        let before = [ByteDirection::Request, ByteDirection::Reply].map(|way| self.proxy.arrived(way));
        self.charge(1).unwrap();
        self.used += 1;
        let request = self.proxy.arrived(ByteDirection::Request) - before[0];
        let reply = self.proxy.arrived(ByteDirection::Reply) - before[1];
        loop {
            let place = next.fetch_add(1, Relaxed);
            let ending = if place % 2 == parity { ConnectionEnd::Close } else { ConnectionEnd::Reset };
            if place <= request {
                self.cut(ByteDirection::Request, place, ending, place == request, false);
            } else if place - request <= reply + 1 {
                let after = place - request - 1;
                self.cut(ByteDirection::Reply, after, ending, true, after == reply);
            } else {
                return self.found;
            }
        }
    }

    /// Cuts once, and waits until all is well again.
    fn cut(&mut self, way: ByteDirection, after: u64, ending: ConnectionEnd, runs: bool, is_told: bool) {
        let what = format!("{}: cut ({ending:?}) after {after} bytes of {way:?}", self.quotas[0].windows());
        self.proxy.cut(way, after, ending);
        let start = Instant::now();
        let answer = self.charge(1);
        self.found.took.push(start.elapsed());
        self.found.faults += 1;
        self.used += u64::from(runs);
        match answer {
            Ok(used) => {
                self.found.expect(is_told && used == self.used, || format!("{what}: {used} used (G7)"));
            }
            Err(error) => self
                .found
                .expect(!is_told && error.may_have_charged(), || format!("{what}: said {error:?} (G6)")),
        }
        // What is sent before the cut is noticed comes to nothing.
        let start = Instant::now();
        let mut served = self.charge(1);
        while served.is_err() && start.elapsed() < Duration::from_secs(60) {
            served = self.charge(1);
        }
        self.found.recoveries.push(start.elapsed());
        self.used += 1;
        let expected = self.used;
        self.found.expect(served == Ok(expected), || format!("{what}: {served:?}, not {expected} (G7)"));
        // Each is judged by itself.
        self.used = served.unwrap_or(expected);
    }

    /// Units used of every quota, which have to be as many.
    fn charge(&mut self, cost: u32) -> Result<u64, RedisError> {
        let key = Key::from(&*self.key);
        let charges: Vec<_> = self.quotas.iter().map(|quota| Charge::new(quota, &key, cost)).collect();
        let counted = block_on(self.store.charge(&charges)).map_err(trouble)?;
        let used: Vec<u64> = counted.iter().map(tollgate::QuotaState::used).collect();
        let (admitted, equal) = (counted.is_admitted(), used.iter().all(|each| *each == used[0]));
        self.found.expect(admitted && equal, || format!("{used:?}, admitted: {admitted} (G6)"));
        Ok(used[0])
    }
}
