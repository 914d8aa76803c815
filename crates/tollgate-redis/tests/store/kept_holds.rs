//! Holds that a process keeps alive on a real server.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tollgate::{HoldAnswer, HoldKeeper, HoldLimiter, HoldWaiters, Limiter, Quota, blocking};
use tollgate_redis::RedisStore;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::Software;

use crate::servers::{build, shared, store};

/// A keeper of a process. If its task does not run, that is a process that was killed, or hangs.
fn keeper(runs: Runs) -> HoldKeeper {
    let (keeper, task) = HoldKeeper::new(tokio::time::sleep);
    if runs == Runs::Yes {
        tokio::spawn(task);
    }
    keeper
}

#[derive(Clone, Copy, PartialEq)]
enum Runs {
    Yes,
    No,
}

fn jobs(store: &RedisStore, in_flight: &str, keeper: &HoldKeeper) -> HoldLimiter {
    let builder = Limiter::builder("jobs").quota(Quota::per_day(1_000_000));
    builder.build_shared_in_flight(in_flight.parse().unwrap(), store.clone(), keeper).unwrap()
}

async fn live(jobs: &HoldLimiter) -> u32 {
    jobs.peek("alice", 1).await.unwrap().in_flight().unwrap().live()
}

/// Waits until so many are live, for a long time.
async fn until_live(jobs: &HoldLimiter, units: u32) {
    let waiting = async {
        while live(jobs).await != units {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
}

#[test]
fn a_hold_outlives_its_length_as_long_as_its_process_renews_it() {
    for software in Software::ALL {
        let store = build(store(&shared(software)));
        block_on(async {
            let (here, dead) = (keeper(Runs::Yes), keeper(Runs::No));
            let kept = jobs(&store, "2~in_flight:2s", &here);
            let forgotten = jobs(&store, "2~in_flight:2s", &dead);
            let first = kept.hold("alice").await.unwrap().into_hold().unwrap();
            let second = forgotten.hold("alice").await.unwrap().into_hold().unwrap();
            assert!(!kept.hold("alice").await.unwrap().is_allowed());
            // Nobody renews the second one.
            until_live(&kept, 1).await;
            assert!(second.is_lost() && !first.is_lost());
            drop(first);
            until_live(&kept, 0).await;
        });
    }
}

#[test]
fn a_reset_is_noticed_and_the_charges_are_settled() {
    for software in Software::ALL {
        let store = build(store(&shared(software)));
        block_on(async {
            let keeper = keeper(Runs::Yes);
            let jobs = jobs(&store, "1~in_flight:2s", &keeper);
            let kept = jobs.hold_cost("alice", 900).await.unwrap().into_hold().unwrap();
            jobs.reset("alice").await.unwrap();
            tokio::time::timeout(Duration::from_secs(60), kept.lost()).await.unwrap();
            let settled = kept.settle(100).await.unwrap();
            assert!(
                matches!(&settled, HoldAnswer::Settled(states) if states[0].units() == 800),
                "{settled:?}"
            );
            let next = jobs.hold_cost("alice", 1).await.unwrap();
            assert_eq!(next.quotas().unwrap().used(), 101);
        });
    }
}

/// Drops the future of a reservation after each number of polls. Whatever the store has done by then, the units are free
/// long before the hold expires, and what was charged is given back on request.
#[test]
fn a_reservation_that_is_cancelled_at_any_point_holds_nothing() {
    for (software, gives_back) in
        Software::ALL.into_iter().flat_map(|software| [(software, false), (software, true)])
    {
        let store = build(store(&shared(software)));
        block_on(async {
            let keeper = keeper(Runs::Yes);
            let jobs = jobs(&store, "1000~in_flight:1h", &keeper);
            let jobs = if gives_back { jobs.release_on_drop() } else { jobs };
            for polls in 0..200 {
                let mut asking = pin!(jobs.hold_cost("alice", 7));
                let mut left = polls % 20;
                let decided = poll_fn(|context| {
                    if left == 0 {
                        return Poll::Ready(None);
                    }
                    left -= 1;
                    asking.as_mut().poll(context).map(Some)
                });
                drop(decided.await);
            }
            while keeper.holds() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(live(&jobs).await, 0);
            let used = jobs.peek("alice", 1).await.unwrap().quotas().unwrap().used();
            assert!(if gives_back { used == 0 } else { used <= 200 * 7 });
        });
    }
}

/// Two processes, each with a queue of its own; what one frees, the other finds by asking.
#[test]
fn waiters_of_two_processes_are_never_more_than_the_limit() {
    const LIMIT: i64 = 3;
    for software in Software::ALL {
        let store = build(store(&shared(software)));
        block_on(async {
            let (keepers, inside) = ([keeper(Runs::Yes), keeper(Runs::Yes)], Arc::new(AtomicI64::new(0)));
            let processes = keepers.each_ref().map(|keeper| {
                let jobs = jobs(&store, "3~in_flight:30s", keeper);
                let waiters = HoldWaiters::new(jobs, tokio::time::sleep).max_pause(Duration::from_millis(20));
                Arc::new(waiters)
            });
            let work = |number: usize| {
                let (waiters, inside) = (Arc::clone(&processes[number % 2]), Arc::clone(&inside));
                tokio::spawn(async move {
                    for _ in 0..5 {
                        let decision = waiters.until_held("alice").await.unwrap();
                        let kept = decision.into_hold().unwrap();
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < LIMIT);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        kept.release().await.unwrap();
                    }
                })
            };
            for worker in (0..20).map(work).collect::<Vec<_>>() {
                worker.await.unwrap();
            }
            assert_eq!(live(processes[0].limiter()).await, 0);
        });
    }
}

/// A thread without tasks, in the context of the runtime that the store needs.
#[test]
fn a_thread_holds_in_blocking_code() {
    let store = build(store(&shared(Software::Redis)));
    let runtime = block_on(async { tokio::runtime::Handle::current() });
    let keeper = block_on(async { keeper(Runs::Yes) });
    let jobs = jobs(&store, "1~in_flight:30s", &keeper);
    let thread = std::thread::spawn(move || {
        let _context = runtime.enter();
        let kept = blocking::block_on(jobs.hold_cost("alice", 10)).unwrap().into_hold().unwrap();
        assert!(!blocking::block_on(jobs.hold("alice")).unwrap().is_allowed());
        blocking::block_on(kept.settle(4)).unwrap();
        let next = blocking::block_on(jobs.hold_cost("alice", 1)).unwrap();
        assert_eq!(next.quotas().unwrap().used(), 5);
    });
    thread.join().unwrap();
}
