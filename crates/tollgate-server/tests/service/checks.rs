//! Answers to checks: verdicts, headers and bodies.
//!
//! Windows are days that start at the first hit, so that none ends during a test.

#![allow(clippy::expect_used, reason = "this is a test")]

use serde_json::{Value, json};

use crate::support::{Server, get, post};

const ALICE: &str = r#"{"attributes": {"user": "alice"}}"#;

/// With the flag, each spelling of an address had its own counter, and each address of a /64. In a file, the same word
/// counts clients and refuses other values.
#[test]
fn an_address_is_one_client_by_flag_as_by_file() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("address.yaml");
    let text = "policies: [{ name: default, key: [ip], quotas: [9/1d@first_hit] }]\n";
    std::fs::write(&file, text).expect("it can be written");
    let file = file.to_str().expect("a path in UTF-8");
    for arguments in [&["--limit", "9/1d@first_hit", "--key", "ip"][..], &["--config", file]] {
        let server = Server::start(arguments);
        let used = |ip: &str| server.get(&format!("/v1/check?ip={ip}")).json()["used"].as_u64();
        let all = ["1.2.3.4", "::ffff:1.2.3.4", "64:ff9b::1.2.3.4", "2001:db8::1", "2001:db8::2:0:0:1"];
        assert_eq!(all.map(used), [1, 2, 3, 1, 2].map(Some), "{arguments:?}");
        let refused = server.get("/v1/check?ip=notip");
        refused.assert_problem(400, Some("query.ip"));
        assert!(refused.json()["detail"].as_str().is_some_and(|it| it.ends_with("`ip` is not an address")));
    }
    let everybody = Server::start(&["--limit", "1/1d@first_hit", "--key", "global"]);
    assert_eq!(["a", "b"].map(|user| everybody.get(&format!("/v1/check?user={user}")).status), [200, 429]);
}

#[test]
fn the_fifth_of_five_is_allowed_and_the_sixth_denied() {
    let server = Server::start(&["--limit", "5/1d@first_hit"]);
    for used in 1..=5 {
        let reply = server.post("/v1/check", ALICE);
        let body = reply.json();
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert_eq!(reply.header("ratelimit-policy"), Some(r#""default";q=5;w=86400"#));
        assert_eq!(reply.header("retry-after"), None);
        assert_eq!(
            (&body["allowed"], &body["used"], &body["remaining"]),
            (&json!(true), &json!(used), &json!(5 - used))
        );
        assert_eq!(body.get("retry_after_ms"), None);
        assert_eq!(body.get("reason"), None);
    }

    let reply = server.post("/v1/check", ALICE);
    let body = reply.json();
    assert_eq!(reply.status, 429);
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!(body["status"], 429);
    assert_eq!(body["violated-policies"], json!(["default"]));
    assert_eq!(body["allowed"], false);
    assert_eq!(body["reason"], "quota_exceeded");
    assert_eq!(body["source"], "store");
    assert_eq!((&body["limit"], &body["used"], &body["remaining"]), (&json!(5), &json!(5), &json!(0)));
    assert_eq!(body["quota"], "5/1d@first_hit");

    let (reset, retry) = (millis(&body["reset_after_ms"]), millis(&body["retry_after_ms"]));
    assert!(reset > 86_000_000 && retry == reset);
    let seconds = retry.div_ceil(1000);
    assert_eq!(reply.header("retry-after"), Some(seconds.to_string().as_str()));
    assert_eq!(reply.header("ratelimit"), Some(format!(r#""default";r=0;t={seconds}"#).as_str()));
    let window = &body["window"];
    assert_eq!(millis(&window["end"]) - millis(&window["start"]), 86_400_000);
    assert_eq!(body["quotas"], Value::Null, "a single quota has no list");
}

#[test]
fn a_query_and_a_body_mean_the_same() {
    let server = Server::start(&["--limit", "5/1d@first_hit", "--key", "user"]);
    let asked = server.get("/v1/check?user=al%69ce&cost=2&other=x");
    let posted = server.post("/v1/check", r#"{"attributes": {"user": "alice"}, "cost": 2}"#);
    assert_eq!((asked.status, asked.json()["used"].as_u64()), (200, Some(2)));
    assert_eq!((posted.status, posted.json()["used"].as_u64()), (200, Some(4)));
    let denied = server.get("/v1/check?user=alice&cost=2");
    assert_eq!(denied.status, 429);
    assert_eq!(denied.header("content-type"), Some("application/problem+json"));
    assert_eq!(server.get("/v1/check?user=alice").status, 200);
}

#[test]
fn one_connection_answers_many_requests_even_pipelined() {
    let server = Server::start(&["--limit", "5/1d@first_hit"]);
    let mut connection = server.connect();
    connection.send(&[get("/v1/check?user=alice"), post("/v1/check", ALICE), get("/healthz")].concat());
    let used = |reply: crate::support::Reply| reply.json()["used"].as_u64();
    assert_eq!(connection.reply().and_then(used), Some(1));
    assert_eq!(connection.reply().and_then(used), Some(2));
    assert_eq!(connection.reply().map(|reply| reply.status), Some(200));
}

#[test]
fn a_cost_above_the_limit_is_denied_for_good() {
    let server = Server::start(&["--limit", "5/1d@first_hit"]);
    let reply = server.get("/v1/check?user=alice&cost=6");
    let body = reply.json();
    assert_eq!((reply.status, &body["reason"]), (429, &json!("cost_exceeds_limit")));
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(body.get("retry_after_ms"), None);
    assert_eq!(body["used"], 0);
}

#[test]
fn the_answer_says_that_a_limit_of_0_denies_everything() {
    let server = Server::start(&["--limit", "0/1d"]);
    let reply = server.get("/v1/check?user=alice");
    assert_eq!((reply.status, &reply.json()["reason"]), (429, &json!("cost_exceeds_limit")));
    assert_eq!(reply.json()["detail"], "the limit is 0: everything is denied");
}

#[test]
fn several_quotas_are_taken_all_or_nothing() {
    let server = Server::start(&["--limit", "2/1h@first_hit,9/1d@first_hit"]);
    assert_eq!(server.get("/v1/check?user=alice&cost=2").status, 200);
    let denied = server.get("/v1/check?user=alice");
    let body = denied.json();
    assert_eq!(denied.status, 429);
    assert_eq!(body["violated-policies"], json!(["default/2/1h@first_hit"]));
    assert_eq!(body["quota"], "2/1h@first_hit");
    assert_eq!((&body["quotas"][0]["used"], &body["quotas"][1]["used"]), (&json!(2), &json!(2)));
    let policy = denied.header("ratelimit-policy").unwrap_or_default();
    assert_eq!(policy, r#""default/2/1h@first_hit";q=2;w=3600, "default/9/1d@first_hit";q=9;w=86400"#);
    assert!(
        denied.header("ratelimit").is_some_and(|limit| limit.contains(r#""default/9/1d@first_hit";r=7;t="#))
    );
}

#[test]
fn a_peek_is_always_200_and_takes_nothing() {
    let server = Server::start(&["--limit", "1/1d@first_hit"]);
    for _ in 0..3 {
        assert_eq!(server.post("/v1/peek", ALICE).json()["allowed"], true);
    }
    assert_eq!(server.post("/v1/check", ALICE).status, 200);
    let peeked = server.post("/v1/peek", ALICE);
    assert_eq!((peeked.status, &peeked.json()["allowed"]), (200, &json!(false)));
    assert_eq!(peeked.header("content-type"), Some("application/json"));
    assert!(peeked.header("ratelimit").is_some_and(|limit| limit.starts_with(r#""default";r=0;t="#)));
}

#[test]
fn the_requests_of_a_batch_are_independent() {
    let server = Server::start(&["--limit", "1/1d@first_hit", "--key", "user"]);
    let batch = json!({ "requests": [
        { "attributes": { "user": "alice" } },
        { "attributes": { "user": "alice" } },
        { "attributes": { "path": "/" } },
        { "attributes": { "user": "bob" }, "cost": 1 },
    ] });
    let reply = server.post("/v1/check/batch", &batch.to_string());
    let body = reply.json();
    let decisions = body["decisions"].as_array().expect("a list");
    assert_eq!((reply.status, decisions.len()), (200, 4));
    assert_eq!(decisions[0]["allowed"], true);
    assert_eq!(
        (&decisions[1]["allowed"], &decisions[1]["reason"]),
        (&json!(false), &json!("quota_exceeded"))
    );
    assert_eq!(
        (&decisions[2]["status"], &decisions[2]["field"]),
        (&json!(400), &json!("requests[2].attributes.user"))
    );
    assert_eq!(decisions[3]["allowed"], true);
}

#[test]
fn a_batch_has_1_to_100_requests() {
    let server = Server::start(&["--limit", "1000/1d@first_hit"]);
    let batch = |length: usize| {
        let requests = vec![json!({ "attributes": { "user": "alice" } }); length];
        server.post("/v1/check/batch", &json!({ "requests": requests }).to_string())
    };
    assert_eq!(batch(100).json()["decisions"][99]["used"], 100);
    batch(101).assert_problem(400, Some("requests"));
    batch(0).assert_problem(400, Some("requests"));
}

#[test]
fn a_missing_or_empty_identity_is_named_and_shares_nothing() {
    let server = Server::start(&["--limit", "1/1d@first_hit", "--key", "tenant,user"]);
    server.get("/v1/check?tenant=t").assert_problem(400, Some("query.user"));
    server.get("/v1/check?tenant=t&user=").assert_problem(400, Some("query.user"));
    server
        .post("/v1/check", r#"{"attributes": {"user": "u"}}"#)
        .assert_problem(400, Some("attributes.tenant"));
    server
        .post("/v1/peek", r#"{"attributes": {"tenant": "t"}}"#)
        .assert_problem(400, Some("attributes.user"));
    let anybody = Server::start(&["--limit", "1/1d@first_hit"]);
    anybody.get("/v1/check").assert_problem(400, Some("query"));
    anybody.get("/v1/check?cost=1").assert_problem(400, Some("query"));
    anybody.post("/v1/check", r#"{"attributes": {}}"#).assert_problem(400, Some("attributes"));
    assert_eq!(anybody.metric("tollgate_store_counters"), Some(0.0));
}

#[test]
fn attributes_outside_the_key_do_not_matter_and_the_order_of_all_does_not() {
    let keyed = Server::start(&["--limit", "1/1d@first_hit", "--key", "user"]);
    assert_eq!(keyed.get("/v1/check?user=alice&path=/a").status, 200);
    assert_eq!(keyed.get("/v1/check?path=/b&user=alice").status, 429);
    let all = Server::start(&["--limit", "1/1d@first_hit"]);
    assert_eq!(all.get("/v1/check?user=alice&path=/a").status, 200);
    assert_eq!(all.get("/v1/check?path=/a&user=alice").status, 429);
    assert_eq!(all.get("/v1/check?path=/b&user=alice").status, 200);
    assert_eq!(all.get("/v1/check?user=alice").status, 200);
}

#[test]
fn exactly_20_of_50_parallel_requests_pass() {
    let server = Server::start(&["--limit", "20/1d@first_hit"]);
    for user in ["alice", "bob", "carol", "dave"] {
        let mut connections: Vec<_> = (0..50).map(|_| server.connect()).collect();
        let start = std::sync::Barrier::new(connections.len());
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let ask = |connection: &'_ mut crate::support::Connection| {
                start.wait();
                connection.ask(&get(&format!("/v1/check?user={user}"))).status
            };
            let asking: Vec<_> =
                connections.iter_mut().map(|connection| scope.spawn(move || ask(connection))).collect();
            asking.into_iter().map(|asked| asked.join().expect("no panic")).collect()
        });
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 20);
        assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 30);
    }
}

#[test]
fn count_denied_charges_denied_requests() {
    let server = Server::start(&["--limit", "1/1d@first_hit", "--count-denied"]);
    for used in 1..=3 {
        assert_eq!(server.get("/v1/check?user=alice").json()["used"], used);
    }
}

#[test]
fn a_full_store_refuses_unseen_keys_and_answers_known_ones() {
    let server = Server::start(&["--limit", "5/1d@first_hit", "--max-counters", "1"]);
    assert_eq!(server.get("/v1/check?user=alice").status, 200);
    let refused = server.get("/v1/check?user=bob");
    refused.assert_problem(503, None);
    assert_eq!(refused.json()["reason"], "store_full");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(server.get("/v1/check?user=alice").json()["used"], 2);
    let batch = r#"{"requests": [{"attributes": {"user": "bob"}}, {"attributes": {"user": "alice"}}]}"#;
    let batch = server.post("/v1/check/batch", batch).json();
    assert_eq!((&batch["decisions"][0]["status"], &batch["decisions"][1]["used"]), (&json!(503), &json!(3)));
    assert_eq!(batch["decisions"][0]["reason"], "store_full");
    assert_eq!(server.metric("tollgate_store_full_total"), Some(2.0));
}

#[test]
fn a_full_store_may_admit_without_a_count() {
    let server = Server::start(&["--limit", "5/1d@first_hit", "--max-counters", "1", "--when-full", "allow"]);
    assert_eq!(server.get("/v1/check?user=alice").status, 200);
    for _ in 0..9 {
        let body = server.get("/v1/check?user=bob").json();
        assert_eq!(
            (&body["allowed"], &body["source"], &body["used"]),
            (&json!(true), &json!("fallback"), &json!(0))
        );
    }
    assert_eq!(server.get("/v1/check?user=bob&cost=6").status, 429);
}

fn millis(value: &Value) -> u64 {
    value.as_u64().expect("milliseconds")
}

/// The answer said that the body is not JSON, although it is.
#[test]
fn refuses_a_compressed_body_with_the_reason() {
    let server = Server::start(&["--limit", "5/1d@first_hit"]);
    let ask = |coding: &str, body: &str| {
        let head = format!("Host: localhost\r\nContent-Type: application/json\r\nContent-Encoding: {coding}");
        let length = body.len();
        let request = format!("POST /v1/check HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}");
        server.connect().ask(request.as_bytes())
    };
    let refused = ask("gzip", "\u{1f}compressed");
    refused.assert_problem(415, None);
    assert!(
        refused.json()["detail"].as_str().is_some_and(|detail| detail.contains("must not be compressed"))
    );
    assert_eq!(ask("Identity", ALICE).status, 200);
}
