//! Callers, connections and servers that are lost between one slot and the next.

use std::time::Duration;

use crate::servers::is;
use tollgate::{Source, Step, Store, StoreError};
use tollgate_redis::RedisError;
use tollgate_redis::RedisStore;
use tollgate_testkit::StoreSteps;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Cluster, Server, Software};

use super::{Pair, eventually, reserving, stands};
use crate::servers::build;

#[test]
fn a_caller_that_goes_away_half_way_leaves_nothing() {
    let cluster = Cluster::start(Software::Redis).calm();
    let store = build(reserving(&cluster, "gone"));
    let pair = Pair::new(&cluster, ["5/3653d", "5/3653d"]);
    let [first, second] = pair.servers(&cluster);
    block_on(async {
        assert!(pair.charge(&store).await.unwrap().is_admitted());
        second.pause();
        let caller = pair.begin(&store);
        pair.first_is(first, "gone", 2).await;
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        second.resume();
        pair.both_are(&store, [1, 1]).await;
    });
}

/// What it has reserved is counted until its window closes, and no more.
#[test]
fn a_process_that_ends_half_way_lets_nobody_in() {
    let cluster = Cluster::start(Software::Redis).calm();
    let other = build(reserving(&cluster, "ended"));
    let pair = Pair::new(&cluster, ["5/3653d", "5/3653d"]);
    let [first, second] = pair.servers(&cluster);
    let process = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    process.block_on(async {
        let store = reserving(&cluster, "ended").build().unwrap();
        assert!(pair.charge(&store).await.unwrap().is_admitted());
        second.pause();
        drop(pair.begin(&store));
        pair.first_is(first, "ended", 2).await;
    });
    process.shutdown_background();
    second.resume();
    block_on(async {
        let used = pair.used(&other).await;
        assert!(used[0] == 2 && (1..=2).contains(&used[1]), "{used:?} used");
        assert_eq!(admitted_of(&pair, &other, 6).await, 3);
    });
}

/// Whether the second slot charged is not known, so nothing is given back there, nor charged again.
#[test]
fn a_slot_that_hangs_costs_the_others_nothing() {
    let cluster = Cluster::start(Software::Redis).calm();
    let store = build(reserving(&cluster, "hangs").deadline(Duration::from_millis(800)));
    let pair = Pair::new(&cluster, ["5/3653d", "5/3653d"]);
    let [first, second] = pair.servers(&cluster);
    block_on(async {
        // A machine that is busy may be late by itself.
        eventually(async || pair.charge(&store).await).await;
        let before = pair.used(&store).await;
        second.pause();
        assert!(is(&pair.charge(&store).await, RedisError::TimedOut));
        pair.first_is(first, "hangs", before[0]).await;
        second.resume();
        let after = pair.used(&store).await;
        assert_eq!(after[0], before[0]);
        assert!((before[1]..=before[1] + 1).contains(&after[1]), "{after:?} used after {before:?}");
    });
}

#[test]
fn a_primary_that_dies_between_the_slots_admits_nobody_twice() {
    for software in Software::ALL {
        let cluster = Cluster::start(software).calm();
        let store = build(reserving(&cluster, "dies"));
        let pair = Pair::new(&cluster, ["9/3653d", "9/3653d"]);
        let [first, second] = pair.servers(&cluster);
        block_on(async {
            assert!(pair.charge(&store).await.unwrap().is_admitted());
            is_copied(&cluster, pair.slots[1]).await;
            second.pause();
            let caller = pair.begin(&store);
            pair.first_is(first, "dies", 2).await;
            second.kill();
            assert!(is(&caller.await.unwrap(), RedisError::TimedOut));
            pair.first_is(first, "dies", 1).await;
            is_missed(&store, second).await;
            // What fails until the replica has taken over leaves nothing behind either.
            for _ in 0..5 {
                let answer = pair.charge(&store).await;
                assert!(answer.is_err_and(|error| !error.may_have_charged()));
            }
            cluster.take_over(pair.slots[1], second);
            assert_eq!(admitted_of(&pair, &store, 20).await, 8, "{software:?}");
            pair.both_are(&store, [9, 9]).await;
        });
    }
}

/// Comes back once the replica has what its primary had.
async fn is_copied(cluster: &Cluster, slot: u16) {
    let offset = |server: &Server| server.info("master_repl_offset").parse::<u64>().unwrap();
    let (written, replica) = (offset(cluster.primary_of(slot)), cluster.replica_of(slot));
    eventually(async || if offset(replica) >= written { Ok(()) } else { Err("the replica lags behind") })
        .await;
}

/// Comes back once the store has noticed that the server is gone: what it sends before, it sends into the void.
async fn is_missed(store: &RedisStore, server: &Server) {
    let name = server.address().to_string();
    eventually(async || {
        let status = store.status();
        let missed = status.servers().iter().all(|it| it.name() != name || it.trouble().is_some());
        if missed { Ok(()) } else { Err("nobody misses the server that was killed") }
    })
    .await;
}

/// How many of so many answered requests are admitted.
async fn admitted_of(pair: &Pair, store: &RedisStore, requests: usize) -> usize {
    let mut admitted = 0;
    for _ in 0..requests {
        let answer = async || {
            let answer = pair.charge(store).await;
            assert!(!answer.as_ref().is_err_and(StoreError::may_have_charged), "{answer:?}");
            answer
        };
        admitted += usize::from(eventually(answer).await.is_admitted());
    }
    admitted
}

/// The replica that takes over gives back, or counts until the window closes.
#[test]
fn a_primary_that_dies_before_it_gives_back_lets_nobody_in() {
    for software in Software::ALL {
        let cluster = Cluster::start(software).calm();
        let store = build(reserving(&cluster, "lost").local_denials(0));
        let pair = Pair::new(&cluster, ["9/3653d", "1/3653d"]);
        let [first, second] = pair.servers(&cluster);
        block_on(async {
            assert!(pair.charge(&store).await.unwrap().is_admitted());
            is_copied(&cluster, pair.slots[0]).await;
            second.pause();
            let caller = pair.begin(&store);
            pair.first_is(first, "lost", 2).await;
            first.kill();
            second.resume();
            cluster.take_over(pair.slots[0], first);
            assert_eq!(stands(&caller.await.unwrap().unwrap()), [(1, true), (1, false)]);
            let [used, _] = pair.used(&store).await;
            assert!((1..=2).contains(&used), "{used} used");
            let mut admitted = 0;
            for _ in 0..12 {
                admitted += u64::from(store.charge(&[pair.first(1)]).await.unwrap().is_admitted());
            }
            assert_eq!(admitted, 9 - used, "{software:?}");
        });
    }
}

/// A server that refuses to give back is asked again.
#[test]
fn units_are_given_back_once_their_server_is_ready() {
    let cluster = Cluster::start(Software::Redis).calm();
    let store = build(reserving(&cluster, "refused"));
    let pair = Pair::new(&cluster, ["5/3653d", "1/3653d"]);
    let [first, second] = pair.servers(&cluster);
    let wanted_replicas = |count| first.command::<()>(["CONFIG", "SET", "min-replicas-to-write", count]);
    block_on(async {
        assert!(pair.charge(&store).await.unwrap().is_admitted());
        let refused = || first.command::<String>(["INFO", "errorstats"]).contains("NOREPLICAS");
        second.pause();
        let caller = pair.begin(&store);
        pair.first_is(first, "refused", 2).await;
        wanted_replicas("9");
        second.resume();
        eventually(async || if refused() { Ok(()) } else { Err("nothing is refused") }).await;
        wanted_replicas("0");
        assert_eq!(stands(&caller.await.unwrap().unwrap()), [(1, true), (1, false)]);
        assert_eq!(pair.used(&store).await, [1, 1]);
    });
}

/// Whether the server gave back is not known, so it is not asked again: what it gave back twice, others would have.
#[test]
fn units_are_never_given_back_twice() {
    let cluster = Cluster::start(Software::Redis).calm();
    let store = build(reserving(&cluster, "twice").deadline(Duration::from_millis(300)));
    let patient = build(reserving(&cluster, "twice"));
    let pair = Pair::new(&cluster, ["50/3653d", "1/3653d"]);
    let [first, second] = pair.servers(&cluster);
    block_on(async {
        assert!(patient.charge(&[pair.first(20), pair.second(1)]).await.unwrap().is_admitted());
        // Connections are there before anything hangs.
        assert_eq!(pair.used(&store).await, [20, 1]);
        second.pause();
        let caller = pair.begin(&store);
        pair.first_is(first, "twice", 21).await;
        first.pause();
        second.resume();
        // The denial is known, and the refund is not waited for beyond the deadline.
        let _ = caller.await.unwrap();
        // Real time: the refund is tried again while the server hangs.
        tokio::time::sleep(Duration::from_millis(300)).await;
        first.resume();
        // Real time: the refund arrives once, although it was sent twice.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let [used, _] = pair.used(&patient).await;
        // It was given back, or was not.
        assert!((20..=21).contains(&used), "{used} used");
    });
}

/// The first slot denied, and the look at the second one failed: the caller got the error, and `open` admitted a
/// request that a healthy counter had denied.
#[test]
fn a_denial_by_one_slot_is_the_answer_although_another_one_is_down() {
    let cluster = Cluster::start(Software::Redis).calm();
    let pair = Pair::new(&cluster, ["1/3653d", "5/3653d"]);
    let [_, second] = pair.servers(&cluster);
    for (prefix, local_denials) in [("asked", 0), ("remembered", 1_000)] {
        let store = build(reserving(&cluster, prefix).local_denials(local_denials));
        block_on(async {
            assert!(eventually(async || pair.charge(&store).await).await.is_admitted());
            assert!(!pair.charge(&store).await.unwrap().is_admitted());
        });
    }
    second.kill();
    for (prefix, local_denials) in [("asked", 0), ("remembered", 1_000)] {
        let store = build(reserving(&cluster, prefix).local_denials(local_denials));
        block_on(async {
            is_missed(&store, second).await;
            // A new store may not have reached the first server yet.
            eventually(async || store.peek(&[pair.first(1)]).await).await;
            // The second one asks the store to renew what it remembers.
            for _ in 0..3 {
                let denied = pair.charge(&store).await.unwrap();
                assert_eq!(stands(&denied), [(1, false), (0, true)]);
                let sources = denied.iter().map(|state| state.source()).collect::<Vec<_>>();
                assert_eq!(sources[1], Source::Fallback);
                assert_eq!(
                    stands(&store.peek(&[pair.first(1), pair.second(1)]).await.unwrap()),
                    stands(&denied)
                );
                tokio::time::sleep(Duration::from_millis(950)).await;
            }
            // What the other slot would have admitted is not known.
            assert!(store.peek(&[pair.second(1)]).await.is_err_and(|error| !error.may_have_charged()));
        });
    }
}

/// A peek that was not answered said that it might have charged.
#[test]
fn a_request_that_charges_nothing_has_not_charged_whatever_becomes_of_it() {
    let cluster = Cluster::start(Software::Redis).calm();
    let store = build(reserving(&cluster, "peek").deadline(Duration::from_millis(300)));
    let pair = Pair::new(&cluster, ["5/3653d", "5/3653d"]);
    let [_, second] = pair.servers(&cluster);
    block_on(async {
        assert!(eventually(async || pair.charge(&store).await).await.is_admitted());
        second.pause();
        let (one, both) = ([pair.second(1)], [pair.first(1), pair.second(1)]);
        let free = [pair.second(0)];
        for step in [Step::Peek(&one), Step::Peek(&both), Step::Charge(&free), Step::Record(free[0])] {
            let error = store.step(step).await.unwrap_err();
            assert!(!error.may_have_charged(), "{step:?}: {error:?}");
            assert!(error.to_string().ends_with("could not count"), "{error}");
            let each = store.step_each(&[step]).await.remove(0).unwrap_err();
            assert!(!each.may_have_charged(), "{step:?}: {each:?}");
        }
        let charge = store.step(Step::Record(one[0])).await.unwrap_err();
        assert!(is::<()>(&Err(charge.clone()), RedisError::Unreachable) || charge.may_have_charged());
        second.resume();
    });
}
