//! Policies from a file: the answers to callers and administrators, and reloads of the file.
//!
//! Windows are days that start at the first hit, so that none ends during a test.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

mod answers;
mod changed_files;
mod reloads;
mod shared_stores;

use serde_json::Value;

use crate::support::Server;

fn serve(file: &str, more: &[&str]) -> Server {
    Server::start(&[&["--config", file], more].concat())
}

/// A file with one policy for everybody, with this limit.
fn limit(limit: u64) -> String {
    format!("policies: [{{ name: all, key: global, quotas: [{limit}/1d@first_hit] }}]\n")
}

fn live_version(server: &Server) -> u64 {
    server.admin_get("/v1/policies").json()["version"].as_u64().expect("a version")
}

fn live_limit(server: &Server) -> Value {
    server.get("/v1/check?cost=0").json()["limit"].clone()
}
