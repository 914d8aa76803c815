//! The "Rate Limiter" case study of LeetDezine, with a file of policies.

use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_testkit::servers::published::{self, PublishedWindow};
use tollgate_testkit::servers::{Data, Software};

use super::{example, keys, serve, still, url, written};
use crate::support::{HANG, Reply, Server, get};

/// Two numbers that the study calculates.
const SECOND: i64 = 1_745_000_145;
const EARLIER: i64 = 1_701_000_000;

fn start(store: &str, file: &str) -> Server {
    serve(&[("REDIS_URL", store)], &["--config", file, "--answers", "leetdezine"])
}

fn ask(server: &Server, query: &str) -> Reply {
    server.get(&format!("/api/v1/rate_limit?{query}"))
}

#[track_caller]
fn assert_accepted(reply: &Reply) {
    assert_eq!((reply.status, reply.json()), (200, json!({ "accepted": true, "retry_after": 0 })));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
}

#[track_caller]
fn assert_blocked(reply: &Reply, seconds: u64) {
    let body = json!({ "accepted": false, "retry_after": seconds, "error": "rate limit exceeded" });
    assert_eq!((reply.status, reply.json()), (429, body));
    assert_eq!(reply.header("retry-after"), Some(seconds.to_string().as_str()));
}

/// One of its pages blocks the fifth of five, and another says that a count of 5 passes.
#[test]
fn the_fifth_of_five_passes_and_the_sixth_does_not_and_both_share_one_count() {
    let store = still(Software::Redis, EARLIER);
    let server = start(&url(&store), &example("leetdezine/policies.yaml"));
    let query = "user_id=abc&ip_address=203.0.113.5&endpoint=/search&tier=free";
    assert_accepted(&ask(&server, query));
    assert_eq!(keys(&store), ["user:abc:/search:28350000"]);

    store.clock().step((SECOND - EARLIER) * 1_000);
    let mut gateway = store.connection();
    for _ in 0..2 {
        assert_accepted(&ask(&server, query));
    }
    let window = PublishedWindow::now(&store, Duration::from_secs(60));
    assert_eq!(published::leetdezine(&mut gateway, "abc", window), 3);
    for _ in 0..2 {
        assert_accepted(&ask(&server, query));
    }
    // 45 seconds of the minute have gone.
    assert_blocked(&ask(&server, query), 15);
    assert_eq!(published::leetdezine(&mut gateway, "abc", window), 7);
    assert_eq!(store.command::<u64>(["GET", "user:abc:/search:29083335"]), 7);
}

#[test]
fn rules_depend_on_tier_and_endpoint_and_the_default_tier_is_free() {
    let store = still(Software::Redis, SECOND);
    let server = start(&url(&store), &example("leetdezine/policies.yaml"));
    let admitted = |query: &str| (0..25).filter(|_| ask(&server, query).status == 200).count();
    assert_eq!(admitted("user_id=a&endpoint=/search"), 5);
    assert_eq!(admitted("user_id=b&endpoint=/search&tier=free"), 5);
    assert_eq!(admitted("user_id=c&endpoint=/search&tier=premium"), 25);
    assert_eq!(admitted("user_id=d&endpoint=/search&tier=admin"), 25);
    // By address without a user; a user behind the address has another counter.
    assert_eq!(admitted("ip=203.0.113.5&endpoint=/search"), 20);
    assert_eq!(admitted("user_id=e&ip_address=203.0.113.5&endpoint=/search"), 5);
    assert_eq!(admitted("user_id=f&ip=203.0.113.7&endpoint=/login"), 10);
    assert_eq!(admitted("user_id=a&endpoint=/no-rule"), 25);
    let counters =
        ["203.0.113.5:/search", "203.0.113.7:/login", "a:/search", "b:/search", "c:/search", "e:/search"];
    assert_eq!(keys(&store), counters.map(|counter| format!("user:{counter}:29083335")));
    assert_eq!(store.command::<u64>(["GET", "user:a:/search:29083335"]), 25, "attempts are counted");
}

/// Its processes reload rules every half minute.
#[test]
fn new_rules_hold_long_before_half_a_minute() {
    let store = still(Software::Redis, SECOND);
    let policies = std::fs::read_to_string(example("leetdezine/policies.yaml")).expect("the example");
    let file = written("reloaded.yaml", &policies);
    let server = start(&url(&store), &file);
    let query = "user_id=abc&endpoint=/search";
    (0..5).for_each(|_| assert_accepted(&ask(&server, query)));
    assert_blocked(&ask(&server, query), 15);
    std::fs::write(&file, policies.replace("[5/1m]", "[1000000/1m]")).expect("a file can be written");
    let began = Instant::now();
    while ask(&server, query).status != 200 {
        assert!(began.elapsed() < HANG, "the old rules go on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn two_services_that_race_for_the_last_unit_never_both_get_it() {
    let store = still(Software::Redis, SECOND);
    let policies = std::fs::read_to_string(example("leetdezine/policies.yaml")).expect("the example");
    let file = written("race.yaml", &policies.replace("[5/1m]", "[1/1m]"));
    let services = [start(&url(&store), &file), start(&url(&store), &file)];
    let mut connections: Vec<_> = services.iter().map(Server::connect).collect();
    for user in 0..100 {
        let request = get(&format!("/api/v1/rate_limit?user_id=u{user}&endpoint=/search"));
        connections.iter_mut().for_each(|connection| connection.send(&request));
        let mut statuses: Vec<u16> =
            connections.iter_mut().map(|connection| connection.reply().expect("an answer").status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 429], "user {user}");
    }
}

/// During an outage there are decisions but no protection, and the metrics show both.
#[test]
fn counts_fallback_decisions_separately() {
    let store = still(Software::Redis, SECOND);
    let server = start(&url(&store), &example("leetdezine/policies.yaml"));
    let query = "user_id=abc&endpoint=/search";
    assert_accepted(&ask(&server, query));
    store.kill();
    for _ in 0..7 {
        let reply = ask(&server, query);
        assert_accepted(&reply);
        assert_eq!(reply.header("tollgate-source"), Some("fallback"));
    }
    let labels = r#"{policy="search",verdict="allowed"}"#;
    assert_eq!(server.metric(&format!("tollgate_decisions_total{labels}")), Some(8.0));
    assert_eq!(server.metric(&format!("tollgate_fallback_decisions_total{labels}")), Some(7.0));
    // A policy with `closed` refuses, which is not a denial.
    ask(&server, "ip=203.0.113.7&endpoint=/login").assert_problem(503, None);
    store.start_again(Data::Lost);
    let began = Instant::now();
    while ask(&server, query).header("tollgate-source").is_some() {
        assert!(began.elapsed() < HANG, "the store is back, and not used");
        std::thread::sleep(Duration::from_millis(10));
    }
}
