//! The service on a real shared store: exact counts across processes, and the answers of each policy in an outage.
//!
//! Tests of exact counts use a generous deadline and the policy `closed`, so that a slow machine cannot change the
//! result.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_testkit::servers::{self, ByteDirection, Data, FaultProxy, Persistence, Software};

use crate::support::folder::Folder;
use crate::support::{Connection, EVERY_LINE, HANG, Reply, Server, charged, get, tollgate};

const PATIENT: &str = "30s";
const ALICE: &str = r#"{"attributes": {"user": "alice"}}"#;

fn redis() -> servers::Server {
    servers::Server::start(Software::Redis)
}

fn url(store: &servers::Server) -> String {
    format!("redis://{}", store.address())
}

/// Starts a service on this store with a generous deadline and the policy `closed`.
fn serve(store: &servers::Server, limit: &str, more: &[&str]) -> Server {
    let url = url(store);
    let exact = ["--limit", limit, "--store", &url, "--on-store-failure", "closed"];
    let patient = ["--store-timeout", PATIENT, "--store-connect-timeout", PATIENT];
    Server::start(&[&exact[..], &patient, more].concat())
}

/// Starts a service with the default deadline and this policy.
fn serve_by(store: &servers::Server, limit: &str, policy: &[&str]) -> Server {
    let url = url(store);
    Server::start(&[&["--limit", limit, "--store", &url, "--on-store-failure"], policy].concat())
}

fn source(reply: &Reply) -> Value {
    reply.json()["source"].clone()
}

/// Repeats a check until the answer is as expected. `cargo xtask prove redis` measures how soon a store is used again.
#[track_caller]
fn until(what: &str, server: &Server, path: &str, is_so: impl Fn(&Reply) -> bool) {
    let began = Instant::now();
    loop {
        let reply = server.get(path);
        if is_so(&reply) {
            return;
        }
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(began.elapsed() < HANG, "not {what} within {HANG:?}: {} {body}", reply.status);
        thread::sleep(Duration::from_millis(10));
    }
}

fn is_from_store(reply: &Reply) -> bool {
    matches!(reply.status, 200 | 429) && source(reply) == "store"
}

/// The first call of a store that became slow had no reply in time, so the log said that the store does not answer, and no
/// later line said that it does.
#[test]
fn a_slow_store_is_logged_and_counted_as_too_slow() {
    let (store, folder) = (redis(), Folder::new());
    let proxy = FaultProxy::before(store.address());
    let (log, url) = (folder.path("log"), format!("redis://{}", proxy.address()));
    let arguments = ["--limit", "1000/1d", "--store", &url];
    let server = Server::start_logging_to(File::create(&log).expect("a log"), &arguments);
    let (alice, bob) = ("/v1/check?user=alice", "/v1/check?user=bob");
    until("counted by the store", &server, alice, is_from_store);
    let read = || fs::read_to_string(&log).expect("the log is text");
    assert!(!read().contains("the store does not answer"), "{}", read());
    let metric = |name| server.metric(name).unwrap_or_default();
    let errors = || metric(r#"tollgate_store_errors_total{kind="too_slow"}"#);

    // Late by less than the default deadline.
    proxy.delay(ByteDirection::Reply, Duration::from_millis(150));
    until("called too slow three times", &server, alice, |_| errors() >= 3.0);
    assert_eq!(source(&server.get(alice)), "fallback");
    assert!(metric("tollgate_store_late_replies_total") >= 3.0);
    let log = read();
    let is_told = |line: &str| {
        ["the store does not answer in time", "the store answered too late", "--store-timeout"]
            .iter()
            .all(|part| line.contains(part))
    };
    assert!(log.lines().any(is_told), "{log}");
    proxy.heal();
    until("counted by the store", &server, bob, is_from_store);
}

/// The second step of a call had the whole timeout again: trials, and the refund after the look at the store's clock.
#[test]
fn the_steps_of_a_call_share_the_timeout() {
    let policies = "policies:
  - { name: all, key: [user], quotas: [9/1d] }
  - { name: trial, mode: shadow, key: [user], quotas: [9/1d] }
";
    // Asks a service whose store takes more than half of the timeout for each step. `ask` gets the answer to a check before.
    let reply = |ask: &dyn Fn(&Server, &Value) -> Reply| {
        let (store, folder) = (redis(), Folder::new());
        let proxy = FaultProxy::before(store.address());
        let (config, url) = (folder.write("limits.yaml", policies), format!("redis://{}", proxy.address()));
        let server = Server::start(&["--config", &config, "--store", &url, "--store-timeout", "5s"]);
        let before = server.post("/v1/check", ALICE).json();
        assert_eq!(before["trials"][0]["answer"], "allowed", "{before}");
        proxy.delay(ByteDirection::Reply, Duration::from_secs(3));
        let reply = ask(&server, &before);
        assert_eq!(server.metric("tollgate_store_up"), Some(1.0), "it answers in time");
        reply
    };
    let check = || reply(&|server, _| server.post("/v1/check", ALICE)).json();
    let batch = || {
        let alice: Value = serde_json::from_str(ALICE).expect("JSON");
        let batch = json!({ "requests": [alice] }).to_string();
        reply(&|server, _| server.post("/v1/check/batch", &batch)).json()["decisions"][0].clone()
    };
    let refund = || {
        let body = |before: &Value| json!({ "attributes": { "user": "alice" }, "version": 1, "windows": charged(before) });
        reply(&|server, before| server.admin_post("/v1/refund", &body(before).to_string()))
    };
    thread::scope(|scope| {
        let decisions = [scope.spawn(check), scope.spawn(batch)];
        let refund = scope.spawn(refund);
        for decision in decisions {
            let decision = decision.join().expect("an answer");
            assert_eq!(decision["source"], "store", "{decision}");
            assert_eq!(decision["trials"][0]["answer"], "failed", "{decision}");
        }
        refund.join().expect("an answer").assert_problem(503, None);
    });
}

#[test]
fn the_sixth_of_five_is_denied_on_every_process() {
    for software in [Software::Redis, Software::Valkey] {
        let store = servers::Server::start(software);
        let processes = [serve(&store, "5/1d@first_hit", &[]), serve(&store, "5/1d@first_hit", &[])];
        for used in 1..=5 {
            let reply = processes[used % 2].post("/v1/check", ALICE);
            assert_eq!((reply.status, reply.json()["used"].as_u64()), (200, Some(used as u64)));
            assert_eq!(source(&reply), "store");
            assert_eq!(reply.header("tollgate-source"), None);
        }
        for process in &processes {
            let denied = process.post("/v1/check", ALICE);
            assert_eq!((denied.status, denied.json()["remaining"].as_u64()), (429, Some(0)));
        }
        let keys: Vec<String> = store.command(["KEYS", "*"]);
        assert_eq!(keys.len(), 1, "{keys:?}");
        assert!(keys[0].starts_with("tollgate:1:default:") && !keys[0].contains("alice"), "{keys:?}");
        assert_eq!(store.command::<u64>(["GET", &keys[0]]), 5);
    }
}

#[test]
fn a_count_survives_the_service() {
    let store = redis();
    assert_eq!(serve(&store, "5/1d@first_hit", &[]).post("/v1/check", ALICE).json()["used"], 1);
    let again = serve(&store, "5/1d@first_hit", &[]);
    assert_eq!(again.post("/v1/check", ALICE).json()["used"], 2);
    // Another prefix, another set of counters.
    let other = serve(&store, "5/1d@first_hit", &["--store-prefix", "staging"]);
    assert_eq!(other.post("/v1/check", ALICE).json()["used"], 1);
    // Keys in plain text.
    let plain = serve(&store, "5/1d@first_hit", &["--key", "user", "--identity", "plain"]);
    assert_eq!(plain.post("/v1/check", ALICE).json()["used"], 1);
    let keys: Vec<String> = store.command(["KEYS", "*alice*"]);
    assert_eq!(keys.len(), 1);
}

#[test]
fn of_4000_parallel_requests_through_two_processes_exactly_1000_pass() {
    let store = redis();
    let processes = [serve(&store, "1000/1d@first_hit", &[]), serve(&store, "1000/1d@first_hit", &[])];
    let mut connections: Vec<Connection> =
        processes.iter().flat_map(|process| (0..100).map(|_| process.connect())).collect();
    let requests = get("/v1/check?user=alice").repeat(20);
    for connection in &mut connections {
        connection.send(&requests);
    }
    let mut statuses = Vec::new();
    for connection in &mut connections {
        statuses.extend((0..20).map(|_| connection.reply().expect("an answer").status));
    }
    let count = |status| statuses.iter().filter(|other| **other == status).count();
    assert_eq!((statuses.len(), count(200), count(429)), (4_000, 1_000, 3_000));
    let denied_locally: f64 =
        processes.iter().filter_map(|process| process.metric("tollgate_local_denials_total")).sum();
    assert!(denied_locally > 0.0, "denials of a key that is used up do not all ask the store");
}

#[test]
fn changes_by_administrators_hold_for_all_processes() {
    let store = redis();
    let (one, other) = (serve(&store, "5/1d@first_hit", &[]), serve(&store, "5/1d@first_hit", &[]));
    let windows = charged(&one.post("/v1/check", ALICE).json());
    assert_eq!(other.admin_post("/v1/set", r#"{"attributes": {"user": "alice"}, "used": 4}"#).status, 200);
    assert_eq!(one.post("/v1/check", ALICE).json()["used"], 5);
    let refund =
        json!({ "attributes": { "user": "alice" }, "cost": 2, "version": 1, "windows": windows }).to_string();
    assert_eq!(other.admin_post("/v1/refund", &refund).json()["quotas"][0]["given"], 2);
    assert_eq!(one.post("/v1/check", ALICE).json()["used"], 4);
    assert_eq!(other.admin_post("/v1/reset", ALICE).status, 200);
    assert_eq!(one.post("/v1/check", ALICE).json()["used"], 1);
}

/// The service used the clock of its process instead of the store's. A window that had just begun on the store was in
/// the future there.
#[test]
fn a_refund_uses_the_clock_of_the_store() {
    let store = servers::Settings::new(Software::Redis).steered_clock().start();
    store.clock().step(3_600_000);
    let server = serve(&store, "5/1d@first_hit", &[]);
    let windows = charged(&server.post("/v1/check", ALICE).json());
    let refund = json!({ "attributes": { "user": "alice" }, "version": 1, "windows": windows }).to_string();
    let reply = server.admin_post("/v1/refund", &refund);
    assert_eq!((reply.status, reply.json()["quotas"][0]["given"].as_u64()), (200, Some(1)));
}

#[test]
fn a_store_that_is_down_at_the_start_is_used_once_it_is_up() {
    for policy in [&["open"][..], &["closed"], &["local", "--local-share", "1/2"]] {
        let store = redis();
        store.kill();
        let patient = ["--store-timeout", PATIENT, "--store-connect-timeout", PATIENT];
        let server = serve_by(&store, "4/1d@first_hit", &[policy, &patient].concat());
        assert_eq!(server.get("/healthz").status, 200);
        let (ready, reply) = (server.get("/readyz"), server.post("/v1/check", ALICE));
        if policy[0] == "closed" {
            ready.assert_problem(503, None);
            assert_eq!(reply.status, 503);
        } else {
            let text = String::from_utf8_lossy(&ready.body).into_owned();
            assert_eq!(ready.status, 200);
            let said = format!("ready; decided by on_store_failure ({})", policy[0]);
            assert!(text.starts_with(&said) && text.contains("cannot be reached"), "{text}");
            // Everybody may ask this.
            assert!(!text.contains(&store.address().to_string()), "{text}");
            assert_eq!((reply.status, source(&reply)), (200, json!("fallback")));
        }
        store.start_again(Data::Lost);
        until("ready", &server, "/readyz", |reply| reply.status == 200 && reply.body == b"ready\n");
        until("counted", &server, "/v1/check?user=bob", is_from_store);
        assert_eq!(server.metric("tollgate_store_up"), Some(1.0));
        server.signal("TERM");
        let (_, log) = server.wait();
        assert_eq!(log.matches("the store does not answer").count(), 1, "{log}");
        assert!(log.contains("connection refused"), "{log}");
        assert_eq!(log.matches("the store answers again").count(), 1, "{log}");
    }
}

type Steer = fn(&servers::Server);

/// A way to stop the store, and to start it again.
const TROUBLES: [(Steer, Steer); 2] = [
    (servers::Server::kill, |store| store.start_again(Data::Lost)),
    (servers::Server::pause, servers::Server::resume),
];

#[test]
fn open_admits_says_so_and_counts_it() {
    for (begin, end) in TROUBLES {
        let store = redis();
        let server = serve_by(&store, "1/1d@first_hit", &["open"]);
        until("counted", &server, "/v1/check?user=bob", is_from_store);
        let allowed = r#"tollgate_fallback_decisions_total{policy="default",verdict="allowed"}"#;
        // A service may start before its first connection is open.
        let before = server.metric(allowed).expect("a metric");
        begin(&store);
        for _ in 0..20 {
            let reply = server.post("/v1/check", ALICE);
            assert_eq!((reply.status, source(&reply)), (200, json!("fallback")));
            assert_eq!(reply.header("tollgate-source"), Some("fallback"));
            assert_eq!((&reply.json()["used"], &reply.json()["limit"]), (&json!(0), &json!(1)));
        }
        assert_eq!(server.metric(allowed), Some(before + 20.0));
        assert_eq!(server.metric("tollgate_store_up"), Some(0.0));
        assert_eq!(server.get("/v1/check?user=alice&cost=2").status, 429);
        end(&store);
        until("counted", &server, "/v1/check?user=carol", is_from_store);
    }
}

#[test]
fn closed_refuses_with_a_problem_of_its_own() {
    for (begin, end) in TROUBLES {
        let store = redis();
        let server = serve_by(&store, "5/1d@first_hit", &["closed"]);
        until("counted", &server, "/v1/check?user=bob", is_from_store);
        begin(&store);
        for _ in 0..20 {
            let reply = server.post("/v1/check", ALICE);
            reply.assert_problem(503, None);
            let body = reply.json();
            assert_eq!(body["type"], "urn:problem-type:tollgate:store-unavailable");
            let reason = body["reason"].as_str().expect("a reason");
            assert!(matches!(reason, "store_unavailable" | "outcome_unknown"), "{reason}");
            assert_eq!(reply.header("retry-after"), Some("1"));
        }
        server.post("/v1/peek", ALICE).assert_problem(503, None);
        assert_eq!(server.get("/readyz").status, 503);
        let batch = r#"{"requests": [{"attributes": {"user": "alice"}}]}"#;
        assert_eq!(server.post("/v1/check/batch", batch).json()["decisions"][0]["status"], 503);
        end(&store);
        until("counted", &server, "/v1/check?user=carol", is_from_store);
        until("ready", &server, "/readyz", |reply| reply.status == 200);
    }
}

/// Readiness depended on one server only, whichever it was.
#[test]
fn readiness_asks_every_server_of_a_cluster() {
    // The others go on when nobody can take the place of one.
    let settings = servers::Settings::new(Software::Redis).config("cluster-require-full-coverage", "no");
    let cluster = servers::Cluster::with(&settings);
    let seeds: Vec<String> = cluster.nodes().iter().map(|node| node.address().to_string()).collect();
    let url = format!("redis+cluster://{}", seeds.join(","));
    let server =
        Server::start(&["--limit", "5/1d@first_hit", "--store", &url, "--on-store-failure", "closed"]);
    until("ready", &server, "/readyz", |reply| reply.body == b"ready\n");
    let (replica, primary) = (cluster.replica_of(0), cluster.primary_of(0));
    replica.kill();
    primary.kill();
    until("partly ready", &server, "/readyz", |reply| {
        reply.status == 200 && reply.body.starts_with(b"ready; 1 of 3 servers of the store fail")
    });
    let statuses: Vec<u16> =
        (0..100).map(|user| server.get(&format!("/v1/check?user={user}")).status).collect();
    assert!(statuses.contains(&200) && statuses.contains(&503), "{statuses:?}");
    cluster.nodes().iter().for_each(servers::Server::kill);
    until("unready", &server, "/readyz", |reply| reply.status == 503);
}

/// Each request for `/readyz` wrote to the store, so clients could cause any number of writes.
#[test]
fn readiness_asks_the_store_ten_times_a_second_at_most() {
    let store = redis();
    let server = serve(&store, "5/1d", &[]);
    until("ready", &server, "/readyz", |reply| reply.body == b"ready\n");
    let commands = || store.info("total_commands_processed").parse::<u64>().expect("a number");
    let (before, began) = (commands(), Instant::now());
    let mut connections: Vec<Connection> = (0..20).map(|_| server.connect()).collect();
    let many = get("/readyz").repeat(50);
    connections.iter_mut().for_each(|connection| connection.send(&many));
    for connection in &mut connections {
        for _ in 0..50 {
            assert_eq!(connection.reply().map(|reply| reply.status), Some(200));
        }
    }
    let looks = began.elapsed().as_millis() as u64 / 100 + 1;
    // A look is a script, which is counted with the commands in it, and the counts are asked for as well.
    let asked = commands() - before;
    assert!(asked <= looks * 10 + 10, "{asked} commands, in the time of {looks} looks");
}

/// The store still answered reads. So `/readyz` said ready and the log said that the store is back, while every check
/// was refused.
#[test]
fn a_store_without_writes_counts_as_down() {
    for (setting, refusing, taking) in [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")] {
        let store = redis();
        let server = serve_by(&store, "5/1d@first_hit", &["closed"]);
        until("counted", &server, "/v1/check?user=bob", is_from_store);
        let _: () = store.command(["CONFIG", "SET", setting, refusing]);
        assert_eq!(server.post("/v1/check", ALICE).status, 503);
        assert_eq!(server.get("/readyz").status, 503, "{setting}");
        assert_eq!(server.metric("tollgate_store_up"), Some(0.0), "{setting}");
        let _: () = store.command(["CONFIG", "SET", setting, taking]);
        until("ready", &server, "/readyz", |reply| reply.status == 200);
        until("counted", &server, "/v1/check?user=alice", is_from_store);
    }
}

#[test]
fn local_admits_its_share_and_no_more() {
    for (begin, end) in TROUBLES {
        let store = redis();
        let server = serve_by(&store, "10/1d@first_hit", &["local", "--local-share", "1/3"]);
        until("counted", &server, "/v1/check?user=bob", is_from_store);
        begin(&store);
        let replies: Vec<Reply> = (0..20).map(|_| server.post("/v1/check", ALICE)).collect();
        assert_eq!(replies.iter().filter(|reply| reply.status == 200).count(), 4);
        assert!(replies.iter().all(|reply| reply.header("tollgate-source") == Some("fallback")));
        let denied = replies.last().expect("a reply");
        assert_eq!((denied.status, denied.json()["limit"].as_u64()), (429, Some(4)));
        assert!(denied.header("ratelimit").is_some_and(|limit| limit.starts_with(r#""default";r=0;t="#)));
        assert_eq!(denied.header("ratelimit-policy"), Some(r#""default";q=10;w=86400"#));
        let denials = r#"tollgate_fallback_decisions_total{policy="default",verdict="denied"}"#;
        assert_eq!(server.metric(denials), Some(16.0));
        end(&store);
        until("counted", &server, "/v1/check?user=carol", is_from_store);
    }
}

/// An administrator relies on an answer of 200.
#[test]
fn a_failed_change_is_a_problem_under_every_policy() {
    for policy in [&["open"][..], &["closed"], &["local", "--local-share", "1"]] {
        let store = redis();
        let server = serve_by(&store, "5/1d@first_hit", policy);
        until("counted", &server, "/v1/check?user=bob", is_from_store);
        store.kill();
        for (path, body) in [
            ("/v1/reset", ALICE),
            ("/v1/set", r#"{"attributes": {"user": "alice"}, "used": 1}"#),
            (
                "/v1/refund",
                r#"{"attributes": {"user": "alice"}, "version": 1,
                    "windows": [{"policy": "default", "quota": "5/1d@first_hit", "start": 0}]}"#,
            ),
        ] {
            let reply = server.admin_post(path, body);
            reply.assert_problem(503, None);
            assert_eq!(reply.json()["type"], "urn:problem-type:tollgate:store-unavailable");
        }
    }
}

/// A few calls wait until their deadline; others are answered without asking the store. `cargo xtask prove redis`
/// measures how long that takes.
#[test]
fn few_answers_wait_for_a_hanging_store() {
    let store = redis();
    let server = serve_by(&store, "5/1d@first_hit", &["open", "--store-timeout", "500ms"]);
    until("counted", &server, "/v1/check?user=bob", is_from_store);
    store.pause();
    let mut connection = server.connect();
    let waits = |_: &usize| {
        let asked = Instant::now();
        assert_eq!(connection.ask(&get("/v1/check?user=alice")).status, 200);
        asked.elapsed() >= Duration::from_millis(500)
    };
    let waited = (0..100).filter(waits).count();
    assert!((1..50).contains(&waited), "{waited} of 100 answers waited until their deadline");
    store.resume();
}

/// The store restarts under load and keeps its data: every acknowledged unit is counted, and none twice.
#[test]
fn a_restart_of_the_store_under_load_loses_no_acknowledged_count() {
    let store = servers::Settings::new(Software::Redis).persistence(Persistence::EveryWrite).start();
    let server = serve(&store, "1000000/1d@first_hit", &[]);
    let (counted, unknown) = (AtomicU64::new(0), AtomicU64::new(0));
    let ask = |address: SocketAddr, stop: &dyn Fn() -> bool| {
        let mut connection = Connection::open(address);
        while !stop() {
            let reply = connection.ask(&get("/v1/check?user=alice"));
            match (reply.status, reply.json()["reason"].as_str()) {
                (200, _) => counted.fetch_add(1, Ordering::Relaxed),
                (503, Some("outcome_unknown")) => unknown.fetch_add(1, Ordering::Relaxed),
                (503, Some("store_unavailable")) => 0,
                other => panic!("{other:?}"),
            };
        }
    };
    /// Stops the clients even if the test fails, because it would never end otherwise.
    struct StopOnDrop<'a>(&'a AtomicBool);

    impl Drop for StopOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let stop = AtomicBool::new(false);
    let is_over = || stop.load(Ordering::Relaxed);
    let goes_on = || {
        let (began, enough) = (Instant::now(), counted.load(Ordering::Relaxed) + 50);
        while counted.load(Ordering::Relaxed) < enough {
            assert!(began.elapsed() < HANG, "nothing is counted any more");
            thread::sleep(Duration::from_millis(1));
        }
    };
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| ask(server.public, &is_over));
        }
        let _stopping = StopOnDrop(&stop);
        for _ in 0..3 {
            goes_on();
            store.restart(Data::Kept);
        }
        goes_on();
    });
    let used = server.post("/v1/peek", ALICE).json()["used"].as_u64().expect("a count");
    let (counted, unknown) = (counted.into_inner(), unknown.into_inner());
    assert!((counted..=counted + unknown).contains(&used), "{used} of {counted} and {unknown} unknown");
}

#[test]
fn a_drain_ends_in_time_while_the_store_hangs() {
    let store = redis();
    let server = serve_by(&store, "5/1d@first_hit", &["closed"]);
    until("counted", &server, "/v1/check?user=bob", is_from_store);
    store.pause();
    let mut connection = server.connect();
    connection.send(&get("/v1/check?user=alice"));
    server.signal("TERM");
    assert_eq!(connection.reply().map(|reply| reply.status), Some(503));
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0));
    assert!(log.contains("stopped") && !log.contains("left"), "{log}");
}

/// A foreign value in place of a counter affects no other key.
#[test]
fn a_key_without_a_count_affects_no_other_key() {
    let store = redis();
    let server = serve(&store, "5/1d@first_hit", &[]);
    assert_eq!(server.post("/v1/check", ALICE).status, 200);
    let keys: Vec<String> = store.command(["KEYS", "*"]);
    let _: () = store.command(["SET", &keys[0], "nonsense"]);
    assert_eq!(server.post("/v1/check", ALICE).json()["reason"], "store_unavailable");
    assert_eq!(server.get("/v1/check?user=bob").status, 200);
    assert_eq!(server.metric(r#"tollgate_store_errors_total{kind="wrong_type"}"#), Some(1.0));
    assert_eq!(server.metric("tollgate_store_up"), Some(1.0));
}

/// The answer said that the outcome is unknown, although the first of two quotas was changed.
#[test]
fn a_partly_failed_change_names_the_changed_quotas() {
    let store = redis();
    let server = serve(&store, "5/1d@first_hit,7/2d@first_hit", &[]);
    assert_eq!(server.post("/v1/check", ALICE).status, 200);
    let keys: Vec<String> = store.command(["KEYS", "*"]);
    let second =
        keys.iter().max_by_key(|key| store.command::<u64>(["PTTL", key.as_str()])).expect("two keys");
    let _: () = store.command(["DEL", second]);
    let _: () = store.command(["RPUSH", second, "no count"]);
    let reply = server.admin_post("/v1/set", r#"{"attributes": {"user": "alice"}, "used": 3}"#);
    reply.assert_problem(503, None);
    let (reason, changed) = (&reply.json()["reason"], &reply.json()["changed"]);
    assert_eq!(reason, "outcome_unknown");
    // A client that obeyed it would send the change again.
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(*changed, json!([{ "policy": "default", "quota": "5/1d@first_hit" }]));
}

/// All lines shared one gap, so a line about a foreign value hid an outage. Later, the second of two outages had no
/// line, because it began within ten seconds of the first.
#[test]
fn logs_every_outage() {
    let store = redis();
    let server = serve(&store, "5/1d@first_hit", &[]);
    assert_eq!(server.post("/v1/check", ALICE).status, 200);
    let keys: Vec<String> = store.command(["KEYS", "*"]);
    let _: () = store.command(["SET", &keys[0], "nonsense"]);
    assert_eq!(server.post("/v1/check", ALICE).status, 503);
    for _ in 0..2 {
        store.kill();
        assert_eq!(server.get("/v1/check?user=bob").status, 503);
        store.start_again(Data::Lost);
        until("counted", &server, "/v1/check?user=bob", is_from_store);
    }
    server.signal("TERM");
    let (_, log) = server.wait();
    assert_eq!(log.matches("a counter was overwritten").count(), 1, "{log}");
    // What is wrong is in the error's source.
    assert!(log.contains("holds something other than a count"), "{log}");
    let count = |line: &str| log.matches(line).count();
    let (gone, back) = ("the store does not answer", "the store answers again");
    let gathered = "the store failed again";
    // On a machine that stands still, the second outage begins later and has lines of its own.
    assert!(matches!((count(gone), count(back), count(gathered)), (1, 1, 1) | (2, 2, 0)), "{log}");
    if let Some(line) = log.lines().find(|line| line.contains(gathered)) {
        assert!(line.contains("outages=1") && line.contains(r#"store="answers""#), "{line}");
    }
}

#[test]
fn every_flag_of_the_store_has_an_environment_variable() {
    let store = servers::Settings::new(Software::Redis).password("sesame").start();
    let url = url(&store);
    let mut command = tollgate();
    command.envs([
        ("TOLLGATE_LIMIT", "4/1d@first_hit"),
        ("TOLLGATE_STORE", url.as_str()),
        ("TOLLGATE_STORE_TIMEOUT", PATIENT),
        ("TOLLGATE_STORE_CONNECT_TIMEOUT", PATIENT),
        ("TOLLGATE_STORE_PREFIX", "variable"),
        ("TOLLGATE_IDENTITY", "plain"),
        ("TOLLGATE_LOCAL_DENIALS", "0"),
        ("TOLLGATE_STORE_PASSWORD", "sesame"),
        ("TOLLGATE_ON_STORE_FAILURE", "local"),
        ("TOLLGATE_LOCAL_SHARE", "1/2"),
    ]);
    let server = Server::start_by(command, &[]);
    until("counted", &server, "/v1/check?user=alice", is_from_store);
    let keys: Vec<String> = store.command(["KEYS", "variable:*alice*"]);
    assert_eq!(keys.len(), 1);
    let full = || server.get("/v1/check?user=carol&cost=4");
    assert_eq!((full().status, full().status, source(&full())), (200, 429, json!("store")));
    store.kill();
    let limits: Vec<Value> =
        (0..3).map(|_| server.get("/v1/check?user=bob").json()["limit"].clone()).collect();
    assert_eq!(limits, [2, 2, 2]);
}

#[test]
fn exits_with_2_for_invalid_flags_of_the_store() {
    let fails = |arguments: &[&str]| {
        let output = tollgate().args(["serve", "--limit", "5/1m"]).args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let with = |more: &[&str]| fails(&[&["--store", "redis://127.0.0.1:1"], more].concat());
    assert!(with(&["--on-store-failure", "local"]).contains("--local-share"));
    assert!(with(&["--local-share", "1/3"]).contains("--on-store-failure local"));
    for share in ["0", "1.5", "4/3", "-1", "a third"] {
        let error = with(&["--on-store-failure", "local", "--local-share", share]);
        assert!(error.contains("above 0 and at most 1"), "{error}");
    }
    for time in ["0ms", "20", "2m", "-1s"] {
        assert!(with(&["--store-timeout", time]).contains("1ms to 60s"), "{time}");
    }
    for count in ["-1", "10000001", "many"] {
        assert!(with(&["--local-denials", count]).contains("from 0 to 10000000"), "{count}");
    }
    assert!(fails(&["--on-store-failure", "closed"]).contains("--store <URL>"));
    assert!(fails(&["--store-prefix", "x"]).contains("--store <URL>"));
    // The start failed with status 1, and the error did not name the flag.
    let sentinels = ["--store", "redis+sentinel://h/p", "--store-sentinel-user", "watcher"];
    assert!(fails(&sentinels).contains("`--store-sentinel-user` needs a password: pass `--store-sentinel-p"));
    let error = fails(&["--store", "redis://ann@h"]);
    assert!(
        error.contains("the store's URL names a user, which needs a password: pass `--store-password-file`")
    );
}

/// The error only showed at the first check.
#[test]
fn reports_a_wrong_password_at_the_start_with_advice() {
    let store = servers::Settings::new(Software::Redis).password("right").start();
    let mut command = tollgate();
    command.env("TOLLGATE_STORE", url(&store)).env("TOLLGATE_STORE_PASSWORD", "wrong");
    command.args(["serve", "--limit", "5/1m", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    // Longer than this machine stands still, or what is said is that connecting takes too long; it is said after twice
    // that time.
    command.args(["--store-connect-timeout", "3s"]);
    let mut service = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let log = BufReader::new(service.stderr.take().expect("its log is piped"));
    let (sender, said) = mpsc::channel();
    thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let line = |part: &str| {
        let next = || said.recv_timeout(Duration::from_secs(60)).ok();
        std::iter::from_fn(next).find(|line| line.contains(part))
    };
    let warned = line("no connection to the store yet");
    store.command::<()>(["CONFIG", "SET", "requirepass", "wrong"]);
    let mended = line("connected to the store");
    service.kill().expect("it can be killed");
    service.wait().expect("it ends");
    let warned = warned.expect("a warning");
    assert!(warned.contains("wrong user or password") && warned.contains("WARN"), "{warned}");
    assert!(
        warned.contains("TOLLGATE_STORE_PASSWORD") && warned.contains("--store-password-file"),
        "{warned}"
    );
    assert!(mended.is_some());
}

/// No answer and no log line has the password, right or wrong, wherever it comes from.
#[test]
fn a_password_is_in_no_log_and_no_answer() {
    const PASSWORD: &str = "open-sesame";
    let folder = std::env::temp_dir().join(format!("tollgate-secret-{}", std::process::id()));
    std::fs::write(&folder, format!("{PASSWORD}\n")).expect("a file can be written");
    let file = folder.to_str().expect("a path in UTF-8");

    for (right, status) in [(PASSWORD, 200), ("another", 503)] {
        let store = servers::Settings::new(Software::Redis).password(right).start();
        let with_password = format!("redis://:{PASSWORD}@{}", store.address());
        let without = url(&store);
        for (url, flags, variable) in [
            (&with_password, &[][..], None),
            (&without, &["--store-password-file", file], None),
            (&without, &[], Some(("TOLLGATE_STORE_PASSWORD", PASSWORD))),
        ] {
            let mut command = tollgate();
            command.env("RUST_LOG", EVERY_LINE).env("TOLLGATE_STORE", url).envs(variable);
            let exact =
                ["--limit", "5/1d@first_hit", "--on-store-failure", "closed", "--store-timeout", PATIENT];
            let patient = ["--store-connect-timeout", PATIENT];
            let server = Server::start_by(command, &[&exact[..], &patient, flags].concat());
            let reply = server.post("/v1/check", ALICE);
            assert_eq!(reply.status, status, "{:?}", reply.json());
            let mut said = server.said.join("\n");
            for reply in [
                &reply,
                &server.get("/readyz"),
                &server.admin_get("/metrics"),
                &server.admin_get("/openapi.json"),
            ] {
                said += &String::from_utf8_lossy(&reply.body);
            }
            server.signal("TERM");
            said += &server.wait().1;
            assert!(said.contains("counters are shared"), "{said}");
            assert!(!said.contains("sesame"), "{said}");
        }
    }
    let _ = std::fs::remove_file(&folder);

    for arguments in [&["serve", "--help"][..], &["doctor", "--help"], &["serve", "--limit", "5/1mm"]] {
        let mut command = tollgate();
        command.env("TOLLGATE_STORE", "redis://:open-sesame@h").env("TOLLGATE_STORE_PASSWORD", PASSWORD);
        let output = command.args(arguments).output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        assert!(!said.is_empty() && !String::from_utf8_lossy(&said).contains("sesame"), "{arguments:?}");
    }
}

/// The log named a key by its plain digest, although the store did not.
#[test]
fn with_a_secret_no_digest_in_store_or_log_can_be_guessed() {
    // SHA-256 of 01 05 'alice', and its HMAC.
    const PLAIN: &str = "xXvTx0caa3RWc8NUkisk5w";
    const KEYED: &str = "zkEp-ll_AWvzt1KHA6QgnQ";
    let (store, folder) = (redis(), Folder::new());
    let file = folder.write("secret", "0123456789abcdef0123456789abcdef\n");
    let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("our own file");
    mode(0o640);
    let with_secret = ["--key", "user", "--identity-secret-file", &file];
    let server = serve(&store, "5/1d@first_hit", &with_secret);
    assert_eq!(server.post("/v1/check", ALICE).status, 200);
    let keys: Vec<String> = store.command(["KEYS", "*"]);
    assert_eq!(keys, [format!("tollgate:1:default:1d@first_hit:{{{KEYED}}}")]);
    store.command::<()>(["SET", &keys[0], "overwritten"]);
    assert_eq!(server.post("/v1/check", ALICE).status, 503);
    server.signal("TERM");
    let log = server.wait().1;
    assert!(log.contains(KEYED) && !log.contains(PLAIN), "{log}");

    let refused = |more: &[&str]| {
        let url = url(&store);
        let all = [&["serve", "--limit", "5/1m", "--store", &url], &with_secret[..], more].concat();
        let output = tollgate().args(all).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).expect("text")
    };
    for plain in [["--identity", "plain"], ["--store-layout", "rlaas"]] {
        assert_eq!(
            refused(&plain),
            "error: `--identity-secret-file` is only valid with digests: leave it out, or leave out `--identity \
             plain` or the key layout\n"
        );
    }
    mode(0o644);
    let exposed = format!(
        "error: `--identity-secret-file`: every user of this machine can access the secret in the file {file} (its \
         mode is 644): run `chmod o= {file}`\n"
    );
    assert_eq!(refused(&[]), exposed);
    mode(0o600);
    folder.write("secret", "too short");
    mode(0o600);
    assert!(refused(&[]).contains(" has 9 bytes, and needs at least 32"));
}

/// Every check of the key fell back until somebody deleted it, and the log did not name the key.
#[test]
fn the_log_names_an_overwritten_counter_and_how_to_repair_it() {
    let store = redis();
    let server = serve(&store, "5/1d@first_hit", &["--key", "user"]);
    assert_eq!(server.post("/v1/check", ALICE).status, 200);
    let keys: Vec<String> = store.command(["KEYS", "*"]);
    store.command::<()>(["SET", &keys[0], "overwritten"]);
    for _ in 0..3 {
        server.post("/v1/check", ALICE).assert_problem(503, None);
    }
    // As the log says.
    assert_eq!(server.admin_post("/v1/reset", ALICE).status, 200);
    assert_eq!(server.post("/v1/check", ALICE).json()["used"], 1);
    server.signal("TERM");
    let (_, log) = server.wait();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("a counter was overwritten")).collect();
    assert_eq!(lines.len(), 1, "once a gap: {log}");
    let named = keys[0].strip_prefix("tollgate:1:").expect("our own layout").replace("%40", "@");
    assert!(lines[0].contains(named.as_str()) && lines[0].contains("/v1/reset"), "{named}: {log}");
    assert!(!lines[0].contains("alice"), "{log}");
}

#[test]
fn receipts_records_and_limits_of_callers_are_shared() {
    for software in [Software::Redis, Software::Valkey] {
        let store = servers::Server::start(software);
        let secret = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("shared-secret");
        std::fs::write(&secret, "0123456789abcdef0123456789abcdef").expect("it can be written");
        let more = ["--caller-quotas", "--receipt-secret-file", secret.to_str().expect("a path in UTF-8")];
        let (one, other) = (serve(&store, "5/1d@staggered", &more), serve(&store, "5/1d@staggered", &more));
        let asked = json!({ "attributes": { "user": "alice" }, "cost": 3, "receipt": true });
        let receipt = one.post("/v1/check", &asked.to_string()).json()["receipt"].clone();
        assert_eq!(other.admin_post("/v1/record", ALICE).json()["quotas"][0]["used"], 4);
        let refund = json!({ "receipt": receipt }).to_string();
        let refunded = other.post("/v1/refund", &refund).json()["quotas"][0].clone();
        assert_eq!(
            (&refunded["given"], &refunded["used"], &refunded["window"]),
            (&json!(3), &json!(1), &json!("open"))
        );
        // At most what is used.
        assert_eq!(one.post("/v1/refund", &refund).json()["quotas"][0]["given"], 1);

        let mut limits =
            json!({ "attributes": { "user": "alice" }, "policy": "default", "quotas": ["2/1d@staggered"] });
        limits["receipt"] = true.into();
        let body = limits.to_string();
        let first = one.post("/v1/check", &body);
        assert_eq!(
            (first.status, other.post("/v1/check", &body).status, one.post("/v1/check", &body).status),
            (200, 200, 429)
        );
        let refund = json!({ "receipt": first.json()["receipt"] }).to_string();
        assert_eq!(other.post("/v1/refund", &refund).json()["quotas"][0]["given"], 1);
        assert_eq!(other.post("/v1/check", &body).status, 200);
        assert_eq!(one.post("/v1/peek", ALICE).json()["used"], 0, "they never meet counters of policies");
        let keys: Vec<String> = store.command(["KEYS", "*"]);
        assert!(keys.iter().any(|key| key.starts_with("tollgate:1:default%3Acaller:")), "{keys:?}");
    }
}

/// With `open`, a record during an outage is not an error, but the answer must say that it was not counted.
#[test]
fn a_record_without_the_store_says_so() {
    let store = redis();
    let server = serve_by(&store, "5/1d@first_hit", &["open"]);
    until("counted", &server, "/v1/check?user=bob", is_from_store);
    store.kill();
    let recorded = server.admin_post("/v1/record", ALICE);
    assert_eq!((recorded.status, &recorded.json()["quotas"][0]["source"]), (200, &json!("fallback")));
    let closed = serve_by(&store, "5/1d@first_hit", &["closed"]);
    closed.admin_post("/v1/record", ALICE).assert_problem(503, None);
}
