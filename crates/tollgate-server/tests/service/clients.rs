//! The clients of `examples/clients`.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::process::Command;

use crate::support::Server;
use crate::support::folder::Folder;

/// Its standard output and standard error, and whether it ended well. The machine may stand still for longer than a
/// caller would wait for an answer.
fn python(server: &Server, user: &str) -> (bool, String, String) {
    run("check", server, user)
}

fn run(client: &str, server: &Server, user: &str) -> (bool, String, String) {
    let clients = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/clients");
    let output = Command::new("python3")
        .args(["-B", "-c", &format!("import {client}; {client}.TIMEOUT = 60; {client}.main()")])
        .args([format!("http://{}", server.public).as_str(), user])
        .env("PYTHONPATH", clients)
        .env("no_proxy", "*")
        .output()
        .expect("python3 is missing: install it, such as with `apt-get install python3`");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn python_waits_for_retry_after_and_is_then_admitted() {
    let server = Server::start(&["--limit", "1/2s@first_hit", "--key", "user"]);
    // A window may be over before python has come.
    let denied = (0..20).find_map(|_| {
        server.get("/v1/check?user=alice");
        let (is_done, said, error) = python(&server, "alice");
        assert!(is_done, "{error}");
        said.starts_with("denied: waiting ").then_some(said)
    });
    let said = denied.expect("a denial");
    let lines: Vec<&str> = said.lines().collect();
    // It asked once more, and was in time.
    assert!(matches!(lines[..], [_, "allowed: 0 left"]), "{said}");
}

#[test]
fn python_distinguishes_decisions_final_denials_and_problems() {
    let nobody = Server::start(&["--limit", "0/1s", "--key", "user"]);
    let (is_done, said, error) = python(&nobody, "alice");
    assert_eq!((is_done, said.as_str()), (false, ""));
    assert_eq!(error, "denied for good: the limit is 0: everything is denied\n");
    let (is_done, said, error) = python(&nobody, "");
    assert_eq!((is_done, said.as_str()), (false, ""));
    assert!(error.contains("`user` is empty"), "{error}");
}

#[test]
fn python_reserves_and_settles() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tokens.yaml");
    let server = Server::start(&["--config", file]);
    // The windows of a second and a minute may end in between.
    let settled = (0..5).find_map(|_| {
        let (is_done, said, error) = run("reserve", &server, "alice");
        assert!(is_done, "{error}");
        (said.matches("settled: 600 given back of ").count() == 2).then_some(said)
    });
    assert!(settled.is_some(), "600 of 1,000 tokens are given back to both quotas");

    let folder = Folder::new();
    let file = folder.write("p.yaml", "policies: [{ name: one, key: [user], quotas: [1~in_flight] }]");
    let server = Server::start(&["--config", &file]);
    assert_eq!(server.post("/v1/reserve", r#"{"attributes": {"user": "alice"}}"#).status, 200);
    let (is_done, said, error) = run("reserve", &server, "alice");
    let denied = "denied (in_flight_exceeded): ask again in 1000 ms\n";
    assert_eq!((is_done, said.as_str(), error.as_str()), (false, "", denied));
}
