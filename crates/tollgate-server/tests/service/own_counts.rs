//! Counts under limits of the caller's own (`/v1/count`), in memory. Those in a shared store are in `stores`.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::process::Output;

use serde_json::{Value, json};

use crate::support::folder::Folder;
use crate::support::{Connection, Reply, Server, post, tollgate, undisturbed, until};

const OWN: &[&str] = &["--limit", "5/1d", "--caller-quotas"];

/// Returns a count of alice's under the name `login`, with more fields.
fn count(more: &Value) -> String {
    let mut body = json!({ "attributes": { "user": "alice" }, "policy": "login" });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body.to_string()
}

#[test]
fn the_quota_that_decides_is_told_with_all_others() {
    let server = Server::start(OWN);
    let ask = |more: &Value| server.post("/v1/count", &count(more)).json();
    let limits = json!({ "quotas": ["9/1h@first_hit", "2/1d@first_hit", "3/2d@first_hit"], "cost": 3 });
    let counted = ask(&limits);
    assert_eq!((&counted["allowed"], &counted["quota"]), (&json!(false), &json!("2/1d@first_hit")));
    assert_eq!(counted["retry_after_ms"], Value::Null, "3 of 2 never fit");
    let used: Vec<&Value> =
        counted["quotas"].as_array().expect("a list").iter().map(|it| &it["used"]).collect();
    assert_eq!(used, [3, 3, 3]);
    let got = ask(&json!({ "quotas": ["9/1h@first_hit", "5/1d@first_hit"], "operation": "get" }));
    assert_eq!(
        (&got["allowed"], &got["quota"], &got["remaining"]),
        (&json!(true), &json!("5/1d@first_hit"), &json!(2))
    );
    // Of two that deny, the one with the longer wait decides.
    let denied = ask(&json!({ "quotas": ["1/1h@first_hit", "1/1d@first_hit"], "cost": 1 }));
    assert_eq!((&denied["quota"], denied["retry_after_ms"].is_u64()), (&json!("1/1d@first_hit"), true));
}

/// The storage of Python's `limits` counts these kinds by checks, and forgets keys.
#[test]
fn counters_of_every_kind_can_be_read_set_and_reset() {
    let server = Server::start(OWN);
    let all = json!({ "quotas": ["5/1m~log", "5/1m~sliding", "5/1m~burst", "5/1m"] });
    let with = |more: &Value| {
        let mut body = all.clone();
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        server.post("/v1/count", &count(&body))
    };
    assert_eq!(server.post("/v1/check", &count(&all)).status, 200);
    for (more, used) in [
        (json!({ "operation": "get" }), [1, 1, 1, 1]),
        (json!({ "operation": "set", "used": 4 }), [4, 4, 4, 4]),
        (json!({ "operation": "reset" }), [0, 0, 0, 0]),
    ] {
        let answer = with(&more).json();
        let counted = answer["quotas"].as_array().expect("a list");
        let found: Vec<u64> = counted.iter().filter_map(|quota| quota["used"].as_u64()).collect();
        assert_eq!(found, used, "{answer}");
        let algorithms: Vec<&Value> = counted.iter().map(|quota| &quota["algorithm"]).collect();
        assert_eq!(algorithms, [&json!("log"), &json!("sliding"), &json!("bucket"), &Value::Null]);
    }
    for operation in ["add", "subtract"] {
        let refused = with(&json!({ "operation": operation }));
        refused.assert_problem(400, Some("quotas[0]"));
        assert!(refused.json()["detail"].as_str().expect("a text").contains("/v1/check"));
    }
}

#[test]
fn the_wrong_field_is_named_and_nothing_is_counted() {
    let server = Server::start(OWN);
    let wrong = |more: &Value, field: &str| {
        server.post("/v1/count", &count(more)).assert_problem(400, Some(field));
    };
    let quotas = |more: &Value| {
        let mut body = json!({ "quotas": ["5/1m"] });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    wrong(&json!({}), "quotas");
    wrong(&quotas(&json!({ "window": "1m" })), "window");
    wrong(&json!({ "quotas": [] }), "quotas");
    wrong(&json!({ "quotas": vec!["5/1m"; 9] }), "quotas");
    wrong(&json!({ "quotas": ["5/1m", "9/60s"] }), "quotas");
    wrong(&json!({ "quotas": ["5/1m", "20~in_flight"] }), "quotas[1]");
    wrong(&json!({ "quotas": ["5/1m", "five"] }), "quotas[1]");
    wrong(&json!({ "quotas": null }), "quotas");
    for window in [
        "5/1m",
        "",
        "0s",
        "1m~log",
        "1m~burst",
        "1m~burst:5",
        "1m~sliding",
        "1h; 5/1m",
        "1m@nowhere",
        "11y",
        "~in_flight",
    ] {
        wrong(&json!({ "window": window }), "window");
    }
    wrong(&json!({ "window": 60 }), "window");
    wrong(&quotas(&json!({ "operation": "increment" })), "operation");
    wrong(&quotas(&json!({ "operation": null })), "operation");
    wrong(&quotas(&json!({ "operation": "set" })), "used");
    wrong(&quotas(&json!({ "operation": "set", "used": 1, "cost": 1 })), "cost");
    wrong(&quotas(&json!({ "operation": "set", "used": 1_u64 << 40 })), "used");
    wrong(&quotas(&json!({ "operation": "reset", "cost": 1 })), "cost");
    wrong(&quotas(&json!({ "used": 1 })), "used");
    wrong(&quotas(&json!({ "cost": -1 })), "cost");
    wrong(&quotas(&json!({ "cost": 4_294_967_296_u64 })), "cost");
    wrong(&quotas(&json!({ "on_store_failure": "local" })), "on_store_failure");
    wrong(&quotas(&json!({ "operation": "reset", "on_store_failure": "open" })), "on_store_failure");
    for block in [
        json!("30"),
        json!("0s"),
        json!("11y"),
        json!("day@Europe/Berlin"),
        json!("1m@first_hit"),
        json!(" 1s"),
        json!("1m\n"),
        json!("3 hour"),
        json!("minute"),
        json!(30),
        json!(null),
        json!(true),
    ] {
        wrong(&quotas(&json!({ "block": block })), "block");
    }
    wrong(&quotas(&json!({ "block": "30s", "operation": "subtract" })), "block");
    wrong(&quotas(&json!({ "block": "30s", "operation": "set", "used": 1 })), "block");
    wrong(&json!({ "block": "30s", "window": "1m" }), "block");
    wrong(&json!({ "block": "30s", "quotas": ["5/1m", "9/1h"] }), "block");
    wrong(&json!({ "block": "30s", "quotas": ["5/1m~log"], "operation": "get" }), "block");
    wrong(&quotas(&json!({ "key": "alice" })), "key");
    wrong(&quotas(&json!({ "policy": "log in" })), "policy");
    wrong(&quotas(&json!({ "policy": "login:caller" })), "policy");
    wrong(&quotas(&json!({ "attributes": {} })), "attributes");
    wrong(&quotas(&json!({ "attributes": { "user": ["alice"] } })), "attributes.user");
    wrong(&quotas(&json!({ "attributes": { "user": "a".repeat(5_000) } })), "attributes.user");
    for body in ["", "{", "[]", "null", r#"{"attributes": {"user": "a"}}"#] {
        assert_eq!(server.post("/v1/count", body).status, 400, "{body}");
    }
    for batch in [r#"{"requests": []}"#.to_owned(), json!({ "requests": vec![json!({}); 101] }).to_string()] {
        assert_eq!(server.post("/v1/count/batch", &batch).status, 400);
    }
    assert_eq!(server.metric("tollgate_store_counters"), Some(0.0));
}

#[test]
fn a_blocked_key_counts_nothing_until_the_block_has_ended() {
    let mut arguments = OWN.to_vec();
    arguments.push("--test-clock");
    let server = Server::start(&arguments);
    let ask = |more: &Value| {
        let mut body = json!({ "quotas": ["2/1d@first_hit"], "block": "30s" });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        server.post("/v1/count", &count(&body)).json()
    };
    let advance = |millis: u64| {
        let moved = server.admin_post("/v1/clock", &json!({ "advance_ms": millis }).to_string());
        assert_eq!(moved.status, 200);
    };
    let told = |answer: &Value| {
        ["allowed", "blocked", "used", "block_after_ms", "reset_after_ms", "retry_after_ms"]
            .map(|name| answer[name].clone())
    };
    let first = ask(&json!({ "cost": 2 }));
    assert_eq!(told(&first)[..4], [json!(true), json!(false), json!(2), Value::Null]);
    let begun = ask(&json!({}));
    let full = json!(30_000);
    let exceeded = [json!(false), json!(true), json!(3), full.clone(), full.clone(), full];
    assert_eq!(told(&begun), exceeded);
    // Nobody knows with which length a block began, and another limit leaves no more.
    let other = ask(&json!({ "quotas": ["100/1d@first_hit"], "block": "1h" }));
    for blocked in [&begun, &other] {
        assert_eq!((&blocked["window"], &blocked["remaining"]), (&Value::Null, &json!(0)), "{blocked}");
    }
    advance(29_999);
    let last = [json!(false), json!(true), json!(3), json!(1), json!(1), json!(1)];
    assert_eq!([told(&ask(&json!({}))), told(&ask(&json!({ "operation": "get" })))], [last.clone(), last]);
    advance(1);
    let got = ask(&json!({ "operation": "get" }));
    assert_eq!(told(&got)[..4], [json!(true), json!(false), json!(0), Value::Null]);
    assert_eq!(told(&ask(&json!({})))[..4], [json!(true), json!(false), json!(1), Value::Null]);
    // A reset ends both.
    assert_eq!(ask(&json!({ "cost": 9 }))["blocked"], true);
    let reset = ask(&json!({ "operation": "reset" }));
    assert_eq!(told(&reset)[..4], [Value::Null, json!(false), json!(0), Value::Null]);
    assert_eq!(told(&ask(&json!({})))[..4], [json!(true), json!(false), json!(1), Value::Null]);
    // Another key has its own, and a batch answers as well.
    let entry = |user: &str| json!({ "attributes": { "user": user }, "policy": "login", "quotas": ["1/1d"], "block": "1h" });
    let batch = json!({ "requests": [entry("bob"), entry("carol"), entry("bob")] });
    let counts = server.post("/v1/count/batch", &batch.to_string()).json()["counts"].clone();
    let blocked: Vec<&Value> =
        counts.as_array().expect("a list").iter().map(|count| &count["blocked"]).collect();
    assert_eq!(blocked, [&json!(false), &json!(false), &json!(true)]);
    // Two counters of alice and carol, and the block of bob.
    assert_eq!(server.metric("tollgate_store_counters"), Some(3.0));
}

#[test]
fn a_batch_answers_each_count_by_itself() {
    let server = Server::start(OWN);
    let entry = |more: &Value| serde_json::from_str::<Value>(&count(more)).expect("JSON");
    let batch = |entries: Vec<Value>| {
        let reply = server.post("/v1/count/batch", &json!({ "requests": entries }).to_string());
        assert_eq!(reply.status, 200);
        reply.json()["counts"].as_array().expect("a list").clone()
    };
    let counts = batch(vec![
        entry(&json!({ "quotas": ["2/1d@first_hit"], "cost": 3 })),
        entry(&json!({ "quotas": ["5/1m~log"] })),
        entry(&json!({ "window": "2d@first_hit", "operation": "set", "used": 7 })),
        entry(&json!({ "attributes": {}, "window": "1d" })),
        entry(&json!({ "policy": "a b", "window": "1d" })),
    ]);
    assert_eq!((&counts[0]["allowed"], &counts[0]["used"]), (&json!(false), &json!(3)));
    assert_eq!((&counts[1]["status"], &counts[1]["field"]), (&json!(400), &json!("requests[1].quotas[0]")));
    assert_eq!((&counts[2]["series"], &counts[2]["used"]), (&json!("2d@first_hit"), &json!(7)));
    assert_eq!((&counts[3]["status"], &counts[3]["field"]), (&json!(400), &json!("requests[3].attributes")));
    assert_eq!((&counts[4]["status"], &counts[4]["field"]), (&json!(400), &json!("requests[4].policy")));
    let subtract = entry(&json!({ "window": "2d@first_hit", "operation": "subtract", "cost": 2 }));
    assert_eq!(batch(vec![subtract; 3]).len(), 3);
    let get =
        server.post("/v1/count", &count(&json!({ "window": "2d@first_hit", "operation": "get" }))).json();
    assert_eq!(get["used"], 1);
    let full = batch(vec![entry(&json!({ "quotas": vec!["5/1s@first_hit"; 1], "cost": 0 })); 100]);
    assert_eq!(full.len(), 100);
}

#[test]
fn only_with_the_flag() {
    let server = Server::start(&["--limit", "5/1d"]);
    for (more, field) in [(json!({ "quotas": ["5/1m"] }), "quotas"), (json!({ "window": "1m" }), "window")] {
        let refused = server.post("/v1/count", &count(&more));
        refused.assert_problem(400, Some(field));
        assert!(refused.json()["detail"].as_str().expect("a text").contains("--caller-quotas"));
    }
    let elsewhere = server.admin_post("/v1/count", &count(&json!({ "window": "1m" })));
    elsewhere.assert_problem(404, None);
}

/// A page can make its visitor's browser send such a request, and would reset counters.
#[test]
fn a_page_of_another_site_counts_nothing() {
    let server = Server::start(OWN);
    let body = count(&json!({ "window": "1m" }));
    let ask = |headers: &str| -> Reply {
        let length = body.len();
        let request =
            format!("POST /v1/count HTTP/1.1\r\n{headers}\r\nContent-Length: {length}\r\n\r\n{body}");
        Connection::open(server.public).ask(request.as_bytes())
    };
    ask("Host: localhost\r\nContent-Type: text/plain").assert_problem(415, None);
    ask("Host: localhost").assert_problem(415, None);
    for foreign in ["Sec-Fetch-Site: cross-site", "Origin: http://evil.example"] {
        let headers = format!("Host: localhost\r\nContent-Type: application/json\r\n{foreign}");
        ask(&headers).assert_problem(403, None);
    }
    assert_eq!(server.metric("tollgate_store_counters"), Some(0.0));
    assert_eq!(
        ask("Host: tollgate.internal\r\nContent-Type: application/json").status,
        200,
        "under any name"
    );
}

/// A quota that is not counted has no figures, also if another denies.
#[test]
fn an_uncounted_quota_is_not_among_those_of_a_denial() {
    let server = Server::start(&[OWN, &["--max-counters", "1", "--when-full", "allow"]].concat());
    let ask = |more: &Value| server.post("/v1/count", &count(more)).json();
    assert_eq!(ask(&json!({ "quotas": ["1/1h@first_hit"] }))["used"], 1);
    let denied = ask(&json!({ "quotas": ["1/1h@first_hit", "9/1d@first_hit"] }));
    assert_eq!((&denied["allowed"], &denied["source"]), (&json!(false), &json!("store")), "{denied}");
    assert_eq!((&denied["quota"], &denied["used"]), (&json!("1/1h@first_hit"), &json!(2)), "{denied}");
    let told: Vec<&Value> =
        denied["quotas"].as_array().expect("a list").iter().map(|it| &it["quota"]).collect();
    assert_eq!(told, ["1/1h@first_hit"], "{denied}");
    // Nothing is denied: the answer has no figures at all.
    let open = ask(&json!({ "quotas": ["9/1h@first_hit", "9/1d@first_hit"] }));
    assert_eq!((&open["allowed"], &open["source"]), (&json!(true), &json!("fallback")), "{open}");
    assert_eq!((&open["used"], &open["quotas"]), (&Value::Null, &Value::Null), "{open}");
}

/// Returns counts under this many names, as one batch.
fn names(number: usize, window: &str) -> String {
    let entry = |name| json!({ "attributes": { "user": "alice" }, "policy": format!("name-{name}"), "window": window });
    json!({ "requests": (0..number).map(entry).collect::<Vec<_>>() }).to_string()
}

#[test]
fn the_65th_pair_of_a_name_and_a_window_waits_until_one_is_free() {
    undisturbed(|| {
        let server = Server::start(OWN);
        let counts = server.post("/v1/count/batch", &names(65, "4s")).json()["counts"].clone();
        let used = |place: usize| counts[place]["used"].as_u64();
        assert_eq!((used(0), used(63)), (Some(1), Some(1)), "{counts}");
        assert_eq!((&counts[64]["status"], &counts[64]["reason"]), (&json!(429), &json!("too_many_names")));
        assert_eq!(counts[64]["field"], "requests[64].policy");
        let counters = server.metric("tollgate_store_counters");
        assert_eq!(counters, Some(64.0));

        let another = count(&json!({ "quotas": ["5/1m"] }));
        let refused = server.post("/v1/count", &another);
        refused.assert_problem(429, Some("policy"));
        let wait: u64 = refused.header("retry-after").and_then(|wait| wait.parse().ok()).expect("a time");
        assert!((1..=4).contains(&wait), "{wait}");
        assert_eq!(server.metric("tollgate_store_counters"), counters);
        assert_eq!(server.metric(r#"tollgate_http_requests_rejected_total{status="429"}"#), Some(1.0));
        // A name in use can still count, and keys are no names.
        let known = json!({ "attributes": { "user": "bob" }, "policy": "name-3", "quotas": ["7/4s"] });
        assert_eq!(server.post("/v1/count", &known.to_string()).status, 200);

        until("a pair is free", || server.post("/v1/count", &another).status == 200);
    });
}

#[test]
fn each_principal_has_its_own_pairs_and_counts_under_its_names() {
    let folder = Folder::new();
    let new_token = |name: &str, flags: &[&str]| {
        let Output { stdout, .. } = tollgate()
            .args(["token", "new", "--json", "--name", name])
            .args(flags)
            .output()
            .expect("it runs");
        let printed: Value = serde_json::from_slice(&stdout).expect("JSON");
        let text = |field: &str| printed[field].as_str().expect("a text").to_owned();
        (text("token"), text("line"))
    };
    let (one, other) = (new_token("one", &["--scope", "count"]), new_token("other", &["--scope", "count"]));
    let bound = new_token("bound", &["--scope", "count", "--policy", "login"]);
    let check = new_token("check", &["--scope", "check,peek"]);
    let lines = [&one.1, &other.1, &bound.1, &check.1].map(|line| format!("{line}\n")).concat();
    let tokens = folder.write("tokens.jsonl", &lines);
    let server = Server::start(&[OWN, &["--tokens", &tokens]].concat());
    let ask = |(token, _): &(String, String), path: &str, body: &str| {
        let request = String::from_utf8(post(path, body)).expect("text");
        let request = request.replacen("\r\n", &format!("\r\nAuthorization: Bearer {token}\r\n"), 1);
        server.connect().ask(request.as_bytes())
    };
    let filled = ask(&one, "/v1/count/batch", &names(65, "1d")).json();
    assert_eq!(filled["counts"][64]["reason"], "too_many_names");
    let login = count(&json!({ "quotas": ["5/1m"] }));
    ask(&one, "/v1/count", &login).assert_problem(429, Some("policy"));
    assert_eq!(ask(&other, "/v1/count", &login).status, 200);
    assert_eq!(ask(&bound, "/v1/count", &login).status, 200);

    let other_name = count(&json!({ "policy": "api", "quotas": ["5/1m"] }));
    ask(&bound, "/v1/count", &other_name).assert_problem(403, None);
    let batch = json!({ "requests": [serde_json::from_str::<Value>(&other_name).expect("JSON"), serde_json::from_str::<Value>(&login).expect("JSON")] });
    let counts = ask(&bound, "/v1/count/batch", &batch.to_string()).json()["counts"].clone();
    assert_eq!((&counts[0]["status"], counts[1]["used"].is_u64()), (&json!(403), true));
    let refused = ask(&check, "/v1/count", &login);
    refused.assert_problem(403, None);
    assert_eq!(refused.json()["scope"], "count");

    // A reload keeps what a principal has in use.
    let late = new_token("late", &["--scope", "count"]);
    folder.write("tokens.jsonl", &format!("{lines}{}\n", late.1));
    until("the file is read again", || ask(&late, "/v1/count", &login).status == 200);
    ask(&one, "/v1/count", &login).assert_problem(429, Some("policy"));
}
