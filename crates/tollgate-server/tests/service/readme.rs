//! Commands of the README that no other test plays.

#![allow(clippy::expect_used, reason = "this is a test")]

use crate::support::Server;

const README: &str = include_str!("../../../../README.md");

/// The section on proxies started a service that no request of the page asked.
#[test]
fn the_request_of_the_section_on_proxies_is_allowed_once_and_then_denied() {
    let (_, section) = README.split_once("\n### Behind a proxy\n").expect("the section");
    let (section, _) = section.split_once("\n### ").expect("a section after it");
    let mut blocks = section.split("```sh\n").skip(1).filter_map(|block| Some(block.split_once("```")?.0));
    let started = blocks.next().expect("a command that starts the service");
    let flags = started.trim().strip_prefix("tollgate serve ").expect("it starts the service");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let flags: Vec<String> = flags
        .split(' ')
        .map(|word| word.replace("examples/", &format!("{root}examples/")).replace(":8081", ":0"))
        .collect();
    let server = Server::start(&flags.iter().map(String::as_str).collect::<Vec<_>>());

    let asked = blocks.next().expect("a command that asks it");
    assert!(asked.contains("curl -i http://127.0.0.1:8080/json "), "{asked}");
    let body = asked.split('\'').nth(1).expect("a body in quotes");
    assert_eq!([(); 2].map(|()| server.post("/json", body).status), [200, 429]);
}
