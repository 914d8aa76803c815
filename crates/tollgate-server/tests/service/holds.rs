//! Holds: reservations that are settled at their actual cost, and units in flight.
//!
//! Windows are days that start at the first hit, so that none ends during a test.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tollgate_testkit::manual::blocks;

use crate::support::folder::Folder;
use crate::support::{Connection, Reply, Server, quotas};

const REQUESTS_AND_TOKENS: &str = "policies:
  - { name: requests, key: [user], quotas: [5/1d@first_hit], cost: 1 }
  - { name: tokens, key: [user], quotas: [50000/2d@first_hit, 90000/3d@first_hit] }
";

const UPLOADS: &str = "policies:
  - { name: uploads, match: { path: /uploads }, key: [user], quotas: [9/1d@first_hit, '2~in_flight:30s'] }
  - { name: streams, match: { path: /streams }, key: [user], quotas: [1~in_flight], headers: [draft-11, kong] }
  - { name: proxied, match: { path: /proxied }, key: global, quotas: [1~in_flight], on_store_failure: open }
  - { name: others, match: { path: /others }, key: [user], quotas: [5/1d@first_hit] }
";

const ID: &str = "00112233445566778899aabbccddeeff";

fn start(folder: &Folder, text: &str, more: &[&str]) -> Server {
    Server::start(&[&["--config", &folder.write("tollgate.yaml", text)], more].concat())
}

fn post(server: &Server, path: &str, body: &Value) -> Reply {
    server.post(path, &body.to_string())
}

fn reserve(server: &Server, cost: u32) -> Value {
    post(server, "/v1/reserve", &json!({ "attributes": { "user": "u" }, "cost": cost })).json()
}

/// Settles the hold of a reservation.
fn settle(server: &Server, reserved: &Value, cost: u32) -> Value {
    let reply = post(server, "/v1/settle", &json!({ "hold": reserved["hold"], "cost": cost }));
    assert_eq!(reply.status, 200, "{}", reply.json());
    reply.json()
}

fn renew(server: &Server, reserved: &Value) -> Value {
    let reply = post(server, "/v1/renew", &json!({ "hold": reserved["hold"] }));
    assert_eq!(reply.status, 200, "{}", reply.json());
    reply.json()
}

fn used(server: &Server) -> Vec<u64> {
    let peeked = server.post("/v1/peek", r#"{"attributes": {"user": "u"}}"#).json();
    quotas(&peeked).iter().filter_map(|quota| quota["used"].as_u64()).collect()
}

/// Asks about a path of [`UPLOADS`].
fn ask(server: &Server, operation: &str, path: &str) -> Reply {
    post(server, operation, &json!({ "attributes": { "user": "u", "path": path } }))
}

fn advance(server: &Server, millis: u64) {
    let moved = server.admin_post("/v1/clock", &json!({ "advance_ms": millis }).to_string());
    assert_eq!(moved.status, 200);
}

/// A gateway to a model limits requests and tokens, reserves 1,000 tokens for each request, and gives back those that
/// an answer did not need. Each refund gave the request back as well: 30 of 30 were admitted where 5 may be.
#[test]
fn giving_back_tokens_does_not_give_back_the_request() {
    let folder = Folder::new();
    let server = start(&folder, REQUESTS_AND_TOKENS, &[]);
    let admitted = (0..30).filter(|_| {
        let reserved = reserve(&server, 1_000);
        let is_allowed = reserved["allowed"] == true;
        if is_allowed {
            settle(&server, &reserved, 400);
        }
        is_allowed
    });
    assert_eq!((admitted.count(), used(&server)), (5, vec![5, 2_000, 2_000]));
}

/// A receipt could be used again, and each use gave units back.
#[test]
fn a_hold_is_settled_once() {
    let folder = Folder::new();
    let server = start(&folder, REQUESTS_AND_TOKENS, &[]);
    let (first, second) = (reserve(&server, 1_000), reserve(&server, 1_000));
    let answer = settle(&server, &first, 400);
    let given = |policy: &str, quota: &str, units: u32| json!({ "policy": policy, "quota": quota, "given": units, "charged": 0, "forgiven": 0 });
    let both = [given("tokens", "50000/2d@first_hit", 600), given("tokens", "90000/3d@first_hit", 600)];
    assert_eq!(answer, json!({ "status": "settled", "quotas": both }));
    assert_eq!((settle(&server, &first, 400), used(&server)), (answer, vec![2, 1_400, 1_400]));
    // A cost above the estimate is charged, and a cost of 0 gives back all but fixed costs.
    let charged = settle(&server, &second, 1_300);
    assert_eq!((&charged["quotas"][1]["charged"], used(&server)), (&json!(300), vec![2, 1_700, 1_700]));
    let third = reserve(&server, 1_000);
    assert_eq!(
        (settle(&server, &third, 0)["quotas"][0]["given"].clone(), used(&server)[1]),
        (json!(1_000), 1_700)
    );
    assert_eq!(used(&server)[0], 3);
    assert_eq!(renew(&server, &third), json!({ "status": "ended" }));
    let at_estimate = reserve(&server, 7);
    assert_eq!(settle(&server, &at_estimate, 7), json!({ "status": "settled", "quotas": [] }));
    // At another cost, it was an unknown outcome, although nothing had changed.
    for (reserved, cost) in [(&at_estimate, 9), (&third, 1_000)] {
        let before = used(&server);
        let again = post(&server, "/v1/settle", &json!({ "hold": reserved["hold"], "cost": cost }));
        again.assert_problem(409, Some("hold"));
        assert_eq!((&again.json()["reason"], used(&server)), (&json!("id_conflict"), before));
    }

    for (path, body, field) in [
        ("/v1/settle", json!({ "hold": third["hold"] }), "cost"),
        ("/v1/settle", json!({ "cost": 1 }), "hold"),
        ("/v1/settle", json!({ "hold": "x", "cost": 1 }), "hold"),
        ("/v1/settle", json!({ "hold": third["hold"], "cost": -1 }), "cost"),
        ("/v1/renew", json!({}), "hold"),
        ("/v1/renew", json!({ "hold": third["hold"], "cost": 1 }), "cost"),
        ("/v1/reserve", json!({ "attributes": { "user": "u" }, "id": "x" }), "id"),
        ("/v1/reserve", json!({ "attributes": { "user": "u" }, "expires_after": "2h" }), "expires_after"),
        ("/v1/reserve", json!({ "attributes": { "user": "u" }, "units": 1.5 }), "units"),
        ("/v1/reserve", json!({ "attributes": {} }), "attributes.user"),
    ] {
        post(&server, path, &body).assert_problem(400, Some(field));
    }
    for path in ["/v1/reserve", "/v1/renew", "/v1/settle"] {
        server
            .admin_post(path, &json!({ "hold": third["hold"], "cost": 1 }).to_string())
            .assert_problem(404, None);
    }
}

/// A client whose answer was lost sent its request again, and was charged twice.
#[test]
fn a_reservation_with_an_id_can_be_repeated() {
    let folder = Folder::new();
    let server = start(&folder, REQUESTS_AND_TOKENS, &["--test-clock"]);
    let body = |cost: u32, id: &str| json!({ "attributes": { "user": "u" }, "cost": cost, "id": id });
    let first = post(&server, "/v1/reserve", &body(1_000, ID)).json();
    assert_eq!((&first["id"], first.get("repeated")), (&json!(ID), None));
    assert_eq!(first["expires_after_ms"], 60_000);
    // An administrator resets the counter: the answer is still the first one.
    assert_eq!(server.admin_post("/v1/reset", r#"{"attributes": {"user": "u"}}"#).status, 200);
    let again = post(&server, "/v1/reserve", &body(1_000, &ID.to_uppercase())).json();
    assert_eq!(
        (&again["repeated"], &again["used"], used(&server)),
        (&json!(true), &first["used"], vec![0; 3])
    );
    for body in [body(999, ID), json!({ "attributes": { "user": "v" }, "cost": 1_000, "id": ID })] {
        let conflict = post(&server, "/v1/reserve", &body);
        conflict.assert_problem(409, Some("id"));
        assert_eq!(conflict.json()["reason"], "id_conflict");
    }
    settle(&server, &again, 400);
    let ended = post(&server, "/v1/reserve", &body(1_000, ID));
    ended.assert_problem(409, Some("id"));
    assert_eq!((&ended.json()["reason"], used(&server)), (&json!("hold_ended"), vec![0; 3]));
    // Ten seconds later, the id is forgotten.
    advance(&server, 10_001);
    assert_eq!(settle(&server, &again, 400), json!({ "status": "expired", "quotas": [] }));
    assert_eq!(post(&server, "/v1/reserve", &body(999, ID)).status, 200);
    // The service makes an id of its own for each hold.
    let (one, other) = (reserve(&server, 1), reserve(&server, 1));
    assert!(one["id"] != other["id"] && one["id"].as_str().is_some_and(|id| id.len() == 32), "{one} {other}");
}

#[test]
fn an_overrun_is_charged_or_forgiven_as_the_policy_says() {
    let folder = Folder::new();
    let text = "policies:
  - { name: charged, key: [user], quotas: [1000/1d@first_hit] }
  - { name: capped, key: [user], quotas: [1200/1d@first_hit], overrun: cap }
";
    let server = start(&folder, text, &[]);
    let settled = settle(&server, &reserve(&server, 900), 1_500);
    let units = |index: usize| {
        let quota = &settled["quotas"][index];
        ["given", "charged", "forgiven"].map(|field| quota[field].as_u64())
    };
    assert_eq!(
        (units(0), units(1)),
        ([Some(0), Some(600), Some(0)], [Some(0), Some(300), Some(300)]),
        "{settled}"
    );
    assert_eq!(used(&server), [1_500, 1_200]);
    let metric = |name: &str| server.metric(name);
    assert_eq!(metric(r#"tollgate_holds_total{policy="capped",event="settled"}"#), Some(1.0));
    let units = |policy: &str, what: &str| {
        metric(&format!(r#"tollgate_hold_overrun_units_total{{policy="{policy}",settlement="{what}"}}"#))
    };
    assert_eq!((units("charged", "charged"), units("charged", "forgiven")), (Some(600.0), Some(0.0)));
    assert_eq!((units("capped", "charged"), units("capped", "forgiven")), (Some(300.0), Some(300.0)));
    let overruns: Vec<Value> = server.admin_get("/v1/policies").json()["policies"]
        .as_array()
        .expect("policies")
        .iter()
        .map(|policy| policy["settings"]["overrun"].clone())
        .collect();
    assert_eq!(overruns, ["charge", "cap"]);
}

/// Clients that cannot estimate the cost reserve 0. That also skips costs that a policy sets, as in a check.
#[test]
fn a_reservation_without_a_cost_is_settled_at_the_whole_cost() {
    let folder = Folder::new();
    let server = start(&folder, REQUESTS_AND_TOKENS, &[]);
    let settled = settle(&server, &reserve(&server, 0), 60_000);
    assert_eq!((used(&server), quotas(&settled).len()), (vec![0, 60_000, 60_000], 2));
    assert_eq!(reserve(&server, 0)["allowed"], false);
}

#[test]
fn no_more_units_are_in_flight_than_the_limit() {
    let folder = Folder::new();
    let server = start(&folder, UPLOADS, &["--test-clock"]);
    let reserve = |path: &str| ask(&server, "/v1/reserve", path);
    let (one, other) = (reserve("/uploads"), reserve("/uploads").json());
    assert_eq!((one.status, &one.json()["expires_after_ms"]), (200, &json!(30_000)));
    let limits = r#""uploads";q=9;w=86400, "uploads/2~in_flight";q=2;qu="concurrent-requests""#;
    assert_eq!(one.header("ratelimit-policy"), Some(limits));
    assert_eq!(one.header("ratelimit"), Some(r#""uploads";r=8;t=86400, "uploads/2~in_flight";r=1"#));
    let one = one.json();

    let denied = reserve("/uploads");
    denied.assert_problem(429, None);
    assert_eq!((denied.header("retry-after"), denied.header("ratelimit-policy")), (Some("1"), Some(limits)));
    assert_eq!(denied.header("ratelimit"), Some(r#""uploads";r=7;t=86400, "uploads/2~in_flight";r=0"#));
    let body = denied.json();
    assert_eq!(body["detail"], "2 of 2 units are in flight; one may be free at any time");
    for (field, expected) in [
        ("reason", json!("in_flight_exceeded")),
        ("policy", json!("uploads")),
        ("quota", json!("2~in_flight:30s")),
        ("limit", json!(2)),
        ("held", json!(2)),
        ("remaining", json!(0)),
        ("violated-policies", json!(["uploads"])),
    ] {
        assert_eq!(body[field], expected, "{body}");
    }
    for absent in ["retry_after_ms", "used", "reset_after_ms", "hold", "id"] {
        assert!(body.get(absent).is_none(), "{body}");
    }
    let standing = json!({
        "policy": "uploads", "quota": "2~in_flight:30s", "limit": 2, "held": 2, "remaining": 0,
        "reason": "in_flight_exceeded",
    });
    assert_eq!(body["quotas"][1], standing);
    let peeked = ask(&server, "/v1/peek", "/uploads");
    assert_eq!((peeked.status, &peeked.json()["quotas"][1]), (200, &standing));
    assert_eq!(peeked.json()["quotas"][0]["used"], 2);

    // A unit is free again, and its charge was given back.
    assert_eq!(settle(&server, &one, 0)["quotas"][0]["given"], 1);
    assert_eq!(ask(&server, "/v1/peek", "/uploads").json()["quotas"][1]["held"], 1);
    assert_eq!(reserve("/uploads").status, 200);

    // 29 seconds later, one is renewed, and two seconds after that the other one has expired.
    advance(&server, 29_000);
    assert_eq!(renew(&server, &other), json!({ "status": "renewed", "expires_after_ms": 30_000 }));
    advance(&server, 2_000);
    assert_eq!(ask(&server, "/v1/peek", "/uploads").json()["quotas"][1]["held"], 1);
    let third = reserve("/uploads").json();
    // A reset frees all units, and their owners are told.
    let user = r#"{"attributes": {"user": "u", "path": "/uploads"}}"#;
    assert_eq!(server.admin_post("/v1/reset", user).status, 200);
    assert_eq!(renew(&server, &third), json!({ "status": "lost" }));
    advance(&server, 30_000);
    assert_eq!(renew(&server, &other), json!({ "status": "expired" }));
    let count =
        |event: &str| server.metric(&format!(r#"tollgate_holds_total{{policy="uploads",event="{event}"}}"#));
    let counts = ["admitted", "settled", "lost", "expired"].map(count);
    assert_eq!(counts, [Some(4.0), Some(1.0), Some(1.0), Some(1.0)]);
    let limits = server.admin_get("/v1/policies").json()["policies"][0]["quotas"].clone();
    assert_eq!(limits, json!(["9/1d@first_hit", "2~in_flight:30s"]));
}

/// A limit in flight alone decides, and nothing but its own words are in the headers.
#[test]
fn a_policy_may_have_only_a_limit_in_flight() {
    let folder = Folder::new();
    let server = start(&folder, UPLOADS, &[]);
    let reserved = ask(&server, "/v1/reserve", "/streams");
    let body = reserved.json();
    assert_eq!(
        (&body["policy"], &body["quota"], &body["held"], &body["remaining"], &body["source"]),
        (&json!("streams"), &json!("1~in_flight"), &json!(1), &json!(0), &json!("store"))
    );
    assert_eq!(reserved.header("ratelimit"), Some(r#""streams";r=0"#));
    assert_eq!(ask(&server, "/v1/reserve", "/streams").status, 429);
    let many = json!({ "attributes": { "user": "v", "path": "/streams" }, "units": 2 });
    let denied = post(&server, "/v1/reserve", &many);
    assert_eq!((denied.status, &denied.json()["reason"]), (429, &json!("cost_exceeds_limit")));
    assert_eq!(denied.header("retry-after"), None);
    let none = json!({ "attributes": { "user": "v", "path": "/streams" }, "units": 0 });
    let looked = post(&server, "/v1/reserve", &none).json();
    assert_eq!((&looked["allowed"], looked.get("hold")), (&json!(true), None), "{looked}");
    // Nothing applies, so there is nothing to hold.
    let free = ask(&server, "/v1/reserve", "/free").json();
    assert_eq!((&free["ground"], free.get("hold")), (&json!("unlimited"), None));
    assert_eq!(settle(&server, &body, 0), json!({ "status": "settled", "quotas": [] }));
    assert_eq!(ask(&server, "/v1/reserve", "/streams").status, 200);
}

/// A check would take a unit that nobody can give back.
#[test]
fn a_check_of_a_limit_in_flight_needs_a_hold() {
    let folder = Folder::new();
    let server = start(&folder, UPLOADS, &[]);
    let assert_needs_hold = |reply: Reply| {
        reply.assert_problem(400, None);
        let body = reply.json();
        assert_eq!(body["reason"], "needs_hold");
        assert!(
            body["detail"].as_str().is_some_and(|it| it.contains("`uploads`") && it.contains("/v1/reserve"))
        );
    };
    assert_needs_hold(ask(&server, "/v1/check", "/uploads"));
    assert_needs_hold(server.get("/v1/check?user=u&path=/uploads"));
    let forwarded = "GET /forward-auth HTTP/1.1\r\nHost: x\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /proxied\r\n\
                     X-Forwarded-Host: shop.example\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n";
    let reply = Connection::open(server.public).ask(forwarded.as_bytes());
    assert_eq!((reply.status, &reply.json()["reason"]), (400, &json!("needs_hold")));
    let entry = |path: &str| json!({ "attributes": { "user": "u", "path": path } });
    let batch = json!({ "requests": [entry("/uploads"), entry("/others")] });
    let decisions = post(&server, "/v1/check/batch", &batch).json()["decisions"].clone();
    assert_eq!((&decisions[0]["reason"], &decisions[1]["used"]), (&json!("needs_hold"), &json!(1)));
    for (path, more) in [("/v1/set", json!({ "used": 1 })), ("/v1/record", json!({}))] {
        let mut body = entry("/uploads");
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let refused = server.admin_post(path, &body.to_string());
        refused.assert_problem(400, None);
        assert!(refused.json()["detail"].as_str().is_some_and(|it| it.contains("`uploads`")), "{path}");
    }
    // A quota next to it can be set by its name.
    let named = json!({
        "attributes": { "user": "u", "path": "/uploads" }, "used": 2, "policy": "uploads", "quota": "9/1d@first_hit",
    });
    assert_eq!(server.admin_post("/v1/set", &named.to_string()).status, 200);
    assert_eq!(ask(&server, "/v1/peek", "/uploads").json()["quotas"][0]["used"], 2);
}

#[test]
fn batches_reserve_renew_and_settle_each_by_itself() {
    let folder = Folder::new();
    let server = start(&folder, UPLOADS, &[]);
    let entry = |path: &str| json!({ "attributes": { "user": "u", "path": path }, "cost": 2 });
    let batch = |path: &str, requests: &[Value]| {
        let reply = post(&server, path, &json!({ "requests": requests }));
        assert_eq!(reply.status, 200, "{}", reply.json());
        reply.json()
    };
    let requests = [
        entry("/uploads"),
        entry("/others"),
        entry("/uploads"),
        json!({ "attributes": {} }),
        entry("/uploads"),
    ];
    let reserved = batch("/v1/reserve/batch", &requests)["decisions"].clone();
    let told: Vec<_> = (0..5)
        .map(|index| (reserved[index]["allowed"].clone(), reserved[index]["hold"].is_string()))
        .collect();
    let (yes, no) = (json!(true), json!(false));
    assert_eq!(
        told,
        [(yes.clone(), true), (yes.clone(), true), (yes, true), (json!(true), false), (no, false)]
    );
    assert_eq!(reserved[4]["reason"], "in_flight_exceeded");
    let holds = [
        json!({ "hold": reserved[0]["hold"] }),
        json!({ "hold": "x" }),
        json!({ "hold": reserved[1]["hold"] }),
    ];
    let renewals = batch("/v1/renew/batch", &holds)["renewals"].clone();
    assert_eq!(
        (&renewals[0]["status"], &renewals[1]["field"], &renewals[2]["status"]),
        (&json!("renewed"), &json!("requests[1].hold"), &json!("renewed"))
    );
    let ends = [
        json!({ "hold": reserved[0]["hold"], "cost": 1 }),
        json!({ "hold": reserved[1]["hold"], "cost": 5 }),
    ];
    let settlements = batch("/v1/settle/batch", &ends)["settlements"].clone();
    assert_eq!(
        (&settlements[0]["quotas"][0]["given"], &settlements[1]["quotas"][0]["charged"]),
        (&json!(1), &json!(3))
    );
    for path in ["/v1/reserve/batch", "/v1/renew/batch", "/v1/settle/batch"] {
        post(&server, path, &json!({ "requests": [] })).assert_problem(400, Some("requests"));
    }
}

#[test]
fn accepts_only_its_own_holds_and_they_reveal_nothing() {
    let limit = ["--limit", "5/1d@first_hit", "--max-attribute-bytes", "20000"];
    let (server, other) = (Server::start(&limit), Server::start(&limit));
    let reserved = reserve(&server, 1);
    let hold = reserved["hold"].as_str().expect("a hold");
    assert!(hold.len() < 250 && !hold.contains("default"), "{hold}");
    let elsewhere = reserve(&other, 1)["hold"].as_str().expect("a hold").to_owned();
    let changed = format!("B{}", &hold[1..]);
    let mut details = Vec::new();
    for none in [changed.as_str(), &hold[..hold.len() - 1], "", "x", &elsewhere] {
        let reply = post(&server, "/v1/settle", &json!({ "hold": none, "cost": 0 }));
        reply.assert_problem(400, Some("hold"));
        details.push(reply.json()["detail"].clone());
    }
    assert!(details.iter().all(|detail| *detail == details[0]), "nobody learns what is wrong: {details:?}");
    assert_eq!(settle(&server, &reserved, 0)["quotas"][0]["given"], 1);
    // A hold that would be too long is refused, and takes nothing.
    let user = "x".repeat(20_000);
    let long = json!({ "attributes": { "user": user } });
    post(&server, "/v1/reserve", &long).assert_problem(400, Some("attributes"));
    assert_eq!(post(&server, "/v1/peek", &long).json()["used"], 0);
}

/// It was settled at 0, so the costs that policies set stayed charged.
#[test]
fn a_reservation_that_is_refused_for_its_length_takes_nothing() {
    let folder = Folder::new();
    let server = start(&folder, REQUESTS_AND_TOKENS, &["--max-attribute-bytes", "20000"]);
    let long = json!({ "attributes": { "user": "x".repeat(8_000) }, "cost": 7 });
    let batch = post(&server, "/v1/reserve/batch", &json!({ "requests": [long] })).json();
    assert_eq!(batch["decisions"][0]["status"], 400, "{batch}");
    post(&server, "/v1/reserve", &long).assert_problem(400, Some("attributes"));
    let peeked = post(&server, "/v1/peek", &long).json();
    let used: Vec<_> = quotas(&peeked).iter().filter_map(|quota| quota["used"].as_u64()).collect();
    assert_eq!(used, [0, 0, 0]);
}

#[test]
fn processes_with_one_secret_accept_each_others_holds() {
    let folder = Folder::new();
    let file = folder.write("secret", "");
    let refused = |text: &str| {
        std::fs::write(&file, text).expect("it can be written");
        let output = crate::support::tollgate()
            .args(["serve", "--limit", "5/1m", "--listen", "192.0.2.1:1", "--hold-secret-file", &file])
            .output()
            .expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = refused("hunter2\n");
    assert!(status == Some(2) && said.contains("--hold-secret-file") && said.contains("32 bytes"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");

    std::fs::write(&file, "0123456789abcdef0123456789abcdef\n").expect("it can be written");
    let arguments = ["--limit", "5/1d@first_hit", "--hold-secret-file", &file];
    let start = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("it is ours");
        Server::start(&arguments)
    };
    let (one, other) = (start(0o640), start(0o644));
    let reserved = reserve(&one, 1);
    // Counters in memory are not shared, so the other process does not know the id.
    assert_eq!(settle(&other, &reserved, 0)["status"], "expired");
    assert_eq!(settle(&one, &reserved, 0)["quotas"][0]["given"], 1);

    let warnings = |server: Server| {
        server.signal("TERM");
        let log = server.wait().1;
        let lines =
            log.lines().filter(|line| line.contains("every user of this machine can read this secret"));
        lines.filter(|line| line.contains(&file) && line.contains("mode=644")).count()
    };
    assert_eq!((warnings(one), warnings(other)), (0, 1));
}

/// Callers that crash leave no trace, and what they reserved stays charged.
#[test]
fn holds_that_expire_are_counted_and_logged_once_a_minute_without_their_ids() {
    let folder = Folder::new();
    let server = start(&folder, UPLOADS, &["--test-clock"]);
    let reserve = || ask(&server, "/v1/reserve", "/uploads").json();
    let (first, _) = (reserve(), reserve());
    assert_eq!(server.metric("tollgate_store_holds"), Some(2.0));
    advance(&server, 30_000);
    let third = reserve();
    let counts =
        ["tollgate_store_holds", "tollgate_store_expired_holds_total"].map(|name| server.metric(name));
    assert_eq!(counts, [Some(1.0), Some(2.0)]);
    let units =
        |policy: &str| server.metric(&format!(r#"tollgate_hold_expired_units_total{{policy="{policy}"}}"#));
    assert_eq!(["uploads", "streams", "others"].map(units), [Some(2.0), Some(0.0), None]);
    advance(&server, 30_000);
    assert_eq!(renew(&server, &third)["status"], "expired");
    assert_eq!(server.metric("tollgate_store_expired_holds_total"), Some(3.0));
    server.signal("TERM");
    let log = server.wait().1;
    let told: Vec<&str> = log.lines().filter(|line| line.contains("holds expired before")).collect();
    assert!(told.len() == 1 && told[0].contains("holds=2"), "{log}");
    let id = first["id"].as_str().expect("an id");
    assert!(!log.contains(id) && !log.contains(first["hold"].as_str().expect("a hold")), "{log}");
}

#[test]
fn callers_may_bring_limits_in_flight() {
    let server = Server::start(&["--limit", "5/1d@first_hit", "--caller-quotas"]);
    let body = |quotas: &[&str]| json!({ "attributes": { "user": "u" }, "policy": "own", "quotas": quotas });
    let reserve = |quotas: &[&str]| post(&server, "/v1/reserve", &body(quotas));
    let first = reserve(&["1~in_flight", "3/1d@first_hit"]).json();
    assert_eq!((&first["policy"], &first["quotas"][1]["held"]), (&json!("own:caller"), &json!(1)));
    assert_eq!(reserve(&["1~in_flight"]).status, 429);
    reserve(&["1~in_flight", "2~in_flight"]).assert_problem(400, Some("quotas"));
    reserve(&["9999999~in_flight"]).assert_problem(400, Some("quotas[0]"));
    let check = post(&server, "/v1/check", &body(&["1~in_flight"]));
    assert_eq!((check.status, &check.json()["reason"]), (400, &json!("needs_hold")));
    assert_eq!(settle(&server, &first, 0)["status"], "settled");
    assert_eq!(reserve(&["1~in_flight"]).status, 200);
}

/// The examples gave back requests together with tokens: a limit of 600 requests stood at 0 after 25 of them.
#[test]
fn the_example_counts_requests_and_the_tokens_that_were_used() {
    let recipe = include_str!("../../../../docs/policies.md").split("### Tokens of a language model").nth(1);
    let [recipe, ..] = blocks(recipe.expect("the recipe"))[..] else { panic!("a file") };
    let example = include_str!("../../../../examples/tokens.yaml");
    for (text, customer) in [(recipe.text, "customer"), (example, "tenant")] {
        let folder = Folder::new();
        // Windows that cannot end during the test.
        let text = text
            .replace("/1s", "/1d@first_hit")
            .replace("/1m,", "/2d@first_hit,")
            .replace("/1m]", "/2d@first_hit]");
        let server = Server::start(&["--config", &folder.write("tokens.yaml", &text)]);
        let request = json!({ customer: "acme", "path": "/v1/chat" });
        let reservation = json!({ "attributes": request, "cost": 2_000 }).to_string();
        let admitted = (0..30).filter(|_| {
            let reserved = server.post("/v1/reserve", &reservation).json();
            let is_allowed = reserved["allowed"] == true;
            if is_allowed {
                settle(&server, &reserved, 500);
            }
            is_allowed
        });
        let limit = if customer == "tenant" { 20 } else { 10 };
        assert_eq!(admitted.count(), limit, "{text}");
        let peeked = server.post("/v1/peek", &json!({ "attributes": request }).to_string()).json();
        for quota in quotas(&peeked) {
            let expected = if quota["policy"] == "requests" { limit } else { 500 * limit };
            assert_eq!(quota["used"], expected, "{quota}");
        }
    }
}

#[test]
fn a_reset_forgets_units_in_flight_and_says_how_many() {
    let folder = Folder::new();
    let server = start(&folder, UPLOADS, &[]);
    let held = ask(&server, "/v1/reserve", "/uploads").json();
    let change = |path: &str, more: Value| {
        let mut body = json!({ "attributes": { "user": "u", "path": "/uploads" } });
        body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        server.admin_post(path, &body.to_string())
    };
    let reset = change("/v1/reset", json!({ "quota": "9~in_flight" })).json();
    let forgotten = json!([{ "policy": "uploads", "quota": "2~in_flight:30s", "units": 1 }]);
    assert_eq!((&reset["forgotten"], &reset["quotas"]), (&forgotten, &json!([])), "the limit is ignored");
    assert_eq!(renew(&server, &held)["status"], "lost");

    let quota = change("/v1/reset", json!({ "quota": "9/1d@first_hit" })).json();
    assert_eq!((quota["quotas"].as_array().map(Vec::len), quota.get("forgotten")), (Some(1), None));
    let wrong = change("/v1/reset", json!({ "policy": "uploads", "quota": "9/1h" }));
    wrong.assert_problem(409, Some("quota"));
    let detail = wrong.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert!(detail.ends_with("there are 9/1d@first_hit of uploads, 2~in_flight:30s of uploads"), "{detail}");

    change("/v1/set", json!({ "used": 3 })).assert_problem(400, None);
    change("/v1/set", json!({ "used": 3, "quota": "2~in_flight" })).assert_problem(400, None);
    assert_eq!(change("/v1/set", json!({ "used": 3, "quota": "9/1d@first_hit" })).status, 200);
    change("/v1/record", json!({})).assert_problem(400, None);
}
