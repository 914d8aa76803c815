//! Operations of administrators, which callers cannot use.

#![allow(clippy::expect_used, reason = "this is a test")]

use serde_json::{Value, json};

use crate::support::{Connection, Server, charged, get};

const ALICE: &str = r#"{"attributes": {"user": "alice"}}"#;

fn refund(cost: u32, windows: &[Value]) -> String {
    json!({ "attributes": { "user": "alice" }, "cost": cost, "version": 1, "windows": windows }).to_string()
}

#[test]
fn a_refund_gives_back_at_most_what_is_used_in_the_window_it_names() {
    let server = Server::start(&["--limit", "5/1d@first_hit,9/2d@first_hit"]);
    let windows = charged(&server.get("/v1/check?user=alice&cost=3").json());
    let refund = |cost: u32, windows: &[Value]| {
        let reply = server.admin_post("/v1/refund", &refund(cost, windows));
        assert_eq!(reply.status, 200);
        reply.json()["quotas"].clone()
    };

    let mut earlier = windows.clone();
    earlier[1]["start"] = (earlier[1]["start"].as_u64().expect("a time") - 1).into();
    let quotas = refund(2, &earlier);
    assert_eq!(
        quotas[0],
        json!({ "policy": "default", "quota": "5/1d@first_hit", "window": "open", "given": 2, "used": 1 })
    );
    assert_eq!(
        quotas[1],
        json!({ "policy": "default", "quota": "9/2d@first_hit", "window": "closed", "given": 0 })
    );
    let quotas = refund(9, &windows);
    assert_eq!((&quotas[0]["given"], &quotas[1]["given"]), (&json!(1), &json!(3)));
    assert_eq!(server.post("/v1/peek", ALICE).json()["used"], 0);
    assert_eq!(refund(1, &[]), json!([]), "a check that no quota applied to took nothing");
}

/// A refund named its windows by position only, and other quotas took the units as theirs.
#[test]
fn a_refund_that_names_other_quotas_gives_nothing_back() {
    let server = Server::start(&["--limit", "5/1d@first_hit,9/2d@first_hit"]);
    let windows = charged(&server.get("/v1/check?user=alice&cost=3").json());
    let named = |field: &str, value: Value| {
        let mut windows = windows.clone();
        windows[1][field] = value;
        server.admin_post("/v1/refund", &refund(1, &windows))
    };
    for (field, other) in [("quota", "9/2d"), ("quota", "9/3d@first_hit"), ("policy", "hunter2")] {
        let reply = named(field, other.into());
        reply.assert_problem(409, Some("windows[1]"));
        let detail = "nothing was given back: this quota does not apply to the request; there are \
                      5/1d@first_hit of default, 9/2d@first_hit of default";
        assert_eq!(reply.json()["detail"], detail);
    }
    for (field, wrong, told) in [
        ("quota", json!("5/1d@first_hit"), "windows[1]"),
        ("quota", json!("hunter2"), "windows[1].quota"),
        ("quota", json!(5), "windows[1].quota"),
        ("policy", json!(null), "windows[1].policy"),
        ("start", json!("hunter2"), "windows[1].start"),
        ("end", json!(0), "windows[1].end"),
    ] {
        let reply = named(field, wrong);
        reply.assert_problem(400, Some(told));
        assert!(!String::from_utf8_lossy(&reply.body).contains("hunter2"), "{:?}", reply.json());
    }
    server.admin_post("/v1/refund", &refund(1, &[json!(0)])).assert_problem(400, Some("windows[0]"));
    server.admin_post("/v1/refund", ALICE).assert_problem(400, Some("version"));
    let quotas = server.post("/v1/peek", ALICE).json()["quotas"].clone();
    assert_eq!((&quotas[0]["used"], &quotas[1]["used"]), (&json!(3), &json!(3)));

    // A counter does not depend on its limit.
    let reply = named("quota", json!("100/2d@first_hit"));
    assert_eq!(reply.json()["quotas"][1]["given"], 1);
    let reply = server.admin_post("/v1/refund", &refund(9, &windows[1..]));
    assert_eq!((reply.json()["quotas"].as_array().map(Vec::len), reply.status), (Some(1), 200));
    let quotas = server.post("/v1/peek", ALICE).json()["quotas"].clone();
    assert_eq!((&quotas[0]["used"], &quotas[1]["used"]), (&json!(2), &json!(0)), "only what is named");
}

/// Such a refund was answered 200, although it named no window.
#[test]
fn a_refund_of_an_impossible_window_is_refused_and_gives_nothing_back() {
    const DAY: u64 = 86_400_000;
    let server = Server::start(&["--limit", "5/1d,9/2d@staggered,9/day@Europe/Berlin,9/1d@first_hit"]);
    let windows = charged(&server.get("/v1/check?user=alice&cost=3").json());
    let start = |index: usize| windows[index]["start"].as_u64().expect("a time");
    let refund = |index: usize, start: u64| {
        let mut windows = windows.clone();
        windows[index]["start"] = start.into();
        server.admin_post("/v1/refund", &refund(1, &windows))
    };
    for index in 0..3 {
        let reply = refund(index, start(index) + 1);
        reply.assert_problem(400, Some(&format!("windows[{index}].start")));
        assert!(reply.json()["detail"].as_str().is_some_and(|it| it.starts_with("no window of ")));
    }
    for (index, length) in [DAY, 2 * DAY].into_iter().enumerate() {
        let reply = refund(index, start(index) + 2 * length);
        reply.assert_problem(400, Some(&format!("windows[{index}].start")));
    }
    refund(3, start(3) + DAY).assert_problem(400, Some("windows[3].start"));
    assert_eq!(server.post("/v1/peek", ALICE).json()["quotas"][3]["used"], 3);

    let closed = refund(0, start(0) - DAY);
    assert_eq!(closed.json()["quotas"][0]["window"], "closed");
    assert_eq!(closed.json()["quotas"][3]["given"], 1);
}

#[test]
fn set_and_reset_change_the_used_units() {
    let server = Server::start(&["--limit", "5/1d@first_hit", "--key", "user"]);
    let set = |used: Value| {
        let body = json!({ "attributes": { "user": "alice" }, "used": used });
        server.admin_post("/v1/set", &body.to_string())
    };
    let quotas = set(json!(7)).json()["quotas"].clone();
    assert_eq!((&quotas[0]["used"], &quotas[0]["remaining"]), (&json!(7), &json!(0)));
    assert_eq!(server.get("/v1/check?user=alice").status, 429);
    assert_eq!(set(json!(4)).json()["quotas"][0]["remaining"], 1);
    assert_eq!(server.get("/v1/check?user=alice").status, 200);

    assert_eq!(server.admin_post("/v1/reset", ALICE).json()["quotas"][0]["used"], 0);
    assert_eq!(server.get("/v1/check?user=alice").json()["used"], 1);

    set(json!(1_u64 << 40)).assert_problem(400, Some("used"));
    set(json!(-1)).assert_problem(400, Some("used"));
    server.admin_post("/v1/set", ALICE).assert_problem(400, Some("used"));
    server.admin_post("/v1/reset", r#"{"attributes": {}}"#).assert_problem(400, Some("attributes.user"));
}

#[test]
fn each_listener_answers_its_own_paths_alone() {
    let server = Server::start(&["--limit", "5/1d"]);
    for path in ["/v1/record", "/v1/record/batch", "/v1/reset", "/v1/set"] {
        server.post(path, ALICE).assert_problem(404, None);
    }
    for path in ["/metrics", "/openapi.json", "/", "/v1", "/v1/check/", "//v1/check", "/v1/checks"] {
        server.get(path).assert_problem(404, None);
    }
    let (check, reset) =
        (server.admin_get("/v1/check?user=alice").json(), server.post("/v1/reset", ALICE).json());
    assert!(check["detail"].as_str().expect("a text").contains("`serve --listen`"), "{check}");
    assert!(reset["detail"].as_str().expect("a text").contains("`serve --admin-listen`"), "{reset}");
    let nowhere = server.get("/v1/checks").json();
    assert!(nowhere["detail"].as_str().expect("a text").contains("/openapi.json"), "{nowhere}");
    for path in ["/v1/check", "/v1/peek", "/v1/check/batch"] {
        server.admin_post(path, ALICE).assert_problem(404, None);
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!((server.get(path).status, server.admin_get(path).status), (200, 200));
    }
}

#[test]
fn the_answer_to_a_wrong_method_names_the_right_ones() {
    let server = Server::start(&["--limit", "5/1d"]);
    let ask = |method: &str, path: &str| {
        let reply =
            server.connect().ask(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        (reply.status, reply.header("allow").map(str::to_owned))
    };
    assert_eq!(ask("DELETE", "/v1/check"), (405, Some("GET, POST".to_owned())));
    assert_eq!(ask("OPTIONS", "/v1/check"), (405, Some("GET, POST".to_owned())));
    assert_eq!(ask("GET", "/v1/peek"), (405, Some("POST".to_owned())));
    assert_eq!(ask("POST", "/healthz"), (405, Some("GET, HEAD".to_owned())));
}

#[test]
fn a_head_has_the_length_of_get_and_takes_nothing() {
    let server = Server::start(&["--limit", "1/1d"]);
    let head = |connection: &mut Connection, path: &str| {
        connection.send(format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        connection.head().expect("an answer comes")
    };
    let mut connection = Connection::open(server.admin);
    for path in ["/openapi.json", "/healthz", "/readyz"] {
        let length = server.admin_get(path).body.len().to_string();
        let reply = head(&mut connection, path);
        assert_eq!((reply.status, reply.header("content-length")), (200, Some(length.as_str())), "{path}");
    }
    assert_eq!(connection.ask(&get("/healthz")).body, b"ok\n");
    assert_eq!(head(&mut server.connect(), "/v1/check?user=alice").status, 405);
    assert_eq!(server.get("/v1/check?user=alice").status, 200);
}

#[test]
fn metrics_count_decisions_and_rejections_and_name_no_key() {
    let server = Server::start(&["--limit", "2/1d@first_hit"]);
    for _ in 0..3 {
        server.get("/v1/check?user=secret-alice");
    }
    let batch = r#"{"requests": [{"attributes": {"user": "secret-bob"}}]}"#;
    server.post("/v1/check/batch", batch);
    server.get("/v1/check?cost=secret");
    server.get("/secret");

    let count = |name: &str| server.metric(name);
    assert_eq!(count(r#"tollgate_decisions_total{policy="default",verdict="allowed"}"#), Some(3.0));
    assert_eq!(count(r#"tollgate_decisions_total{policy="default",verdict="denied"}"#), Some(1.0));
    assert_eq!(count("tollgate_decision_duration_seconds_count"), Some(4.0));
    assert_eq!(count(r#"tollgate_decision_duration_seconds_bucket{le="+Inf"}"#), Some(4.0));
    assert!(count("tollgate_decision_duration_seconds_sum").is_some_and(|sum| sum > 0.0 && sum < 1.0));
    assert_eq!(count("tollgate_store_counters"), Some(2.0));
    assert_eq!(count("tollgate_store_max_counters"), Some(1_000_000.0));
    assert_eq!(count(r#"tollgate_http_requests_rejected_total{status="400"}"#), Some(1.0));
    assert_eq!(count(r#"tollgate_http_requests_rejected_total{status="404"}"#), Some(1.0));
    // The one that asks; earlier ones may not be closed yet.
    assert!(count(r#"tollgate_http_connections{listener="admin"}"#).is_some_and(|open| open >= 1.0));
    assert_eq!(
        count(&format!("tollgate_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))),
        Some(1.0)
    );

    let reply = server.admin_get("/metrics");
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(text.ends_with("# EOF\n") && !text.contains("secret"));
    assert_eq!(
        reply.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
}

#[test]
fn no_answer_and_no_log_line_repeats_a_value() {
    let server = Server::start(&["--limit", "1/1d@first_hit"]);
    let answers = [
        server.get("/v1/check?user=hunter2"),
        server.get("/v1/check?user=hunter2"),
        server.get("/v1/check?user=hunter2&user=hunter2"),
        server.get("/v1/check?user=hunter2%"),
        server.get("/v1/check?cost=hunter2"),
        server.post("/v1/peek", r#"{"attributes": {"user": "hunter2"}}"#),
        server.post("/v1/check", r#"{"attributes": "hunter2"}"#),
        server.post("/v1/check", r#"{"attributes": {"user": "hunter2", "user": "hunter2"}}"#),
        server.post("/v1/check", r#"{"attributes": {"user": "hunter2"}, "cost": "hunter2"}"#),
        server.post("/v1/check", r#"{"attributes": {"user": "hunter2"}"#),
        server.admin_post("/v1/reset", r#"{"attributes": {"user": "hunter2"}}"#),
    ];
    for answer in answers {
        assert!(!String::from_utf8_lossy(&answer.body).contains("hunter2"), "{answer:?}");
    }
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(log.contains("first denial") && !log.contains("hunter2"), "{log}");
}
