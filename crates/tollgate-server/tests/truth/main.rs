//! Real web servers in front of a live service, and what they log replayed: `tollgate simulate` denies the requests that
//! were denied. `cargo xtask prove simulate` installs the servers and runs this.
//!
//! The truth is what clients saw: a ledger of their own has each request, by their clock, with its answer. `traffic`
//! charges windows of seconds on the real clock. `seasons` moves the clocks of the servers through days on which clocks
//! are turned.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

mod app;
mod client;
mod front;
mod ledger;
#[path = "../gateway/manual.rs"]
mod manual;
#[path = "../gateway/proxy.rs"]
mod proxy;
mod replayed;
mod seasons;
#[path = "../support/mod.rs"]
mod support;
mod texts;
mod traffic;

use std::env;
use std::net::{SocketAddr, TcpListener};
use std::thread;

use front::Kind;

/// A port that is free on both loopback addresses.
fn free_address() -> SocketAddr {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        if TcpListener::bind(("::1", address.port())).is_ok() {
            return address;
        }
    }
}

/// What is wrong, of all servers together. `part` plays only one of both.
fn violations(part: Option<&str>) -> Vec<String> {
    let mut violations = Vec::new();
    if part != Some("seasons") {
        violations.extend(of_all(Kind::ALL, traffic::play));
    }
    if part != Some("traffic") {
        violations.extend(of_all(Kind::ON_ANY_CLOCK, seasons::play));
    }
    violations
}

/// Plays with all these servers at the same time.
fn of_all<const N: usize>(kinds: [Kind; N], play: fn(Kind) -> Vec<String>) -> Vec<String> {
    thread::scope(|scope| {
        let runs = kinds.map(|kind| scope.spawn(move || play(kind)));
        runs.map(|run| run.join().expect("it tells what is wrong")).concat()
    })
}

#[test]
#[ignore = "it needs servers, which `cargo xtask prove simulate` unpacks"]
fn prove() {
    let violations = violations(None);
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
}

/// `cargo xtask prove simulate --planted` builds this with a bug.
#[test]
#[ignore = "it needs a bug, which `cargo xtask prove simulate --planted` plants"]
fn a_planted_bug_is_found() {
    let part = env::var("TOLLGATE_FOUND_BY").expect("`cargo xtask` names the part that finds it");
    let violations = violations(Some(&part));
    let first = violations.first().expect("a planted bug is found");
    println!("FOUND violations={} by={first}", violations.len());
}
