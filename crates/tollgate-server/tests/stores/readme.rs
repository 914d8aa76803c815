//! The commands of the README that need a shared store, with a real server.

#![allow(clippy::expect_used, reason = "this is a test")]

use tollgate_testkit::manual::{blocks, inline_code};
use tollgate_testkit::servers::{self, Software};

use crate::support::shell;
use crate::support::{Server, tollgate};

const README: &str = include_str!("../../../../README.md");

/// Returns the arguments of the commands that are given a store, with the address of this one, and any free ports.
fn arguments(url: &str) -> Vec<Vec<String>> {
    let blocks = blocks(README).into_iter().filter(|block| block.language == "sh");
    let commands = blocks.filter_map(|block| shell::arguments(block.text.trim()));
    let with_store = commands.filter(|arguments| arguments.iter().any(|argument| argument == "--store"));
    let replaced = |argument: &String| match argument.starts_with("127.0.0.1:") {
        true => "127.0.0.1:0".to_owned(),
        false => argument.replace("redis://127.0.0.1", url),
    };
    with_store.map(|arguments| arguments.iter().map(replaced).collect()).collect()
}

fn start(arguments: &[String], more: &[&str]) -> Server {
    // A busy machine must not look like an outage.
    let patient = ["--store-timeout", "30s", "--store-connect-timeout", "30s"];
    let arguments: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    Server::start(&[&arguments, &patient[..], more].concat())
}

#[test]
fn the_readmes_services_share_one_count_and_its_doctor_finds_no_fault() {
    let store = servers::Server::start(Software::Redis);
    let url = format!("redis://{}", store.address());
    let commands = arguments(&url);
    let [serve, doctor] = &commands[..] else { panic!("a service and a doctor: {commands:?}") };
    assert_eq!([&serve[0], &doctor[0]], ["serve", "doctor"]);

    // The flags of a second process replace those of the first.
    let flags = inline_code(README).into_iter().filter(|code| code.starts_with("--listen "));
    let [flags] = flags.collect::<Vec<_>>()[..] else { panic!("the flags of one more process") };
    let flags = shell::words(flags);
    let (names, addresses): (Vec<_>, Vec<_>) = flags.chunks(2).map(|pair| (&pair[0], &pair[1])).unzip();
    assert!(names.iter().all(|name| serve.contains(name)), "the first process has not all of {flags:?}");
    assert!(addresses.iter().all(|address| README.matches(address.as_str()).count() == 1), "{addresses:?}");

    let services = [start(serve, &[]), start(serve, &[])];
    let used = [0, 1, 0].map(|place| services[place].get("/v1/check?user=alice").json()["used"].clone());
    assert_eq!(used, [1, 2, 3]);

    let patient = ["--store-timeout", "5s", "--store-connect-timeout", "5s"];
    let output = tollgate().args(doctor).args(patient).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.ends_with(", 0 failed\n"), "{said}");
}
