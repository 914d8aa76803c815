//! The server's clock jumps, forward and back.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tollgate::{Charge, Key, PolicyQuota, QuotaState};
use tollgate_redis::{KeyIdentity, RedisStore};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Server, Settings};

use crate::cluster;
use crate::crowd::{build, builder};
use crate::expiry;
use crate::fault::{Fault, Found, Round};
use crate::ledger;
use crate::process::url;
use crate::skew::skewed;

/// Jumps of a millisecond up to a day and a half, in both directions, while short windows open and close.
pub(crate) const CLOCK: Fault = Fault { name: "clock", round: clock };

/// The same on the primaries of a Cluster, each with a time of its own, by a millisecond up to an hour.
pub(crate) const CLUSTER: Fault = Fault { name: "cluster-clock", round: cluster_clock };

#[test]
fn a_clock_that_jumps_reopens_no_window_and_locks_nobody_out() {
    CLOCK.test(2);
}

#[test]
fn clocks_of_a_cluster_that_jump_reopen_no_window() {
    CLUSTER.test(1);
}

/// Short windows of all kinds, and one that callers declare by their estimate of the server's time.
const QUOTAS: [&str; 6] = [
    "20/200ms@staggered",
    "20/200ms@first_hit",
    "20/1s",
    "20/1s@staggered",
    "1000000/1h",
    "1000000/day@Europe/Berlin",
];

const DAY: Duration = Duration::from_secs(25 * 3600);

/// A step back of no more than this moves no window.
const SHORT_STEP: Duration = Duration::from_secs(1);

/// Jumps of a round, forward and back.
const JUMPS: u64 = 20;

/// The longest jumps, in milliseconds.
const DAYS: i64 = 36 * 3_600_000;
const HOUR: i64 = 3_600_000;

fn clock(round: &mut Round) {
    let server = Settings::new(round.software()).steered_clock().start();
    jump(round, &url(&server), &[&server], |_| &server, DAYS);
}

fn cluster_clock(round: &mut Round) {
    let cluster = skewed(round);
    let server_of = |tag: &str| cluster.primary_of(cluster.slot_of(tag));
    jump(round, &cluster::url(&cluster), &cluster::primaries(&cluster), server_of, HOUR);
}

/// How far a clock jumps. Short jumps are as likely as long ones, and one in eight is the shortest, one the longest.
fn millis(rng: &mut Rng, longest: i64) -> i64 {
    match rng.u8(0..8) {
        0 => 1,
        1 => longest,
        _ => {
            let power = rng.u32(0..=longest.ilog2());
            rng.i64(1..=longest.min(2 << power))
        }
    }
}

#[test]
fn clocks_jump_by_a_millisecond_up_to_what_is_promised() {
    let mut rng = Rng::with_seed(0);
    for longest in [HOUR, DAYS] {
        let jumps: Vec<i64> = (0..1_000).map(|_| millis(&mut rng, longest)).collect();
        assert_eq!((jumps.iter().min(), jumps.iter().max()), (Some(&1), Some(&longest)));
        let short = jumps.iter().filter(|jump| **jump <= 2_000).count();
        assert!((300..700).contains(&short), "{short} of 1,000 jumps are of two seconds at most");
    }
}

fn jump<'s>(
    round: &mut Round,
    url: &str,
    servers: &[&'s Server],
    server_of: impl Fn(&str) -> &'s Server,
    longest: i64,
) {
    // For how long a denial is remembered is told by this process's clock, which does not jump.
    let store = build(builder(url).local_denials(0).identity(KeyIdentity::Plain));
    let (jumps, is_over) = (Jumps::default(), AtomicBool::new(false));
    let quotas = QUOTAS.map(|text| PolicyQuota::new("jumping", text.parse().unwrap()));
    thread::scope(|scope| {
        let witnesses: Vec<_> = (0..12)
            .map(|number: usize| {
                let witness = Witness::new(&quotas[number % quotas.len()], format!("caller-{number}"));
                let (store, jumps, is_over) = (&store, &jumps, &is_over);
                scope.spawn(move || witness.watch(store, jumps, is_over))
            })
            .collect();
        for _ in 0..JUMPS {
            thread::sleep(round.millis(20..120));
            let server = servers[round.rng.usize(0..servers.len())];
            let millis = millis(&mut round.rng, longest);
            jumps.jump(server, if round.rng.bool() { millis } else { -millis });
            round.found.faults += 1;
        }
        thread::sleep(Duration::from_millis(300));
        is_over.store(true, Relaxed);
        let mut compared = 0;
        for witness in witnesses {
            let Witness { quota, key, last, unknown, found, .. } = witness.join().unwrap();
            round.found.add(found);
            let tag = format!("{{{key}}}");
            let name = format!("tollgate:1:jumping:*:{tag}");
            let is_there = last.is_some_and(|last| {
                ledger::check(server_of(&tag), &name, quota, &last, unknown, &mut round.found)
            });
            compared += u32::from(is_there);
        }
        // Those of long windows at least.
        round.found.expect(compared > 0, || "no server has any of the counters".to_owned());
    });
    // A counter that nobody has touched since the clock went back may lie there for as long as it went back.
    let total = Duration::from_millis(JUMPS * longest.unsigned_abs());
    for server in servers {
        expiry::check(server, &[("jumping", DAY + total)], &mut round.found);
    }
}

/// How often the clock went forward and back: counted before it does, and again after.
#[derive(Default)]
struct Jumps {
    begun: [AtomicU64; 2],
    done: [AtomicU64; 2],
}

impl Jumps {
    fn jump(&self, server: &Server, millis: i64) {
        let way = usize::from(millis < 0);
        self.begun[way].fetch_add(1, Relaxed);
        server.clock().step(millis);
        self.done[way].fetch_add(1, Relaxed);
    }
}

fn read(counts: &[AtomicU64; 2]) -> [u64; 2] {
    [counts[0].load(Relaxed), counts[1].load(Relaxed)]
}

/// The only one who charges a counter, one charge after another, and so knows what each has to say.
struct Witness<'a> {
    quota: &'a PolicyQuota,
    key: String,
    last: Option<QuotaState>,
    /// Charges since then whose outcome is unknown.
    unknown: u64,
    /// Jumps that were over when the last answer was asked for.
    jumps: [u64; 2],
    found: Found,
}

impl<'a> Witness<'a> {
    fn new(quota: &'a PolicyQuota, key: String) -> Self {
        Self { quota, key, last: None, unknown: 0, jumps: [0; 2], found: Found::default() }
    }

    fn watch(mut self, store: &RedisStore, jumps: &Jumps, is_over: &AtomicBool) -> Self {
        let key = Key::from(self.key.clone());
        let charge = [Charge::new(self.quota, &key, 1)];
        // To be served again takes a window here.
        let mut denied_since: Option<Instant> = None;
        let began = Instant::now();
        // Who is hasty on a machine that is busy may not have been served yet.
        while !is_over.load(Relaxed) || (self.last.is_none() && began.elapsed() < Duration::from_secs(60)) {
            let (start, done) = (Instant::now(), read(&jumps.done));
            let answer = block_on(store.charge(&charge));
            self.found.took.push(start.elapsed());
            match answer {
                Ok(counted) => {
                    let begun = read(&jumps.begun);
                    self.compare(counted[0], [0, 1].map(|way| begun[way] > self.jumps[way]));
                    (self.last, self.unknown, self.jumps) = (Some(counted[0]), 0, done);
                    if counted.is_admitted() {
                        self.found.recoveries.extend(denied_since.take().map(|since| since.elapsed()));
                    } else {
                        denied_since.get_or_insert(start);
                    }
                }
                Err(error) => self.unknown += u64::from(error.may_have_charged()),
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.found.expect(self.last.is_some(), || format!("{} was never served", self.quota.windows()));
        self
    }

    fn compare(&mut self, state: QuotaState, [went_forward, went_back]: [bool; 2]) {
        let (window, now, used) = (state.window().unwrap(), state.now(), state.used());
        let (unknown, last) = (self.unknown, self.last);
        let what = || format!("{} {state:?} after {last:?}, {unknown} unknown", self.quota.windows());
        let (begun, is_open) = (window.start() <= now + SHORT_STEP, now < window.end());
        self.found.expect(begun && is_open, || format!("not its time: {}", what()));
        self.found.expect(used <= state.limit(), || format!("over the limit (G1): {}", what()));
        let lengths = [("200ms", 200), ("1s", 1_000), ("1h", 3_600_000)];
        let length = lengths.into_iter().find(|(text, _)| self.quota.windows().starts_with(text));
        let is_long = length.is_some_and(|(_, millis)| window.length() != Duration::from_millis(millis));
        self.found.expect(!is_long, || format!("locked out for longer than a window: {}", what()));
        let Some(last) = last else { return };
        let taken = u64::from(state.has_room());
        let goes_on = (last.used() + taken..=last.used() + taken + unknown).contains(&used);
        let begins = (taken..=taken + unknown).contains(&used);
        let expected = if (went_forward || unknown > 0) && went_back {
            // It may have gone past the end, where the server forgets the counter, and come back. Or a charge of
            // unknown outcome moved the counter into the window to which it went back, and that is over.
            goes_on || begins
        } else if now >= last.window().unwrap().end() {
            // A window that is over is not counted again (G5).
            begins
        } else if now + SHORT_STEP >= last.window().unwrap().start() {
            // It went back by no more than a second, which moves no window.
            goes_on && window == last.window().unwrap()
        } else {
            // However far it went back, what was used stays used.
            goes_on && went_back && window != last.window().unwrap()
        };
        self.found.expect(expected, || format!("reopened, moved, or counted after its end: {}", what()));
    }
}
