//! The live page in an outage of a real store.

#![allow(clippy::expect_used, reason = "this is a test")]

use serde_json::{Value, json};
use tollgate_testkit::servers::{Data, Server as Store, Software};

use crate::support::{Server, until};

fn kinds(live: &Value) -> Vec<&str> {
    live["events"].as_array().into_iter().flatten().filter_map(|event| event["kind"].as_str()).collect()
}

/// Waits until the live figures are as expected. Asks only at every twelfth look, because the service answers them at
/// most eight times a second.
fn live_once(server: &Server, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let (mut live, mut looks) = (Value::Null, 0);
    until(what, || {
        looks += 1;
        if looks % 12 != 1 {
            return false;
        }
        // A check tells the service how its store is.
        server.post("/v1/check", r#"{"attributes": {"user": "alice"}}"#);
        let reply = server.admin_get("/v1/live");
        if reply.status == 200 {
            live = reply.json();
        }
        holds(&live)
    });
    live
}

#[test]
fn an_outage_is_shown_from_its_beginning_to_its_end() {
    let store = Store::start(Software::Redis);
    let url = format!("redis://{}", store.address());
    let page = ["--public-url", "https://ops.example/tollgate"];
    let flags = ["--limit", "1000000/1d", "--store", &url, "--on-store-failure", "open"];
    let server = Server::start(&[&flags[..], &page].concat());
    let up = live_once(&server, "counted by the store", |live| live["sources"]["store"].as_u64() > Some(0));
    let shared = &up["store"];
    assert_eq!((&shared["kind"], &shared["is_up"]), (&json!("redis"), &json!(true)), "{shared}");
    assert_eq!(shared["servers"][0]["name"], store.address().to_string());
    assert_eq!(shared["servers"][0]["connected"], true);
    // Both have the clock of this machine.
    let offset = shared["servers"][0]["clock_offset_ms"].as_i64().expect("a number");
    assert!(offset.abs() < 1_000, "{offset}");
    assert!(shared["steps"].as_u64() > Some(0) && shared["p50_ms"].is_number(), "{shared}");
    assert_eq!(shared["without_store"], json!(["open"]));

    store.kill();
    let down = live_once(&server, "shown as down", |live| kinds(live).contains(&"store_down"));
    assert_eq!(down["store"]["is_up"], false);
    assert!(down["store"]["down_since"].is_string(), "{down}");
    let open =
        live_once(&server, "admitted uncounted", |live| live["sources"]["fallback_open"].as_u64() > Some(0));
    assert!(open["totals"]["by_fallback"].as_u64() > Some(0), "{open}");
    assert!(open["store"]["errors"].as_object().is_some_and(|errors| !errors.is_empty()), "{open}");
    assert_eq!(open["state"], "ready");
    assert!(
        open["state_text"].as_str().is_some_and(|text| text.contains("on_store_failure (open)")),
        "{open}"
    );

    store.start_again(Data::Lost);
    let back = live_once(&server, "shown as up", |live| kinds(live).contains(&"store_up"));
    assert_eq!((&back["store"]["is_up"], &back["store"]["down_since"]), (&json!(true), &Value::Null));

    // So soon after the last one, this outage is only gathered, and logged at the end.
    store.kill();
    let is_down_twice = |live: &Value| kinds(live).iter().filter(|kind| **kind == "store_down").count() == 2;
    live_once(&server, "shown as down again", is_down_twice);
    server.signal("TERM");
    let (_, log) = server.wait();
    let about = ["the store does not answer", "the store answers again", "the store failed again"];
    let lines: Vec<_> = log.lines().filter(|line| about.iter().any(|text| line.contains(text))).collect();
    assert!(lines.len() >= 3, "{log}");
    for line in lines {
        assert!(line.contains("https://ops.example/tollgate/ui/#/store"), "{line}");
    }
}
