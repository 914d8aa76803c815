//! Quotas that are not fixed windows, each charged by the only client of its key, who knows all that was admitted.
//!
//! The clock goes forward by steps, or denials are remembered; not both, because a denial is remembered by this process's
//! clock. In the end the clock goes back by an hour.

use std::thread;
use std::time::Duration;

use fastrand::Rng;
use tollgate::{Charge, Key, PolicyQuota, Source, Timestamp, WindowLength};
use tollgate_redis::RedisStore;
use tollgate_testkit::kinds::AdmissionLedger;
use tollgate_testkit::servers::{Server, Settings};
use tollgate_testkit::{StoreSteps, block_on};

use crate::crowd::{build, builder};
use crate::expiry;
use crate::fault::{Fault, Found, Round};
use crate::process::url;

pub(crate) const KINDS: Fault = Fault { name: "kinds", round: kinds };

#[test]
fn quotas_of_all_kinds_keep_their_promises_on_a_server() {
    KINDS.test(2);
}

/// Units come back while they are asked for, some of them after a fraction of a millisecond.
const QUOTAS: [&str; 8] = [
    "70/1s~burst:3",
    "37/1s~burst:1",
    "3000/1m~burst:9",
    "20/300ms~sliding",
    "31/1s~sliding",
    "9/200ms~log",
    "40/1s~log:30ms",
    "25/700ms~log:100ms",
];

/// Decisions of a client.
const ASKS: usize = 300;

/// The longest step forward, in milliseconds.
const LONGEST: i64 = 700;

/// How far the clock goes back in the end: no counter is as long as that.
const BACK: i64 = 3_600_000;

/// Longer than any of these counts.
const LONG: Duration = Duration::from_secs(10);

fn kinds(round: &mut Round) {
    let server = Settings::new(round.software()).steered_clock().start();
    let steps = round.rng.bool();
    let patient = builder(&url(&server)).deadline(Duration::from_secs(30));
    let store = build(if steps { patient.local_denials(0) } else { patient });
    let quotas = QUOTAS.map(|text| PolicyQuota::new("kinds", text.parse().unwrap()));
    let found: Vec<Found> = thread::scope(|scope| {
        let clients: Vec<_> = quotas
            .iter()
            .map(|quota| {
                let (store, server, rng) = (&store, &server, round.rng.fork());
                scope.spawn(move || ask(quota, store, server, rng))
            })
            .collect();
        while steps && !clients.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(20));
            server.clock().step(round.rng.i64(1..LONGEST));
            round.found.faults += 1;
        }
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    found.into_iter().for_each(|found| round.found.add(found));
    expiry::check(&server, &[("kinds", LONG)], &mut round.found);
    server.clock().step(-BACK);
    for quota in &quotas {
        expect_room_soon(quota, &server, &mut round.found);
    }
}

/// Charges a key of its own, and compares every answer with what was admitted.
fn ask(quota: &PolicyQuota, store: &RedisStore, server: &Server, mut rng: Rng) -> Found {
    let (mut found, mut ledger) = (Found::default(), AdmissionLedger::new(quota.quota()));
    let key = key_of(quota);
    for _ in 0..ASKS {
        let cost = rng.u32(1..=2).min(u32::try_from(quota.quota().capacity()).unwrap());
        // The store decides no earlier.
        let before = server.time();
        let answer = block_on(store.charge(&[Charge::new(quota, &key, cost)]));
        let Ok(counted) = answer else {
            found.violations.push(format!("{}: {answer:?} (G6)", quota.quota()));
            return found;
        };
        let (state, cost) = (counted[0], u64::from(cost));
        let decided = if state.source() == Source::Local { before.max(state.now()) } else { state.now() };
        let what = || format!("{} {state:?}, asked for {cost} after {before:?}", quota.quota());
        found.expect(state.has_room() == ledger.admits(decided, cost), || {
            format!("decided wrongly: {}", what())
        });
        if state.has_room() {
            ledger.admit(state.now(), cost);
        } else {
            let is_exact = |at: Timestamp| {
                ledger.admits(at, cost) && !ledger.admits(at - Duration::from_millis(1), cost)
            };
            found.expect(state.retry_at().is_some_and(is_exact), || format!("not the wait: {}", what()));
        }
        if !found.violations.is_empty() {
            return found;
        }
        thread::sleep(Duration::from_micros(rng.u64(0..4_000)));
    }
    found
}

/// However far the clock went back, nobody is locked out for longer than the kind allows.
fn expect_room_soon(quota: &PolicyQuota, server: &Server, found: &mut Found) {
    let store = build(builder(&url(server)).deadline(Duration::from_secs(30)).local_denials(0));
    let key = key_of(quota);
    let charge = || block_on(store.charge(&[Charge::new(quota, &key, 1)]));
    let (first, longest) = (charge(), longest_wait(quota));
    let is_bounded =
        first.as_ref().is_ok_and(|counted| counted[0].retry_after().unwrap_or_default() <= longest);
    found.expect(is_bounded, || format!("{}: {first:?}, at most {longest:?} (rule 12)", quota.quota()));
    server.clock().step(i64::try_from(longest.as_millis()).unwrap());
    let later = charge();
    let is_admitted = later.as_ref().is_ok_and(tollgate::QuotaStates::is_admitted);
    found.expect(is_admitted, || format!("{}: {later:?} after {first:?} (rule 12)", quota.quota()));
}

fn longest_wait(quota: &PolicyQuota) -> Duration {
    let quota = quota.quota();
    let WindowLength::Fixed(window) = quota.window() else { unreachable!("no quota here is a calendar's") };
    match (quota.bucket(), quota.log_step()) {
        (Some(bucket), _) => {
            Duration::from_millis((2 * bucket.burst() * bucket.unit()).div_ceil(bucket.parts()))
        }
        (None, Some(step)) => window + step,
        (None, None) => 2 * window,
    }
}

/// Two of the buckets are one counter if they have one key.
fn key_of(quota: &PolicyQuota) -> Key<'static> {
    Key::from(quota.quota().to_string())
}
