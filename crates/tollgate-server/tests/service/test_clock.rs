//! `serve --test-clock`: tests of applications end windows without waiting.

#![allow(clippy::expect_used, reason = "this is a test")]

use serde_json::json;
use tollgate_testkit::manual::blocks;

use crate::support::folder::Folder;
use crate::support::shell::{self, Curl};
use crate::support::{Server, tollgate};

#[test]
fn a_denied_caller_is_admitted_once_the_clock_has_moved() {
    let server = Server::start(&["--limit", "1/1h@first_hit", "--key", "user", "--test-clock"]);
    let check = || server.get("/v1/check?user=alice");
    assert_eq!((check().status, check().status), (200, 429));
    let reset = check().json()["reset_after_ms"].as_u64().expect("a time");
    assert_eq!(reset, 3_600_000, "the clock stands still");

    let moved = server.admin_post("/v1/clock", &json!({ "advance_ms": reset - 1 }).to_string());
    assert_eq!(moved.status, 200);
    let before = moved.json()["now"].as_i64().expect("a time");
    assert_eq!(check().status, 429);
    let moved = server.admin_post("/v1/clock", r#"{"advance_ms": 1}"#);
    assert_eq!(moved.json()["now"].as_i64(), Some(before + 1));
    assert_eq!(check().status, 200);

    server.admin_post("/v1/clock", r#"{"advance_ms": -1}"#).assert_problem(400, Some("advance_ms"));
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(log.contains("WARN") && log.contains("for tests only"), "{log}");
}

#[test]
fn other_services_have_no_clock_to_move() {
    let server = Server::start(&["--limit", "1/1h"]);
    server.admin_post("/v1/clock", r#"{"advance_ms": 1}"#).assert_problem(404, None);
}

#[test]
fn a_test_clock_is_refused_where_others_could_be_counted() {
    let folder = Folder::new();
    let config = folder.write("stored.yaml", "store: { url: redis://127.0.0.1:1 }\npolicies: []\n");
    for (flags, message) in [
        (&["--limit", "1/1h", "--store", "redis://127.0.0.1:1"][..], "cannot be used with"),
        (&["--config", &config], "`--test-clock` needs counters in memory, but a store is configured"),
        (
            &["--limit", "1/1h", "--listen", "0.0.0.0:0"],
            "`--test-clock` needs addresses that no other host can reach: `--listen 0.0.0.0:0` is not one",
        ),
        (&["--limit", "1/1h", "--grpc", "[::]:0"], "`--grpc [::]:0` is not one"),
    ] {
        let refused = tollgate().args(["serve", "--test-clock"]).args(flags).output().expect("it runs");
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(text.contains(message), "{text}");
    }
}

/// The commands of `docs/test-your-app.md`.
#[test]
fn the_commands_about_tests_of_apps_answer_as_their_page_says() {
    const PAGE: &str = include_str!("../../../../docs/test-your-app.md");
    let commands: Vec<&str> = blocks(PAGE)
        .into_iter()
        .filter(|block| block.language == "sh")
        .map(|block| block.text.trim())
        .collect();
    let [serve, check, advance] = commands[..] else { panic!("other commands: {commands:?}") };
    let arguments = shell::arguments(serve).expect("it starts the service");
    let server = Server::start(&arguments[1..].iter().map(String::as_str).collect::<Vec<_>>());
    let ask = |command| Curl::parse(command).send(&server).status;
    assert_eq!([check, check, check, advance, check].map(ask), [200, 200, 429, 200, 200]);
}
