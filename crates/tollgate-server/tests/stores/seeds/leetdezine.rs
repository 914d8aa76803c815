//! The "Rate Limiter" case study of LeetDezine, with a file of policies.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_testkit::servers::published::{self, PublishedWindow};
use tollgate_testkit::servers::{Data, Software};

use super::{example, keys, serve, still, url, written};
use crate::support::{Connection, HANG, Reply, Server, get, tollgate, undisturbed, within};

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

/// A service with the example's policies, and an administrator of rules.
struct Ruled {
    server: Server,
    /// Headers of the administrator.
    admin: String,
    /// Headers of the gateway.
    gateway: String,
}

impl Ruled {
    /// Starts two processes on one store, with the same principals.
    fn two(store: &str, name: &str) -> [Self; 2] {
        let (admin, admins) = principal("ops", "overrides");
        let (gateway, gateways) = principal("gateway", "check");
        let tokens = written(&format!("{name}.jsonl"), &format!("{admins}\n{gateways}\n"));
        let file = example("leetdezine/policies.yaml");
        [(); 2].map(|()| {
            let flags = ["--config", &file, "--answers", "leetdezine", "--tokens", &tokens];
            let server = serve(&[("REDIS_URL", store)], &flags);
            Self { server, admin: admin.clone(), gateway: gateway.clone() }
        })
    }

    fn set(&self, rule: &Value) -> Reply {
        let body = rule.to_string();
        let head = format!(
            "POST /api/v1/rules HTTP/1.1\r\nHost: localhost\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.admin,
            body.len()
        );
        Connection::open(self.server.admin).ask((head + &body).as_bytes())
    }

    fn ask(&self, query: &str) -> Reply {
        let head =
            format!("GET /api/v1/rate_limit?{query} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", self.gateway);
        Connection::open(self.server.public).ask(head.as_bytes())
    }
}

/// Returns the header of a new principal with this scope, and its line.
fn principal(name: &str, scope: &str) -> (String, String) {
    let arguments = ["token", "new", "--json", "--name", name, "--scope", scope];
    let output = tollgate().args(arguments).output().expect("it runs");
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |field: &str| printed[field].as_str().expect("a text").to_owned();
    (format!("Authorization: Bearer {}\r\n", text("token")), text("line"))
}

/// Feature 39: its rules change while it runs, by its API, and each process takes them over. There it takes up to half a
/// minute.
#[test]
fn a_rule_that_is_set_is_live_at_once_here_and_within_a_second_elsewhere() {
    undisturbed(assert_rules_become_live);
}

fn assert_rules_become_live() {
    let store = still(Software::Redis, SECOND);
    let [here, there] = Ruled::two(&url(&store), "rules");
    let query = "user_id=abc&endpoint=/search";
    (0..5).for_each(|_| assert_accepted(&here.ask(query)));
    assert_blocked(&here.ask(query), 15);
    assert_blocked(&there.ask(query), 15);

    let rule =
        json!({ "endpoint": "/search", "dimension": "per_user", "limit": 1_000, "window_seconds": 60 });
    let reply = here.set(&rule);
    let set = reply.json();
    assert_eq!(reply.status, 200, "{set}");
    let shown = ["id", "quotas", "replaced", "by", "until"].map(|field| set[field].clone());
    assert_eq!(json!(shown), json!(["search:tier=free", ["1000/1m"], false, "ops", null]));
    assert_accepted(&here.ask(query));
    within(Duration::from_secs(1), "the rule is live elsewhere", || there.ask(query).status == 200);
    // The window is the same, and so is the counter with all attempts.
    let attempts: u64 = store.command(["GET", "user:abc:/search:29083335"]);
    assert!((9..1_000).contains(&attempts), "{attempts}");

    // Other tiers, endpoints and dimensions keep their limits.
    let admitted = |query: &str| (0..25).filter(|_| here.ask(query).status == 200).count();
    assert_eq!(admitted("user_id=b&endpoint=/search"), 25);
    assert_eq!(admitted("ip=203.0.113.5&endpoint=/search"), 20);
    assert_eq!(admitted("ip=203.0.113.5&endpoint=/login"), 10);

    // A rule for a tier has precedence over the tier in the file, and replaces the rule before it.
    let rule = |limit: u64| json!({ "endpoint": "/search", "dimension": "per_user", "limit": limit, "window_seconds": 60, "tier": "premium" });
    assert_eq!(here.set(&rule(3)).json()["replaced"], false);
    assert_eq!(here.set(&rule(2)).json()["replaced"], true);
    assert_eq!(admitted("user_id=c&endpoint=/search&tier=premium"), 2);
    assert_eq!(admitted("user_id=c&endpoint=/search&tier=admin"), 25);
    let rule = json!({ "endpoint": "/login", "dimension": "per_ip", "limit": 1, "window_seconds": 3_600 });
    assert_eq!(here.set(&rule).json()["id"], "login:tier=free");
    assert_eq!(admitted("ip=203.0.113.7&endpoint=/login"), 1);
}

#[test]
fn a_rule_that_fits_no_policy_or_whose_caller_may_not_set_it_changes_nothing() {
    let store = still(Software::Redis, SECOND);
    let [ops, _] = Ruled::two(&url(&store), "refused-rules");
    let rule = |more: Value| {
        let mut rule =
            json!({ "endpoint": "/search", "dimension": "per_user", "limit": 9, "window_seconds": 60 });
        let fields = rule.as_object_mut().expect("an object");
        for (name, value) in more.as_object().expect("an object") {
            fields.insert(name.clone(), value.clone());
        }
        fields.retain(|_, value| !value.is_null());
        rule
    };
    for (more, status, field) in [
        (json!({ "endpoint": null }), 400, Some("endpoint")),
        (json!({ "endpoint": "" }), 400, Some("endpoint")),
        (json!({ "dimension": "global" }), 400, Some("endpoint")),
        (json!({ "dimension": "per_planet" }), 400, Some("dimension")),
        (json!({ "limit": 0 }), 400, Some("limit")),
        (json!({ "limit": 1.5 }), 400, Some("limit")),
        (json!({ "window_seconds": 0 }), 400, Some("window_seconds")),
        (json!({ "window_seconds": 315_619_201 }), 400, Some("window_seconds")),
        (json!({ "tier": "" }), 400, Some("tier")),
        (json!({ "policy": "search" }), 400, Some("policy")),
        (json!({ "endpoint": "/no-rule" }), 409, Some("endpoint")),
        (json!({ "endpoint": "/login" }), 409, Some("endpoint")),
        (json!({ "dimension": "per_endpoint" }), 409, Some("endpoint")),
        (json!({ "dimension": "global", "endpoint": null }), 409, Some("dimension")),
    ] {
        let reply = ops.set(&rule(more.clone()));
        assert_eq!(
            (reply.status, reply.json()["field"].as_str()),
            (status, field),
            "{more}: {}",
            reply.json()
        );
    }
    let gateway = Ruled { admin: ops.gateway.clone(), ..ops };
    gateway.set(&rule(json!({}))).assert_problem(403, None);
    let admitted = (0..9).filter(|_| gateway.ask("user_id=abc&endpoint=/search").status == 200).count();
    assert_eq!(admitted, 5);
}

/// Without principals, nobody can set a rule, and without its dialect there are none.
#[test]
fn rules_need_principals_and_the_dialect() {
    let store = still(Software::Redis, SECOND);
    let file = example("leetdezine/policies.yaml");
    let rule = r#"{"endpoint": "/search", "dimension": "per_user", "limit": 9, "window_seconds": 60}"#;
    start(&url(&store), &file).admin_post("/api/v1/rules", rule).assert_problem(403, None);
    let plain = serve(&[("REDIS_URL", &url(&store))], &["--config", &file]);
    plain.admin_post("/api/v1/rules", rule).assert_problem(404, None);
}
