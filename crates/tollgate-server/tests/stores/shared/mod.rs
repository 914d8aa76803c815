//! The service on a real shared store: exact counts across processes, and the answers of each policy in an outage.
//!
//! Tests of exact counts use a generous deadline and the policy `closed`, so that a slow machine cannot change the
//! result.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

mod counts;
mod holds;
mod outages;
mod overrides;
mod own_counts;
mod settings;

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_testkit::servers::{self, Software};

use crate::support::{HANG, Reply, Server};

const PATIENT: &str = "30s";

const ALICE: &str = r#"{"attributes": {"user": "alice"}}"#;

fn redis() -> servers::Server {
    servers::Server::start(Software::Redis)
}

fn url(store: &servers::Server) -> String {
    format!("redis://{}", store.address())
}

/// Starts a service on this store with a generous deadline and the policy `closed`.
fn serve(store: &servers::Server, limit: &str, more: &[&str]) -> Server {
    let url = url(store);
    let exact = ["--limit", limit, "--store", &url, "--on-store-failure", "closed"];
    let patient = ["--store-timeout", PATIENT, "--store-connect-timeout", PATIENT];
    Server::start(&[&exact[..], &patient, more].concat())
}

fn source(reply: &Reply) -> Value {
    reply.json()["source"].clone()
}

/// Repeats a check until the answer is as expected. `cargo xtask prove redis` measures how soon a store is used again.
#[track_caller]
fn until(what: &str, server: &Server, path: &str, is_so: impl Fn(&Reply) -> bool) {
    let began = Instant::now();
    loop {
        let reply = server.get(path);
        if is_so(&reply) {
            return;
        }
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(began.elapsed() < HANG, "not {what} within {HANG:?}: {} {body}", reply.status);
        thread::sleep(Duration::from_millis(10));
    }
}

fn is_from_store(reply: &Reply) -> bool {
    matches!(reply.status, 200 | 429) && source(reply) == "store"
}
