//! What callers do and do not notice: scripts that are flushed, others that go away, a server that is full.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::servers::trouble;
use tokio::task::JoinSet;
use tollgate::{
    AnswerError, Charge, CountDenied, Key, Mark, PolicyQuota, Quota, QuotaStates, Source, Step, StepDeadline,
    Store as _, StoreError, Timestamp,
};
use tollgate_redis::RedisError;
use tollgate_redis::RedisStore;
use tollgate_testkit::StoreSteps;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{ByteDirection, FaultProxy, Server, Settings, Software};

use crate::servers::{behind, build, store};
use crate::storage::assert_everything_expires;

fn quota(text: &str) -> Arc<PolicyQuota> {
    Arc::new(PolicyQuota::new("callers", text.parse().unwrap()))
}

async fn charge(store: &RedisStore, quota: &PolicyQuota, key: u64) -> Result<(bool, u64), RedisError> {
    let key = Key::from(key);
    let counted = store.charge(&[Charge::new(quota, &key, 1)]).await.map_err(|error| *trouble(&error))?;
    Ok((counted.is_admitted(), counted[0].used()))
}

/// How often the script was called.
fn calls(server: &Server) -> u64 {
    server.calls_of("evalsha")
}

/// A server forgets its scripts when it is restarted, fails over or is told to.
#[test]
fn nobody_notices_that_the_scripts_are_flushed() {
    let server = Arc::new(Server::start(Software::Redis));
    let store = build(store(&server));
    let quota = quota("1000000/1h");
    let (done, flushes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let answered = Arc::new(AtomicU64::new(0));
    let flusher = std::thread::spawn({
        let (server, done, flushes) = (Arc::clone(&server), Arc::clone(&done), Arc::clone(&flushes));
        let answered = Arc::clone(&answered);
        move || {
            while !done.load(Ordering::Relaxed) {
                server.command::<()>(["SCRIPT", "FLUSH"]);
                flushes.fetch_add(1, Ordering::Relaxed);
                // However slow the machine is, a call is not flushed in each of its attempts.
                let next = answered.load(Ordering::Relaxed) + 64;
                while answered.load(Ordering::Relaxed) < next && !done.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        }
    });
    block_on(async {
        let mut callers = JoinSet::new();
        for caller in 0..32 {
            let (store, quota, flushes) = (store.clone(), Arc::clone(&quota), Arc::clone(&flushes));
            let answered = Arc::clone(&answered);
            callers.spawn(async move {
                let mut turn = 0;
                while turn < 100 || flushes.load(Ordering::Relaxed) < 10 {
                    turn += 1;
                    assert_eq!(charge(&store, &quota, caller).await, Ok((true, turn)));
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while let Some(caller) = callers.join_next().await {
            caller.unwrap();
        }
    });
    done.store(true, Ordering::Relaxed);
    flusher.join().unwrap();
    assert_everything_expires(&server);
}

/// A lone caller waited for a task to be started and to come to its turn.
#[tokio::test]
async fn a_lone_charge_is_sent_before_its_caller_waits() {
    let server = Server::start(Software::Redis);
    let store = store(&server).build().unwrap();
    let quota = quota("5/1h");
    assert_eq!(charge(&store, &quota, 1).await, Ok((true, 1)));
    let before = calls(&server);
    let mut second = pin!(charge(&store, &quota, 1));
    let is_pending = poll_fn(|context| Poll::Ready(second.as_mut().poll(context).is_pending())).await;
    assert!(is_pending, "nobody can have been answered yet");
    // While this thread, the runtime's only one, is kept, no task of it runs.
    let arrived = (0..10_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        calls(&server) > before
    });
    assert!(arrived, "it waits for a task");
    assert_eq!(second.await, Ok((true, 2)));
}

/// Of two connections the one that calls go over had broken. Who came before that was noted was told that the server
/// cannot be reached, though nothing had been sent.
#[tokio::test]
async fn callers_use_another_connection_if_theirs_is_broken() {
    let server = Server::start(Software::Redis);
    let store = store(&server).connections(2).build().unwrap();
    let quota = quota("5/1h");
    let connections = || {
        let clients: String = server.command(["CLIENT", "LIST"]);
        let ours = clients.lines().filter(|client| client.contains("name=tollgate "));
        let id = |client: &str| client.strip_prefix("id=")?.split(' ').next()?.parse::<u64>().ok();
        ours.filter_map(id).collect::<Vec<_>>()
    };
    while connections().len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let first = connections().into_iter().min().unwrap().to_string();
    // While this thread, the runtime's only one, is kept, nobody notices.
    assert_eq!(server.command::<u64>(["CLIENT", "KILL", "ID", &first]), 1);
    let (written, refused, last) =
        tokio::join!(charge(&store, &quota, 1), charge(&store, &quota, 2), charge(&store, &quota, 3));
    for lost in [written, refused] {
        assert!(lost.as_ref().is_err_and(|error| error.may_have_charged()), "{lost:?}");
    }
    assert_eq!(last, Ok((true, 1)));
}

/// Two at once, so that each of two callers has a batch of its own to itself: one alone is not waited for.
async fn charge_two(store: &RedisStore, quota: &PolicyQuota, keys: [u64; 2]) {
    let keys = keys.map(Key::from);
    let [first, second] = keys.each_ref().map(|key| [Charge::new(quota, key, 1)]);
    for answer in store.charge_each(&[&first, &second]).await {
        assert!(answer.unwrap().is_admitted());
    }
}

/// Until all tasks of the runtime's only thread wait.
async fn let_others_go_on() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// Replies that came together were handed out together, and what was asked next went together again: server and client
/// took turns at waiting for each other.
#[tokio::test]
async fn the_first_answered_caller_asks_again_before_the_next_is_answered() {
    let server = Server::start(Software::Redis);
    let proxy = Arc::new(FaultProxy::before(server.address()));
    let store = behind(&proxy).connections(1).build().unwrap();
    let quota = quota("1000000/1h");
    charge(&store, &quota, 1).await.unwrap();
    let before = proxy.arrived(ByteDirection::Reply);
    tokio::join!(charge_two(&store, &quota, [1, 2]), charge_two(&store, &quota, [3, 4]));
    let replies = 2 * proxy.arrived(ByteDirection::Reply) - before;
    let_others_go_on().await;
    proxy.hold(ByteDirection::Reply);
    let requests = Arc::new(OnceLock::new());
    let first = tokio::spawn({
        let (store, quota) = (store.clone(), Arc::clone(&quota));
        async move {
            charge_two(&store, &quota, [1, 2]).await;
            charge(&store, &quota, 1).await
        }
    });
    let second = tokio::spawn({
        let (store, quota) = (store.clone(), Arc::clone(&quota));
        let (proxy, requests) = (Arc::clone(&proxy), Arc::clone(&requests));
        async move {
            charge_two(&store, &quota, [3, 4]).await;
            // While this thread, the runtime's only one, is kept, nothing more is sent.
            (0..10_000).any(|_| {
                std::thread::sleep(Duration::from_millis(1));
                Some(&proxy.arrived(ByteDirection::Request)) > requests.get()
            })
        }
    });
    // Both ask, and then their batches go.
    let_others_go_on().await;
    proxy.wait_until_arrived(ByteDirection::Reply, replies);
    requests.set(proxy.arrived(ByteDirection::Request)).unwrap();
    proxy.release(ByteDirection::Reply);
    while proxy.passed(ByteDirection::Reply) < replies {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(second.await.unwrap(), "both were answered, and neither had asked again");
    assert!(first.await.unwrap().is_ok());
}

/// Dropped at any point, a decision's future takes nothing from the others: no answer of theirs, no place in a queue.
#[test]
fn ten_thousand_callers_that_go_away_harm_nobody() {
    let server = Server::start(Software::Redis);
    let store = build(store(&server));
    let quota = quota("1099511627775/1h");
    block_on(async {
        let mut callers = JoinSet::new();
        for caller in 0..50_u64 {
            let (store, quota) = (store.clone(), Arc::clone(&quota));
            callers.spawn(async move {
                let mut kept = 0;
                for turn in 0..200_u64 {
                    let wait = Duration::from_micros((caller * 7 + turn * 13) % 400);
                    // A key of its own for every caller, with counts that only go up: an answer to somebody else's
                    // question would show.
                    let _ = tokio::time::timeout(wait, charge(&store, &quota, caller)).await;
                    let (admitted, used) = charge(&store, &quota, caller).await.unwrap();
                    kept += 1;
                    assert!(
                        admitted && used >= kept && used <= kept + turn + 1,
                        "{used} of {kept}, turn {turn}"
                    );
                    kept = used;
                }
                kept
            });
        }
        let mut all = Vec::new();
        while let Some(caller) = callers.join_next().await {
            all.push(caller.unwrap());
        }
        assert!(all.iter().all(|used| (200..=400).contains(used)), "{all:?}");
        // A leaked place would leave the queue short of a driver, and this unanswered.
        assert!(charge(&store, &quota, 99).await.is_ok());
    });
}

#[test]
fn a_server_without_memory_is_an_error_and_denies_nobody() {
    let server = Server::start(Software::Redis);
    let store = build(store(&server));
    let quota = quota("5/1h");
    assert_eq!(block_on(charge(&store, &quota, 1)), Ok((true, 1)));
    server.command::<()>(["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(block_on(charge(&store, &quota, 1)), Err(RedisError::OutOfMemory));
    assert_eq!(block_on(charge(&store, &quota, 2)), Err(RedisError::OutOfMemory));
    server.command::<()>(["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(block_on(charge(&store, &quota, 1)), Ok((true, 2)));
    assert_eq!(block_on(charge(&store, &quota, 2)), Ok((true, 1)));
}

#[test]
fn denials_that_are_counted_are_never_answered_locally() {
    let server = Server::start(Software::Redis);
    let store = build(store(&server));
    let quota = PolicyQuota::new("counted", Quota::per_day(1)).with_count_denied(CountDenied::Yes);
    let key = Key::from("alice");
    for used in 1..=5 {
        let counted = block_on(store.charge(&[Charge::new(&quota, &key, 1)])).unwrap();
        assert_eq!((counted[0].used(), counted[0].source()), (used, Source::Store));
    }
}

/// A denied overdraft is charged, so it must reach the store; a look at one need not.
#[test]
fn overdrafts_are_never_denied_locally_but_looks_at_them_are() {
    let server = Server::start(Software::Redis);
    let store = build(store(&server));
    let quota = PolicyQuota::new("bytes", Quota::per_day(1)).with_count_denied(CountDenied::Overdraft);
    let other = PolicyQuota::new("requests", Quota::per_day(0));
    let key = Key::from("alice");
    let charge = |cost| block_on(store.charge(&[Charge::new(&quota, &key, cost)])).unwrap()[0];
    for used in [3, 6, 9] {
        let state = charge(3);
        assert_eq!((state.used(), state.source()), (used, Source::Store));
    }
    let is_local = |_: &i32| charge(0).source() == Source::Local;
    assert!((0..20).filter(is_local).count() > 0, "it is remembered that the limit is used");
    for used in [12, 15] {
        // Also if another quota, whose denial is remembered, denies.
        let _ = block_on(store.charge(&[Charge::new(&other, &key, 1)])).unwrap();
        let both = [Charge::new(&other, &key, 1), Charge::new(&quota, &key, 3)];
        let counted = block_on(store.charge(&both)).unwrap();
        assert_eq!((counted.is_admitted(), counted[1].used(), counted[1].units()), (false, used, 3));
    }
}

/// Many equal charges become one step of the script. Of those of an overdraft, all are charged.
#[test]
fn a_batch_of_overdrafts_is_charged_in_full() {
    let server = Server::start(Software::Redis);
    let store = build(store(&server));
    let bytes = PolicyQuota::new("bytes", "10/1d".parse().unwrap()).with_count_denied(CountDenied::Overdraft);
    let requests = quota("2/1h");
    let key = Key::from("alice");
    let alone: Vec<[Charge<'_>; 1]> = (0..9).map(|_| [Charge::new(&bytes, &key, 4)]).collect();
    let both: Vec<[Charge<'_>; 2]> =
        (0..9).map(|_| [Charge::new(&requests, &key, 1), Charge::new(&bytes, &key, 4)]).collect();
    let admitted = |answers: Vec<Result<QuotaStates, StoreError>>| {
        answers.into_iter().filter(|answer| answer.as_ref().unwrap().is_admitted()).count()
    };
    let steps: Vec<&[Charge<'_>]> = alone.iter().map(|charges| &charges[..]).collect();
    assert_eq!(admitted(block_on(store.charge_each(&steps))), 3);
    let peek = || block_on(store.peek(&[Charge::new(&bytes, &key, 0)])).unwrap()[0].used();
    assert_eq!(peek(), 36);
    block_on(store.reset(&Charge::new(&bytes, &key, 0).counter())).unwrap();
    let steps: Vec<&[Charge<'_>]> = both.iter().map(|charges| &charges[..]).collect();
    assert_eq!(admitted(block_on(store.charge_each(&steps))), 2, "the requests of two, the bytes of three");
    assert_eq!(peek(), 36);
}

/// A key that everybody is denied costs the store a call a second, whatever it costs the process.
#[test]
fn a_flood_of_denied_requests_stays_in_the_process() {
    let server = Server::start(Software::Redis);
    let store = build(store(&server));
    let quota = quota("1/1d");
    assert_eq!(block_on(charge(&store, &quota, 1)), Ok((true, 1)));
    let (before, start, is_over) = (calls(&server), server.time(), Arc::new(AtomicBool::new(false)));
    block_on(async {
        let mut callers = JoinSet::new();
        for _ in 0..64 {
            let (store, quota, is_over) = (store.clone(), Arc::clone(&quota), Arc::clone(&is_over));
            callers.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(charge(&store, &quota, 1).await, Ok((false, 1)));
                    tokio::task::yield_now().await;
                }
            });
        }
        // Real time: a denial is remembered for a second of it, so this takes three calls.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        while calls(&server) < before + 3 {
            assert!(server.time().since(start) < Duration::from_secs(60), "it is not asked again");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        is_over.store(true, Ordering::Relaxed);
        while let Some(caller) = callers.join_next().await {
            caller.unwrap();
        }
    });
    let (calls, took) = (calls(&server) - before, server.time().since(start));
    assert!(calls <= 8 * took.as_secs().max(2) + 4, "{calls} calls in {took:?}");
}

/// `Duration::MAX` is how a caller says that it waits for ever; added to the time, it was a panic.
#[test]
fn a_deadline_may_be_as_long_as_one_likes() {
    let server = Server::start(Software::Redis);
    let store = build(store(&server).deadline(Duration::MAX).connect_timeout(Duration::MAX));
    assert_eq!(block_on(charge(&store, &quota("5/1h"), 1)), Ok((true, 1)));
}

/// Told that its window was not open, a caller now and then asked again before what time it was had been noted.
#[test]
fn a_window_that_is_not_open_is_asked_for_once_more() {
    let server = Settings::new(Software::Redis).steered_clock().start();
    server.clock().step(-3 * 366 * 86_400_000);
    let quota = quota("1000000/year@UTC");
    for caller in 0..400 {
        let store = build(store(&server));
        let before = calls(&server);
        assert_eq!(block_on(charge(&store, &quota, caller)), Ok((true, 1)));
        assert_eq!(calls(&server) - before, 2);
    }
}

/// The script said that the window is closed and not where the counter stands, so the store asked a second time. If
/// that call failed, the refund failed with it, although it was known that nothing was to be given back.
#[test]
fn a_refund_of_a_closed_window_is_one_call() {
    let server = Server::start(Software::Redis);
    let store = build(store(&server));
    for text in ["5/365d", "5/365d@staggered", "5/365d@first_hit", "5/year@Europe/Berlin"] {
        let (quota, key) = (quota(text), Key::from("alice"));
        let charge = Charge::new(&quota, &key, 3);
        let charged = block_on(store.charge(&[charge])).unwrap()[0];
        let before = calls(&server);
        let refunded = block_on(store.refund(&charge, Mark::at(Timestamp::EPOCH))).unwrap();
        assert_eq!(calls(&server) - before, 1, "{text}");
        assert_eq!(
            (refunded.units(), refunded.used(), refunded.window()),
            (0, 3, charged.window()),
            "{text}"
        );
    }
}

/// A step took its caller's deadline from the task that ran it, so a step on another task waited for the store's whole
/// deadline.
#[test]
#[expect(clippy::disallowed_methods, reason = "a deadline is a time on the real clock")]
fn a_step_on_another_task_keeps_the_deadline_of_its_caller() {
    let server = Server::start(Software::Redis);
    let store = build(store(&server).deadline(Duration::from_secs(60)));
    let quota = quota("5/1h");
    assert_eq!(block_on(charge(&store, &quota, 1)), Ok((true, 1)));
    server.pause();
    block_on(async {
        let on_another_task = |time| {
            let (store, quota) = (store.clone(), Arc::clone(&quota));
            let deadline = StepDeadline::at(Instant::now() + time);
            let step = async move {
                let key = Key::from(1_u64);
                store.step_until(Step::Charge(&[Charge::new(&quota, &key, 1)]), Some(deadline)).await
            };
            tokio::time::timeout(Duration::from_secs(30), tokio::spawn(step))
        };
        // Real time: the server hangs for longer.
        let late = on_another_task(Duration::from_millis(50)).await.unwrap().unwrap().unwrap_err();
        assert_eq!(*trouble(&late), RedisError::TimedOut);
        assert!(late.may_have_charged(), "the charge was sent");
        let unsent = on_another_task(Duration::ZERO).await.unwrap().unwrap().unwrap_err();
        assert_eq!(unsent.trouble_of(), Some(&AnswerError::Late));
        assert!(!unsent.may_have_charged(), "it did not begin");
    });
}
