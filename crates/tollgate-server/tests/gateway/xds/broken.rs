//! Sets of limits that are refused with a reason, and change nothing.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::free_address;
use crate::support::{Connection, until};
use crate::xds::control_plane::{Acknowledgement, ControlPlane, LIMITS};
use crate::xds::{ask, start};

const ALICE: &[&[(&str, &str)]] = &[&[("user", "alice")]];

fn domain(name: &str, descriptors: &Value) -> Value {
    json!({ "name": name, "domain": name, "descriptors": descriptors })
}

fn limit(requests: u32) -> Value {
    json!({ "unit": "YEAR", "requests_per_unit": requests })
}

fn good(requests: u32) -> Value {
    domain("shop", &json!([{ "key": "user", "rate_limit": limit(requests) }]))
}

/// Sets with what is wrong with them, and words that the reason has to have.
fn broken() -> Vec<(&'static str, Vec<Value>, Vec<&'static str>)> {
    let levels = |levels: Value| vec![good(3), domain("other", &levels)];
    let twin = || json!({ "key": "user", "value": "bob", "rate_limit": limit(1) });
    let named = |name: &str| json!({ "unit": "DAY", "requests_per_unit": 1, "name": name });
    let replaces =
        |name: &str| json!({ "unit": "DAY", "requests_per_unit": 1, "replaces": [{ "name": name }] });
    vec![
        ("a domain without a name", vec![good(3), domain("", &json!([]))], vec!["domain"]),
        (
            "a domain twice",
            vec![good(3), json!({ "name": "again", "domain": "shop", "descriptors": [] })],
            vec!["shop"],
        ),
        (
            "a descriptor without a key",
            levels(json!([{ "value": "bob", "rate_limit": limit(1) }])),
            vec!["other", "key"],
        ),
        ("a descriptor twice", levels(json!([twin(), twin()])), vec!["other", "user", "bob"]),
        (
            "a limit without a unit",
            levels(json!([{ "key": "user", "rate_limit": { "requests_per_unit": 1 } }])),
            vec!["other", "unit"],
        ),
        (
            "an unknown unit",
            levels(json!([{ "key": "user", "rate_limit": { "unit": 99, "requests_per_unit": 1 } }])),
            vec!["other", "99"],
        ),
        (
            "a limit of no limit",
            levels(
                json!([{ "key": "user", "rate_limit": { "unit": "DAY", "requests_per_unit": 1, "unlimited": true } }]),
            ),
            vec!["other", "unlimited"],
        ),
        (
            "a limit that replaces itself",
            levels(json!([{ "key": "user", "rate_limit": {
                "unit": "DAY", "requests_per_unit": 1, "name": "own", "replaces": [{ "name": "own" }],
            } }])),
            vec!["other", "itself"],
        ),
        (
            "a mistake deep below",
            levels(json!([{ "key": "a", "value": "1", "descriptors": [
                { "key": "b", "descriptors": [{ "key": "c", "rate_limit": named("fine") }, { "rate_limit": replaces("fine") }] },
            ] }])),
            vec!["other", "key"],
        ),
    ]
}

#[test]
#[ignore = "it needs Envoy and go-control-plane, which `cargo xtask prove xds` builds"]
fn prove_broken_sets_change_nothing() {
    let mut plane = ControlPlane::start(free_address());
    let server = start(plane.address, free_address(), &[], &[]);
    plane.apply("1", &[good(1_000)]);
    let first = &plane.events("request")[0];
    assert_eq!((&first["node"], &first["type"]), (&json!("envoy-ratelimit"), &json!(LIMITS)));
    assert_eq!((&first["names"], &first["nonce"]), (&Value::Null, &json!("")), "all domains are wanted");
    let mut connection = Connection::open(server.public);
    let mut left = 1_000;
    let mut check = |story: &str| {
        left -= 1;
        let status = ask(&mut connection, "shop", ALICE)["statuses"][0].clone();
        assert_eq!(
            (&status["currentLimit"]["requestsPerUnit"], &status["limitRemaining"]),
            (&json!(1_000), &json!(left)),
            "{story}"
        );
        let other = ask(&mut connection, "other", ALICE);
        assert_eq!(other["statuses"][0]["currentLimit"], Value::Null, "{story}");
    };
    check("the first set");
    for (number, (story, set, words)) in broken().into_iter().enumerate() {
        let version = format!("broken-{number}");
        plane.set(&version, &set);
        judge(story, &plane.answer(&version), &words);
        check(story);
    }
    // A field that is cut off, and bytes that are no field at all.
    for bytes in ["CgU=", "//////8="] {
        let version = format!("bytes-{bytes}");
        plane.set_bytes(&version, bytes);
        judge(bytes, &plane.answer(&version), &[]);
        check(bytes);
    }
    plane.apply("2", &[good(5)]);
    let status = ask(&mut connection, "shop", ALICE)["statuses"][0].clone();
    assert_eq!(status["currentLimit"]["requestsPerUnit"], json!(5));
    plane.apply("3", &[]);
    let status = ask(&mut connection, "shop", ALICE)["statuses"][0].clone();
    assert_eq!(status["currentLimit"], Value::Null, "an empty set removes all limits");
    println!("RESULT prove/xds/broken violations=0");
}

fn judge(story: &str, refused: &Acknowledgement, words: &[&str]) {
    assert_eq!(refused.version, "1", "{story}: {refused:?}");
    let Acknowledgement { error, .. } = refused;
    assert!(!error.is_empty() && error.len() < 4_096, "{story}: {error}");
    for word in words {
        assert!(error.contains(word), "{story}: {error} does not name {word}");
    }
}

/// A refused set is sent again at once, and again: go-control-plane answers each refusal with the set that it has.
#[test]
#[ignore = "it needs Envoy and go-control-plane, which `cargo xtask prove xds` builds"]
fn prove_a_refused_set_is_not_asked_for_all_the_time() {
    let mut plane = ControlPlane::start(free_address());
    let _server = start(plane.address, free_address(), &[], &[]);
    plane.apply("1", &[good(3)]);
    plane.set("2", &[domain("", &json!([]))]);
    assert_eq!(plane.answer("2").version, "1");
    let before = plane.acknowledgements().len();
    let began = Instant::now();
    until("five seconds have passed", || began.elapsed() >= Duration::from_secs(5));
    let more = plane.acknowledgements().len() - before;
    assert!(more <= 20, "{more} refusals in 5 s");
    // A good set is live soon all the same.
    let began = Instant::now();
    plane.set("3", &[good(4)]);
    assert_eq!(plane.answer("3").version, "3");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    println!("RESULT prove/xds/refusals in_5_s={more} violations=0");
}
