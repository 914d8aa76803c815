//! The answers of each policy while the store fails or is slow, and readiness.

use std::fs::{self, File};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_testkit::servers::{self, ByteDirection, Data, FaultProxy, Software};

use super::{ALICE, PATIENT, is_from_store, redis, serve, source, until, url};
use crate::support::folder::Folder;
use crate::support::{Connection, Reply, Server, charged, get};

/// Starts a service with the default deadline and this policy.
fn serve_by(store: &servers::Server, limit: &str, policy: &[&str]) -> Server {
    let url = url(store);
    Server::start(&[&["--limit", limit, "--store", &url, "--on-store-failure"], policy].concat())
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
        until("ready", &server, "/readyz", |reply| reply.status == 200 && reply.body.starts_with(b"ready\n"));
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
    until("ready", &server, "/readyz", |reply| reply.body.starts_with(b"ready\n"));
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
    until("ready", &server, "/readyz", |reply| reply.body.starts_with(b"ready\n"));
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

/// The caller has the hold as a sealed text, which lacked the share that the process counts it against: renewing was
/// answered with a conflict.
#[test]
fn a_hold_of_an_outage_is_renewed_and_settled_in_its_process() {
    let (store, folder) = (redis(), Folder::new());
    let policies = "policies:
  - { name: tokens, match: { path: [/, /open] }, key: [user], quotas: [8/1d@first_hit, 4~in_flight], overrun: cap,
      on_store_failure: local, local_share: 1/2 }
  - { name: checks, match: { path: /checks }, key: [user], quotas: [9/1d@first_hit] }
  - { name: others, match: { path: /open }, key: [user], quotas: [9/1d@first_hit] }
";
    let file = folder.write("tollgate.yaml", policies);
    let server = Server::start(&["--config", &file, "--store", &url(&store)]);
    let post = |path: &str, body: Value| server.post(path, &body.to_string());
    let reserve = |path: &str| {
        let body = json!({ "attributes": { "user": "alice", "path": path }, "cost": 2 });
        post("/v1/reserve", body)
    };
    until("counted", &server, "/v1/check?user=bob&path=/checks", is_from_store);
    let counted = reserve("/").json();
    store.kill();
    let renewed = post("/v1/renew", json!({ "hold": counted["hold"] }));
    renewed.assert_problem(503, None);
    for path in ["/", "/open"] {
        let reserved = reserve(path);
        assert_eq!((reserved.status, source(&reserved)), (200, json!("fallback")), "{path}");
        let hold = reserved.json()["hold"].clone();
        let renewed = post("/v1/renew", json!({ "hold": hold })).json();
        assert_eq!(renewed["status"], "renewed", "{path}: {renewed}");
        let settled = post("/v1/settle", json!({ "hold": hold, "cost": 1 })).json();
        assert_eq!(settled["status"], "settled", "{path}: {settled}");
        assert_eq!(
            (&settled["quotas"][0]["policy"], &settled["quotas"][0]["given"]),
            (&json!("tokens"), &json!(1))
        );
    }
    // Two of four may be live here.
    assert_eq!([reserve("/").status, reserve("/open").status, reserve("/").status], [200, 429, 429]);
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
