//! Callers that go away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tollgate::{Charge, Key, PolicyQuota, Quota};
use tollgate_redis::RedisStore;
use tollgate_testkit::StoreSteps;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{ByteDirection, FaultProxy, Server};

use crate::crowd::{build, builder, spawn};
use crate::diary::Tally;
use crate::fault::{DEADLINE, Fault, Found, Round};

/// Decisions whose futures are dropped at any point, over a network that delays and now and then goes silent.
pub(crate) const CANCEL: Fault = Fault { name: "cancel", round: cancel };

#[test]
fn ten_thousand_who_go_away_keep_no_place_and_get_no_reply_of_others() {
    CANCEL.test(2);
}

const CALLERS: u64 = 16;

/// Of each caller: 10,000 of all of them in two rounds.
const DROPS: u64 = 320;

fn cancel(round: &mut Round) {
    let server = Server::start(round.software());
    let proxy = FaultProxy::before(server.address());
    // With one place, one that is kept is all of them.
    let url = format!("redis://{}", proxy.address());
    let store = build(builder(&url).deadline(DEADLINE).counters_in_flight(1));
    let quota = Arc::new(PolicyQuota::new("cancel", Quota::per_day(4_000_000_000)));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (store, quota, rng) = (store.clone(), quota.clone(), round.rng.fork());
            spawn(drop_and_ask(store, quota, caller, rng))
        })
        .collect();
    while !callers.iter().all(tokio::task::JoinHandle::is_finished) {
        for way in [ByteDirection::Request, ByteDirection::Reply] {
            proxy.delay(way, Duration::from_micros(round.rng.u64(0..3_000)));
            std::thread::sleep(round.millis(5..30));
        }
        if round.rng.u8(0..10) == 0 {
            proxy.hold(ByteDirection::Reply);
            std::thread::sleep(round.millis(5..60));
            proxy.release(ByteDirection::Reply);
        }
    }
    proxy.heal();
    let mut tallies = Vec::new();
    for caller in callers {
        let (tally, found) = block_on(caller).unwrap();
        tallies.push(tally);
        round.found.add(found);
    }
    for (caller, mut tally) in (0..).zip(tallies) {
        let used = served(&store, &quota, caller, &mut tally);
        tally.check(&format!("caller {caller}"), used, quota.quota().limit(), 0, &mut round.found);
    }
}

/// Drops a decision, then asks for one and looks whose it is, and so on.
async fn drop_and_ask(
    store: RedisStore,
    quota: Arc<PolicyQuota>,
    caller: u64,
    mut rng: fastrand::Rng,
) -> (Tally, Found) {
    let (key, mut tally, mut found) = (Key::from(caller), Tally::default(), Found::default());
    let charge = [Charge::new(&quota, &key, 1)];
    let mut last = 0;
    for _ in 0..DROPS {
        for wait in [Duration::from_micros(rng.u64(0..8_000)), Duration::from_secs(60)] {
            let start = Instant::now();
            let answer = timeout(wait, store.charge(&charge)).await;
            if answer.is_ok() {
                found.took.push(start.elapsed());
            }
            match answer {
                Ok(Ok(counted)) => {
                    tally.admitted += u64::from(counted.is_admitted());
                    let used = counted[0].used();
                    let possible = last + 1..=tally.most();
                    found.expect(counted.is_admitted() && possible.contains(&used), || {
                        format!("{used} used, not {possible:?}: counted twice, or another's reply (G7)")
                    });
                    last = used;
                }
                Ok(Err(error)) => tally.unknown += u64::from(error.may_have_charged()),
                Err(_dropped) => {
                    tally.unknown += 1;
                    found.faults += 1;
                }
            }
        }
    }
    (tally, found)
}

/// Units used after one more, which has to be served.
fn served(store: &RedisStore, quota: &PolicyQuota, caller: u64, tally: &mut Tally) -> u64 {
    let key = Key::from(caller);
    let start = Instant::now();
    // Only a place that is never given back makes all of them fail.
    while start.elapsed() < Duration::from_secs(60) {
        match block_on(store.charge(&[Charge::new(quota, &key, 1)])) {
            Ok(counted) => {
                tally.admitted += 1;
                return counted[0].used();
            }
            Err(error) => tally.unknown += u64::from(error.may_have_charged()),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("nobody is served any more: {:?}", store.status());
}
