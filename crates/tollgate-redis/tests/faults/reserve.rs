//! Batches of requests that lie in several slots, while servers of the Cluster are in trouble.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tollgate::{Charge, Key, PolicyQuota};
use tollgate_redis::{AcrossSlots, RedisStore};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Cluster, Server};

use crate::cluster::{primaries, url};
use crate::crowd::{USUAL, build, builder, patient, spawn, trouble};
use crate::diary::Tally;
use crate::fault::{DEADLINE, Fault, Found, Round};

/// Connections are cut and servers stand still while batches of 100 take units of two slots each.
pub(crate) const RESERVE: Fault = Fault { name: "reserve", round: reserve };

#[test]
fn a_batch_across_slots_takes_one_deadline_and_loses_no_unit() {
    RESERVE.test(1);
}

/// Requests of a batch, and callers with batches of their own.
const BATCH: u64 = 100;
const CALLERS: u64 = 2;

/// Of a whole batch, whose requests are taken one after another.
const BATCH_DEADLINE: Duration = Duration::from_millis(200);

/// For how long units are given back after a failure.
const GIVING_BACK: Duration = Duration::from_secs(10);

/// What became of each request of a caller's batches.
struct Reserved {
    tallies: Vec<Tally>,
    found: Found,
}

fn reserve(round: &mut Round) {
    let cluster = Cluster::start(round.software()).calm();
    let reserving = |deadline| builder(&url(&cluster)).across_slots(AcrossSlots::Reserve).deadline(deadline);
    let store = build(reserving(BATCH_DEADLINE));
    let quotas =
        Arc::new(["wide", "twin"].map(|name| PolicyQuota::new(name, "1000000/3653d".parse().unwrap())));
    let is_over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let numbers = caller * BATCH..(caller + 1) * BATCH;
            spawn(ask(store.clone(), quotas.clone(), numbers, is_over.clone()))
        })
        .collect();
    for _ in 0..10 {
        sleep(round.millis(20..200));
        disturb(round, &primaries(&cluster));
        round.found.faults += 1;
    }
    is_over.store(true, Relaxed);
    let store = build(patient(&url(&cluster)));
    let given_back = Instant::now() + GIVING_BACK;
    for (caller, reserved) in (0..).zip(callers) {
        let Reserved { tallies, found } = block_on(reserved).unwrap();
        round.found.add(found);
        let served = tallies.iter().any(|tally| tally.admitted > 0);
        round.found.expect(served, || format!("caller {caller} was never served"));
        for (number, tally) in (caller * BATCH..).zip(tallies) {
            for (quota, key) in quotas.iter().zip(keys(number)) {
                let what = format!("request {number} under {}", quota.policy());
                judge(&what, &store, quota, &key, given_back, &tally, &mut round.found);
            }
        }
    }
}

fn disturb(round: &mut Round, servers: &[&Server]) {
    let server = servers[round.rng.usize(0..servers.len())];
    if round.rng.bool() {
        server.command::<u64>(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    } else {
        server.pause();
        sleep(round.millis(5..300));
        server.resume();
    }
}

/// Two keys, which lie in two slots nearly always.
fn keys(number: u64) -> [Key<'static>; 2] {
    ["left", "right"].map(|side| Key::from(format!("{side}-{number}")).into_owned())
}

async fn ask(
    store: RedisStore,
    quotas: Arc<[PolicyQuota; 2]>,
    numbers: Range<u64>,
    is_over: Arc<AtomicBool>,
) -> Reserved {
    let keys: Vec<[Key<'static>; 2]> = numbers.map(keys).collect();
    let charges: Vec<[Charge<'_>; 2]> = keys
        .iter()
        .map(|[left, right]| [Charge::new(&quotas[0], left, 1), Charge::new(&quotas[1], right, 1)])
        .collect();
    let batch: Vec<&[Charge<'_>]> = charges.iter().map(|charges| &charges[..]).collect();
    let mut reserved = Reserved { tallies: vec![Tally::default(); batch.len()], found: Found::default() };
    while !is_over.load(Relaxed) {
        let start = Instant::now();
        let answers = store.charge_each(&batch).await;
        // As if it had the deadline of the other faults, by which all are judged.
        reserved.found.took.push(start.elapsed().saturating_sub(BATCH_DEADLINE - DEADLINE));
        for (answer, tally) in answers.into_iter().zip(&mut reserved.tallies) {
            match answer {
                Ok(counted) => {
                    *(if counted.is_admitted() { &mut tally.admitted } else { &mut tally.denied }) += 1;
                }
                Err(error) => {
                    tally.unknown += u64::from(error.may_have_charged());
                    let error = trouble(error);
                    reserved.found.expect(USUAL.contains(&error), || {
                        format!("an error that is not what happened: {error} (G6)")
                    });
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    reserved
}

/// Both counters of a request have what was admitted, and at most what may have been. Units of requests that failed
/// are given back for a while after the answer.
fn judge(
    what: &str,
    store: &RedisStore,
    quota: &PolicyQuota,
    key: &Key<'_>,
    given_back: Instant,
    tally: &Tally,
    found: &mut Found,
) {
    let start = Instant::now();
    loop {
        let used = match block_on(store.peek(&[Charge::new(quota, key, 0)])) {
            Ok(counted) => counted[0].used(),
            Err(error) => {
                assert!(start.elapsed() < Duration::from_secs(60), "no look: {error}");
                continue;
            }
        };
        if used > tally.most() && Instant::now() < given_back {
            sleep(Duration::from_millis(50));
            continue;
        }
        return tally.check(what, used, quota.quota().limit(), 0, found);
    }
}
