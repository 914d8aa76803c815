//! Holds on a shared store: one limit for all processes, calls that are repeated after a lost reply, and outages.

use serde_json::{Value, json};
use tollgate_testkit::servers::{self, ByteDirection, ConnectionEnd, Data, FaultProxy, Software};

use super::{ALICE, PATIENT, redis, url};
use crate::support::folder::Folder;
use crate::support::{Reply, Server};

const POLICIES: &str = "policies:
  - { name: exports, key: [user], quotas: [50/1d@first_hit, 2~in_flight] }
";

/// Starts a process; all that share a folder share the secret of holds.
fn serve(folder: &Folder, url: &str, policies: &str, more: &[&str]) -> Server {
    let secret = folder.write("secret", "0123456789abcdef0123456789abcdef");
    let config = folder.write("limits.yaml", policies);
    let own = ["--config", &config, "--store", url, "--hold-secret-file", &secret];
    Server::start(&[&own[..], more].concat())
}

fn post(server: &Server, path: &str, body: &Value) -> Reply {
    server.post(path, &body.to_string())
}

fn reserve(server: &Server, cost: u32) -> Reply {
    post(server, "/v1/reserve", &json!({ "attributes": { "user": "alice" }, "cost": cost }))
}

fn renew(server: &Server, reserved: &Value) -> Value {
    post(server, "/v1/renew", &json!({ "hold": reserved["hold"] })).json()["status"].clone()
}

fn settle(server: &Server, reserved: &Value, cost: u32) -> Reply {
    post(server, "/v1/settle", &json!({ "hold": reserved["hold"], "cost": cost }))
}

/// Returns the used units and the live ones.
fn standing(server: &Server) -> (Value, Value) {
    let quotas = server.post("/v1/peek", ALICE).json()["quotas"].clone();
    (quotas[0]["used"].clone(), quotas[1]["held"].clone())
}

#[test]
fn processes_share_one_limit_in_flight_and_each_others_holds() {
    for software in [Software::Redis, Software::Valkey] {
        let (store, folder) = (servers::Server::start(software), Folder::new());
        let patient = ["--store-timeout", PATIENT, "--store-connect-timeout", PATIENT];
        let start = || serve(&folder, &url(&store), POLICIES, &patient);
        let (one, other) = (start(), start());
        let (first, second) = (reserve(&one, 10).json(), reserve(&other, 10).json());
        assert_eq!((&first["quotas"][1]["held"], &second["quotas"][1]["held"]), (&json!(1), &json!(2)));
        let denied = reserve(&one, 10);
        assert_eq!((denied.status, &denied.json()["reason"]), (429, &json!("in_flight_exceeded")));
        assert_eq!(denied.header("retry-after"), Some("1"));
        assert_eq!(standing(&other), (json!(20), json!(2)));
        // Each process renews and settles holds of the other.
        assert_eq!((renew(&one, &second), renew(&other, &first)), (json!("renewed"), json!("renewed")));
        assert_eq!(settle(&other, &first, 4).json()["quotas"][0]["given"], 6);
        assert_eq!((standing(&one), renew(&one, &first)), ((json!(14), json!(1)), json!("ended")));
        assert_eq!(reserve(&one, 1).status, 200);
        let reset = other.admin_post("/v1/reset", ALICE).json();
        assert_eq!(reset["forgotten"][0]["units"], 2, "{reset}");
        assert_eq!((renew(&one, &second), standing(&one)), (json!("lost"), (json!(0), json!(0))));
    }
}

/// Behind a load balancer, renewals that reached another process failed, and nothing said why. A warning at startup knew
/// the policies of that moment, and a limit in flight on trial, which nothing holds.
#[test]
fn the_first_hold_on_a_shared_store_without_a_secret_is_warned_of() {
    let (store, folder) = (redis(), Folder::new());
    let quotas = "policies: [{ name: a, key: [user], quotas: 5/1d@first_hit }]";
    let tried = "policies: [{ name: a, mode: shadow, key: [user], quotas: 5~in_flight }]";
    let limited = "policies: [{ name: a, key: [user], quotas: 9~in_flight }]";
    let [limited, quotas, tried] = [("limited", limited), ("quotas", quotas), ("tried", tried)]
        .map(|(name, text)| folder.write(&format!("{name}.yaml"), text));
    let secret = folder.write("secret", "0123456789abcdef0123456789abcdef");
    let url = url(&store);
    let warnings = |asks: usize, arguments: &[&str]| {
        let server = Server::start(arguments);
        (0..asks).for_each(|_| assert_eq!(reserve(&server, 1).status, 200));
        server.signal("TERM");
        let log = server.wait().1;
        log.lines().filter(|line| line.contains("--hold-secret-file") && line.contains("WARN")).count()
    };
    let on_redis = |config: &str| ["--config", config, "--store", &url].map(str::to_owned);
    let on_redis = |asks, config: &str| warnings(asks, &on_redis(config).each_ref().map(String::as_str));
    assert_eq!((on_redis(0, &limited), on_redis(2, &limited)), (0, 1));
    assert_eq!(on_redis(2, &quotas), 1, "a reservation is a hold too");
    assert_eq!(on_redis(2, &tried), 0);
    assert_eq!(warnings(2, &["--config", &limited]), 0);
    assert_eq!(warnings(1, &["--config", &limited, "--store", &url, "--hold-secret-file", &secret]), 0);
}

/// With Redis, nobody saw holds of callers that had crashed: only memory counted them.
#[test]
fn expired_units_are_counted_by_policy_and_logged_without_keys() {
    let (store, folder) = (redis(), Folder::new());
    let policies = "policies:
  - { name: exports, key: [user], quotas: [50/1d@first_hit, 9~in_flight] }
  - { name: others, key: [user], match: { path: /others }, quotas: 9~in_flight }
";
    let patient = ["--store-timeout", PATIENT, "--store-connect-timeout", PATIENT];
    let start = || serve(&folder, &url(&store), policies, &patient);
    let (one, other) = (start(), start());
    let units = |server: &Server, policy: &str| {
        server.metric(&format!(r#"tollgate_hold_expired_units_total{{policy="{policy}"}}"#))
    };
    // It outlives the others, so a slow machine loses none of them with their counter.
    assert_eq!(reserve(&one, 1).status, 200);
    for units in [1, 2] {
        let body = json!({ "attributes": { "user": "alice" }, "units": units, "expires_after": "50ms" });
        assert_eq!(post(&one, "/v1/reserve", &body).status, 200);
    }
    while standing(&one).1 != 1 {}
    assert_eq!((units(&one, "exports"), units(&other, "exports")), (Some(0.0), Some(0.0)));
    let body = json!({ "attributes": { "user": "alice" }, "id": "00112233445566778899aabbccddeeff" });
    for _ in 0..3 {
        assert_eq!(post(&other, "/v1/reserve", &body).status, 200);
        assert_eq!((units(&one, "exports"), units(&other, "exports")), (Some(0.0), Some(3.0)));
    }
    assert_eq!(units(&other, "others"), Some(0.0));
    other.signal("TERM");
    let log = other.wait().1;
    let told: Vec<&str> = log.lines().filter(|line| line.contains("holds expired before")).collect();
    assert!(told.len() == 1 && told[0].contains("units=3 late_calls=0"), "{log}");
    assert!(!told[0].contains("alice"), "{log}");
}

/// A client whose reply was lost sent its request again, and was charged twice.
#[test]
fn a_call_is_repeated_after_a_lost_reply() {
    let (store, folder) = (redis(), Folder::new());
    let proxy = FaultProxy::before(store.address());
    let through_proxy = format!("redis://{}", proxy.address());
    let closed = format!("defaults: {{ on_store_failure: closed }}\n{POLICIES}");
    let server = serve(&folder, &through_proxy, &closed, &[]);
    // This one sees what the store has counted.
    let patient = ["--store-timeout", PATIENT, "--store-connect-timeout", PATIENT];
    let witness = serve(&folder, &url(&store), &closed, &patient);
    let until_answered = |call: &dyn Fn() -> Reply| loop {
        let reply = call();
        if reply.status != 503 {
            return reply.json();
        }
    };
    // So that there is a connection.
    until_answered(&|| server.post("/v1/peek", ALICE));
    let is_done = (0..8).any(|attempt| {
        let id = format!("{attempt:x}").repeat(32);
        let body = json!({ "attributes": { "user": "alice" }, "cost": 10, "id": id });
        let (used, _) = standing(&witness);
        let used = used.as_u64().expect("a count");
        let lose = |call: &dyn Fn() -> Reply| {
            proxy.cut(ByteDirection::Reply, 0, ConnectionEnd::Reset);
            // Another reply may be the one that is lost, such as that of a probe.
            let reply = call();
            (reply.status == 503 && reply.json()["reason"] == "outcome_unknown").then_some(())
        };
        let reserve = || post(&server, "/v1/reserve", &body);
        let is_lost = lose(&reserve).is_some();
        let repeated = until_answered(&reserve);
        assert_eq!(standing(&witness), (json!(used + 10), json!(1)), "it was taken once");
        assert!(!is_lost || repeated["repeated"] == true, "{repeated}");

        let is_lost_again = lose(&|| settle(&server, &repeated, 4)).is_some();
        let settled = until_answered(&|| settle(&server, &repeated, 4));
        assert_eq!(
            (&settled["quotas"][0]["given"], standing(&witness)),
            (&json!(6), (json!(used + 4), json!(0)))
        );
        is_lost && is_lost_again
    });
    assert!(is_done, "no reply was lost");
}

#[test]
fn while_the_store_is_down_the_policy_says_what_a_hold_is() {
    let store = redis();
    for (policy, share) in [("closed", ""), ("open", ""), ("local", ", local_share: 1/2")] {
        let folder = Folder::new();
        let text = format!("defaults: {{ on_store_failure: {policy}{share} }}\n{POLICIES}");
        let start = || serve(&folder, &url(&store), &text, &[]);
        let (one, other) = (start(), start());
        store.kill();
        let (first, second) = (reserve(&one, 1), reserve(&one, 1));
        match policy {
            "closed" => {
                first.assert_problem(503, None);
                // A peek asks no more than a check.
                one.post("/v1/peek", ALICE).assert_problem(503, None);
            }
            "open" => {
                assert_eq!((first.status, second.status, reserve(&one, 1).status), (200, 200, 200));
                assert_eq!(first.header("tollgate-source"), Some("fallback"));
                assert_eq!(reserve(&one, 51).json()["reason"], "cost_exceeds_limit");
            }
            // Half of the limit of 2.
            _ => {
                assert_eq!((first.status, second.status), (200, 429));
                assert_eq!(second.json()["reason"], "in_flight_exceeded");
                assert_eq!(second.json()["limit"], 1);
                assert_eq!(renew(&one, &first.json()), "renewed");
                assert_eq!(reserve(&other, 1).status, 200, "another process has its own share");
                assert_eq!(renew(&other, &first.json()), "expired", "it does not know the hold");
            }
        }
        store.start_again(Data::Lost);
        let expected = match policy {
            "closed" => continue,
            "open" => ["gone", "gone"],
            _ => ["renewed", "settled"],
        };
        let first = first.json();
        let settled = settle(&one, &first, 0).json()["status"].clone();
        // After the settlement, a hold of this process has ended.
        let renewed = if policy == "open" { renew(&one, &first) } else { json!("renewed") };
        assert_eq!([renewed, settled], expected, "{policy}");
    }
}
