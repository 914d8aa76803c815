//! Batches of requests that lie in several slots, while servers of the Cluster are in trouble.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tollgate::{Charge, Key, PolicyQuota, QuotaStates};
use tollgate_redis::{AcrossSlots, RedisStore};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Cluster, SLOTS, Server};

use crate::cluster::{primaries, url};
use crate::crowd::{USUAL, build, builder, patient, spawn, trouble};
use crate::diary::Tally;
use crate::fault::{DEADLINE, Fault, Found, Round};

/// Connections are cut and servers stand still while batches of 100 take units of two slots each.
pub(crate) const RESERVE: Fault = Fault { name: "reserve", round: hang };

/// The same while replicas take over from their primaries, as agreed.
pub(crate) const FAILOVER: Fault = Fault { name: "reserve-failover", round: failover };

#[test]
fn a_batch_across_slots_takes_one_deadline_and_loses_no_unit() {
    RESERVE.test(1);
}

#[test]
fn a_batch_across_slots_loses_no_unit_when_replicas_take_over() {
    FAILOVER.test(1);
}

/// Requests of a batch, and callers with batches of their own.
const BATCH: u64 = 100;
const CALLERS: u64 = 2;

/// Of a whole batch, whose requests are taken one after another.
const BATCH_DEADLINE: Duration = Duration::from_millis(200);

/// After which a batch that has not been admitted never is. How soon one is admitted is judged with all recoveries.
const RECOVERY: Duration = Duration::from_secs(60);

/// For how long units are given back after a failure.
const GIVING_BACK: Duration = Duration::from_secs(10);

/// What became of each request of a caller's batches.
struct Reserved {
    tallies: Vec<Tally>,
    found: Found,
}

/// Brings trouble about. There are so many times of it in a round.
type Disturb<'a> = &'a mut dyn FnMut(&mut Round, &Cluster);

fn hang(round: &mut Round) {
    reserve(round, 10, &mut |round, cluster| disturb(round, &primaries(cluster)));
}

fn failover(round: &mut Round) {
    let slot = round.rng.u16(0..SLOTS);
    // Of one primary after another: a node votes for another replica of the same one after minutes.
    let mut slots = [0, 1, 2].map(|third| (slot + third * (SLOTS / 3)) % SLOTS).into_iter();
    reserve(round, slots.len(), &mut |_, cluster| {
        if let Some(slot) = slots.next() {
            cluster.fail_over(slot);
        }
    });
}

fn reserve(round: &mut Round, times: usize, disturb: Disturb<'_>) {
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
    for _ in 0..times {
        sleep(round.millis(20..200));
        disturb(round, &cluster);
        round.found.faults += 1;
    }
    is_over.store(true, Relaxed);
    let store = build(patient(&url(&cluster)));
    let callers: Vec<Reserved> = callers.into_iter().map(|caller| block_on(caller).unwrap()).collect();
    let given_back = Instant::now() + GIVING_BACK;
    for (caller, Reserved { tallies, found }) in (0..).zip(callers) {
        round.found.add(found);
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
    let mut is_over_since = None;
    loop {
        let start = Instant::now();
        if is_over.load(Relaxed) {
            is_over_since.get_or_insert(start);
        }
        let answers = store.charge_each(&batch).await;
        let all_admitted = answers.iter().all(|answer| answer.as_ref().is_ok_and(QuotaStates::is_admitted));
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
        // Once the trouble has ended, a batch that has room is admitted, each request of it (G2).
        if let Some(since) = is_over_since {
            if all_admitted {
                reserved.found.recoveries.push(start - since);
                return reserved;
            }
            if since.elapsed() > RECOVERY {
                let tallies = &reserved.tallies;
                let what =
                    format!("not a whole batch is admitted {RECOVERY:?} after the trouble: {tallies:?} (G2)");
                reserved.found.violations.push(what);
                return reserved;
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
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
