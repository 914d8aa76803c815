//! Exact counts across processes, clocks and restarts.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_testkit::servers::{self, Data, Persistence, Software};

use super::{ALICE, redis, serve, source};
use crate::support::{Connection, HANG, charged, get};

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
fn exactly_1000_of_4000_parallel_requests_through_two_processes_pass() {
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

#[test]
fn holds_records_and_limits_of_callers_are_shared() {
    for software in [Software::Redis, Software::Valkey] {
        let store = servers::Server::start(software);
        let secret = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("shared-secret");
        std::fs::write(&secret, "0123456789abcdef0123456789abcdef").expect("it can be written");
        let more = ["--caller-quotas", "--hold-secret-file", secret.to_str().expect("a path in UTF-8")];
        let (one, other) = (serve(&store, "5/1d@staggered", &more), serve(&store, "5/1d@staggered", &more));
        let asked = json!({ "attributes": { "user": "alice" }, "cost": 3 });
        let hold = one.post("/v1/reserve", &asked.to_string()).json()["hold"].clone();
        assert_eq!(other.admin_post("/v1/record", ALICE).json()["quotas"][0]["used"], 4);
        let settle = json!({ "hold": hold, "cost": 0 }).to_string();
        let used = || one.post("/v1/peek", ALICE).json()["used"].clone();
        // The second time, it is the first answer.
        for process in [&other, &one] {
            let settled = process.post("/v1/settle", &settle).json();
            assert_eq!((&settled["status"], &settled["quotas"][0]["given"]), (&json!("settled"), &json!(3)));
            assert_eq!(used(), 1);
        }

        let limits =
            json!({ "attributes": { "user": "alice" }, "policy": "default", "quotas": ["2/1d@staggered"] });
        let body = limits.to_string();
        let first = one.post("/v1/reserve", &body);
        assert_eq!(
            (first.status, other.post("/v1/check", &body).status, one.post("/v1/check", &body).status),
            (200, 200, 429)
        );
        let settle = json!({ "hold": first.json()["hold"], "cost": 0 }).to_string();
        assert_eq!(other.post("/v1/settle", &settle).json()["quotas"][0]["given"], 1);
        assert_eq!(other.post("/v1/check", &body).status, 200);
        assert_eq!(used(), 1, "they never meet counters of policies");
        let keys: Vec<String> = store.command(["KEYS", "*"]);
        assert!(keys.iter().any(|key| key.starts_with("tollgate:1:default%3Acaller:")), "{keys:?}");
    }
}
