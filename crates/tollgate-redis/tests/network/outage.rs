//! One server that goes away, hangs, forgets, or stops being a primary.

use std::time::{Duration, Instant};

use tollgate::{Charge, Counter, Key, PolicyQuota, Quota, Step, Store};
use tollgate_redis::{RedisError, RedisStore, Setting};
use tollgate_testkit::servers::{ByteDirection, ConnectionEnd, Data, FaultProxy, Server, Software};

use crate::support::{Caller, PATIENCE, builder, patient, patient_builder, until};

fn url(server: &Server) -> String {
    format!("redis://{}", server.address())
}

fn hasty(server: &Server) -> Caller {
    Caller::new(builder(&url(server)))
}

/// So many calls, none of which waits for the server: those of a defect that lets each wait for a deadline of half a
/// minute would take hours.
async fn expect_refusals_at_once(caller: &Caller, count: usize, expected: &RedisError) {
    let refusals = async {
        for _ in 0..count {
            assert_eq!(&caller.refusal("alice").await, expected, "{:?}", caller.store.status());
        }
    };
    let refused = tokio::time::timeout(PATIENCE, refusals).await;
    assert!(refused.is_ok(), "{count} refusals take longer than {PATIENCE:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_is_missed_at_once_and_found_again() {
    for software in Software::ALL {
        let server = Server::start(software);
        let caller = patient(&url(&server));
        caller.until_served("alice").await;

        server.kill();
        // What was sent before the end was noticed may have been counted.
        while caller.charge("alice").await != Err(RedisError::Unreachable) {}
        expect_refusals_at_once(&caller, 1_000, &RedisError::Unreachable).await;
        // The refusals may be over before the next attempt to connect, and until then the server has only hung up.
        let status = until("the server refuses connections", async || {
            let status = caller.store.status();
            (status.servers()[0].trouble() == Some("connection refused")).then_some(status)
        });
        let status = status.await;
        assert!(!status.is_connected());
        assert_eq!(status.servers()[0].name(), server.address().to_string());

        server.start_again(Data::Lost);
        caller.until_served("alice").await;
        assert!(caller.store.status().is_connected());
    }
}

/// An error said that "the store" cannot be reached, and a program with two stores could not tell which.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_names_the_address_of_the_store_and_no_password() {
    let server = Server::start(Software::Redis);
    server.kill();
    let address = server.address();
    let store = patient_builder(&format!("redis://app:s3cret@{address}")).build().unwrap();
    let quota = PolicyQuota::new("test", Quota::per_minute(1));
    let key = Key::from("alice");
    let charges = [Charge::new(&quota, &key, 1)];
    let (charge, peek) = (Step::Charge(&charges), Step::Peek(&charges));
    let mut errors = store.step_each(&[charge, peek]).await;
    errors.extend([store.step(charge).await, store.step(peek).await]);
    let mut errors: Vec<_> = errors.into_iter().map(Result::unwrap_err).collect();
    errors.push(store.warm_up(Duration::ZERO).await.unwrap_err());
    for error in errors {
        assert_eq!(error.to_string(), format!("the store at {address} could not count"));
        let shown = format!("{error:?}");
        assert!(shown.contains("Unreachable") && shown.contains(&address.to_string()), "{shown}");
        assert!(!shown.contains("s3cret") && !shown.contains("app"), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_at_first_keeps_nobody_from_starting() {
    let server = Server::start(Software::Redis);
    server.kill();
    let caller = patient(&url(&server));
    assert_eq!(caller.refusal("alice").await, RedisError::Unreachable);
    server.start_again(Data::Lost);
    caller.until_served("alice").await;
}

/// Calls of a server that hangs end at their deadline, and after a few of them at once. What they asked for is
/// counted at most once when the server goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_costs_a_few_deadlines_and_then_nothing() {
    for software in Software::ALL {
        let server = Server::start(software);
        let caller = hasty(&server);
        let before = caller.until_served("alice").await;

        server.pause();
        let (mut late, start) = (0, Instant::now());
        while caller.store.status().is_connected() {
            match caller.refusal("alice").await {
                RedisError::TimedOut | RedisError::TooSlow => late += 1,
                // A stall of this machine between the look at the connection and the first byte.
                RedisError::Unreachable => {}
                other => panic!("{other}"),
            }
            // Three of the first connection, and one of the other, which is in doubt by then; and some more where this
            // machine stood still, which is not held against the server.
            assert!(late <= 12, "{late} calls waited, and the server is still asked");
            assert!(start.elapsed() < PATIENCE, "a server that hangs is taken for connected");
        }
        assert!(late >= 1, "nobody noticed that it hangs");
        let start = Instant::now();
        let mut waited = 0;
        for _ in 0..1_000 {
            let asked = Instant::now();
            assert_eq!(caller.refusal("alice").await, RedisError::Unreachable);
            waited += usize::from(asked.elapsed() >= Duration::from_millis(20));
        }
        // Of a machine that stands still now and then, a few; had they waited for their deadline, all.
        assert!(waited < 500, "{waited} of 1,000 waited for a server that hangs, in {:?}", start.elapsed());

        server.resume();
        let after = caller.until_served("alice").await;
        let used = caller.used("alice").await;
        let unknown = before.unknown + late + after.unknown;
        assert!((2..=2 + unknown).contains(&used), "{used} used, {unknown} unknown");
    }
}

/// Replies that came after the deadline were dropped unseen: a server that answers in 25 ms under a deadline of 20 was
/// cut off after the third call, and operators were told that it does not answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_too_slow_is_told_from_one_that_is_silent() {
    const CALLS: u64 = 60;
    let server = Server::start(Software::Redis);
    let proxy = FaultProxy::before(server.address());
    let caller = Caller::new(builder(&format!("redis://{}", proxy.address())));
    let before = caller.until_served("alice").await;
    assert_eq!(caller.store.status().late_replies(), before.unknown);
    let connected = proxy.connections();
    proxy.delay(ByteDirection::Reply, Duration::from_millis(25));
    let (mut slow, mut stalled, mut served) = (0, 0, 1);
    let start = Instant::now();
    while slow < CALLS {
        assert!(start.elapsed() < PATIENCE, "{slow} calls are called too slow, {stalled} are not");
        match caller.charge("alice").await {
            Err(RedisError::TooSlow) => slow += 1,
            // This machine stood still: the deadline was extended, or the server seemed silent.
            Ok(_) => served += 1,
            Err(RedisError::TimedOut | RedisError::Unreachable | RedisError::Overloaded) => stalled += 1,
            other => panic!("{other:?}"),
        }
    }
    // One in three calls was made over a new connection.
    let renewed = proxy.connections() - connected;
    assert!(
        renewed < CALLS / 6 + stalled,
        "{renewed} connections for {slow} calls, and {stalled} that stalled"
    );
    proxy.heal();
    caller.until_served("bob").await;
    assert!(caller.store.status().late_replies() >= slow, "{:?}", caller.store.status());
    let used = caller.used("alice").await;
    let unknown = before.unknown + slow + stalled;
    assert!((served..=served + unknown).contains(&used) && used > slow, "{used} used, {unknown} unknown");
    assert_eq!(RedisError::TooSlow.advice().unwrap().setting(), Some(Setting::Deadline));
}

/// A server that answers in 125 ms was left as silent after the first call of a store with the default deadline of 100
/// ms. No new connection answered within a deadline, so nothing was counted, and operators were told that it does not
/// answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_too_slow_for_the_default_deadline_is_not_left() {
    const CALLS: u64 = 20;
    let server = Server::start(Software::Redis);
    let proxy = FaultProxy::before(server.address());
    let caller = Caller::new(RedisStore::builder(format!("redis://{}", proxy.address()).parse().unwrap()));
    let before = caller.until_served("alice").await;
    for delay in [125, 150].map(Duration::from_millis) {
        let (connected, counted) = (proxy.connections(), caller.store.status().late_replies());
        proxy.delay(ByteDirection::Reply, delay);
        let (mut slow, mut stalled) = (0, 0);
        let start = Instant::now();
        while slow < CALLS {
            assert!(start.elapsed() < PATIENCE, "{slow} calls are called too slow, {stalled} are not");
            match caller.charge("alice").await {
                Err(RedisError::TooSlow) => slow += 1,
                // The first one, which no late reply has preceded, and where this machine stood still.
                Ok(_) | Err(RedisError::TimedOut | RedisError::Unreachable | RedisError::Overloaded) => {
                    stalled += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        let renewed = proxy.connections() - connected;
        assert!(renewed <= stalled, "{renewed} connections for {slow} calls, and {stalled} that stalled");
        proxy.heal();
        caller.until_served("bob").await;
        let late = caller.store.status().late_replies() - counted;
        assert!(late >= slow, "{late} late replies for {slow} calls that were called too slow");
    }
    assert!(caller.used("alice").await > before.acknowledged);
}

/// A store that lost its connections to a slow server never had another one: one that answers took too long to be set
/// up, or was called silent because it did not answer within a deadline.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_too_slow_for_the_default_deadline_is_connected_again() {
    let server = Server::start(Software::Redis);
    let proxy = FaultProxy::before(server.address());
    let caller = Caller::new(RedisStore::builder(format!("redis://{}", proxy.address()).parse().unwrap()));
    caller.until_served("alice").await;
    proxy.delay(ByteDirection::Reply, Duration::from_millis(150));
    proxy.sever(ConnectionEnd::Reset);
    let is_away = async || (!caller.store.status().is_connected()).then_some(());
    until("the connections are cut", is_away).await;
    let is_too_slow = async || (caller.charge("alice").await == Err(RedisError::TooSlow)).then_some(());
    until("a call is sent and too slow", is_too_slow).await;
}

/// Steps that are no charges were taken one after another, each with a deadline of its own: a list of a thousand took a
/// thousand round trips, and could wait a thousand deadlines for a server that hangs.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_steps_waits_for_its_answers_together() {
    const STEPS: usize = 1_000;
    let round_trip = Duration::from_millis(50);
    let server = Server::start(Software::Redis);
    let proxy = FaultProxy::before(server.address());
    let caller = patient(&format!("redis://{}", proxy.address()));
    caller.until_served("alice").await;
    proxy.delay(ByteDirection::Request, round_trip);
    let (quota, key) = (PolicyQuota::new("test", Quota::per_day(5)), Key::from("alice"));
    let peeked = [Charge::new(&quota, &key, 1)];
    let steps = [Step::Set { counter: Counter::new(&quota, &key), used: 3 }, Step::Peek(&peeked)];
    let steps: Vec<Step<'_>> = steps.into_iter().cycle().take(STEPS).collect();
    let start = Instant::now();
    let answers = caller.store.step_each(&steps).await;
    // One after another they take twice as long at least, and as a rule a tenth of a second.
    assert!(start.elapsed() < round_trip * STEPS as u32 / 2, "{:?}", start.elapsed());
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(answers[0].as_ref().unwrap()[0].used(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_not_flooded_with_connections() {
    let server = Server::start(Software::Redis);
    let caller = hasty(&server);
    caller.until_served("alice").await;
    let connected = || server.info("total_connections_received").parse::<u64>().unwrap();
    let (before, start) = (connected(), Instant::now());
    server.pause();
    let load = caller.load("alice", 8);
    let tried = async || {
        (caller.store.status().servers()[0].trouble() == Some("connecting took too long")).then_some(())
    };
    until("an attempt to connect", tried).await;
    // Real time: the load goes on while the server hangs.
    tokio::time::sleep(Duration::from_secs(2)).await;
    load.stop().await;
    let took = start.elapsed();
    server.resume();
    // One of them is ours. Ten a second are allowed, and the other connection may have begun to be set up before.
    let attempts = connected() - before - 1;
    let most = 2 + took.as_millis() as u64 / 100;
    assert!((1..=most).contains(&attempts), "{attempts} connections in {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_is_flushed_is_loaded_again_unseen() {
    for software in Software::ALL {
        let server = Server::start(software);
        let caller = patient(&url(&server));
        caller.until_served("alice").await;
        let load = caller.load("alice", 16);
        for _ in 0..50 {
            server.command::<()>(["SCRIPT", "FLUSH"]);
            // More than can have been in flight when it was flushed.
            load.goes_on(20).await;
        }
        let tally = load.stop().await;
        assert!(tally.unknown == 0 && tally.refused.is_empty(), "{tally:?}");
        assert_eq!(caller.used("alice").await, tally.acknowledged + 1);
        let stats: String = server.command(["INFO", "commandstats"]);
        let loads = stats.lines().find_map(|line| line.strip_prefix("cmdstat_script|load:calls="));
        let loads: u64 = loads.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap();
        // Two when connecting, and as a rule all three scripts once for each flush.
        assert!((50..=170).contains(&loads), "{loads} loads for 50 flushes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_cut_charge_nothing_twice() {
    for software in Software::ALL {
        let server = Server::start(software);
        let caller = patient(&url(&server));
        let load = caller.load("alice", 16);
        let mut cuts = 0;
        // Now and then nothing was in flight.
        while cuts < 20 || load.tally().unknown == 0 {
            load.goes_on(20).await;
            server.command::<u64>(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            cuts += 1;
            assert!(cuts < 1_000, "nothing is ever lost by a cut");
        }
        let mut last = caller.until_served("alice").await;
        let tally = load.stop().await;
        last.acknowledged += tally.acknowledged;
        last.unknown += tally.unknown;
        last.expect_counted(caller.used("alice").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_becomes_a_replica_is_left_and_taken_back() {
    for software in Software::ALL {
        let (server, other) = (Server::start(software), Server::start(software));
        let caller = patient(&url(&server));
        caller.until_served("alice").await;
        let port = other.address().port().to_string();
        server.command::<()>(["REPLICAOF", "127.0.0.1", &port]);
        expect_refusals_at_once(&caller, 100, &RedisError::NotReady).await;
        assert_eq!(caller.store.status().servers()[0].trouble(), Some("the server is a replica"));
        server.command::<()>(["REPLICAOF", "NO", "ONE"]);
        caller.until_served("alice").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_as_many_connections_as_were_asked_for() {
    let server = Server::start(Software::Redis);
    let ours = || {
        let clients: String = server.command(["CLIENT", "LIST"]);
        clients.lines().filter(|client| client.contains("name=tollgate ")).count()
    };
    let caller = Caller::new(patient_builder(&url(&server)).connections(3));
    until("three connections", async || (ours() == 3).then_some(())).await;
    let load = caller.load("alice", 64);
    load.goes_on(1_000).await;
    assert_eq!(ours(), 3);
    load.stop().await;
    drop(caller);
    until("the end of connections whose store is gone", async || (ours() == 0).then_some(())).await;
}
