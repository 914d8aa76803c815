//! Published systems: the service is started with their own files or variables, answers their callers, and shares the
//! counters in the store with the system itself.
//!
//! The clocks of most servers stand still at times from the systems' documents, so that no window ends during a test.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

mod envoy_process;
mod envoy_ratelimit;
mod envoy_reading;
mod layout;
mod leetdezine;
mod rlaas;
mod spring_starter;
mod suggested;
mod valkey_server;

use std::path::PathBuf;

use tollgate::Timestamp;
use tollgate_testkit::servers::{self, Software};

use crate::support::{Reply, Server, tollgate};

/// Generous timeouts, so that a busy machine changes no count.
const PATIENT: [&str; 4] = ["--store-timeout", "30s", "--store-connect-timeout", "30s"];

/// Starts a server whose clock stands still at this second of the epoch.
fn still(software: Software, second: i64) -> servers::Server {
    let server = servers::Settings::new(software).steered_clock().start();
    server.clock().set(Timestamp::from_unix_millis(second * 1_000));
    server
}

fn url(store: &servers::Server) -> String {
    format!("redis://{}", store.address())
}

/// Returns the path of a file in `examples/seeds`.
fn example(name: &str) -> String {
    format!("{}/../../examples/seeds/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Writes a file under a name of the test, and returns its path.
fn written(name: &str, text: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("seeds-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file can be written");
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// Starts a service with generous timeouts in this environment.
fn serve(variables: &[(&str, &str)], arguments: &[&str]) -> Server {
    let mut command = tollgate();
    command.envs(variables.iter().copied());
    Server::start_by(command, &[arguments, &PATIENT].concat())
}

/// Returns the error of a start that fails with status 2.
#[track_caller]
fn refused(variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let mut command = tollgate();
    command.envs(variables.iter().copied());
    // An address that no host here has, so that a start that should be refused ends in any case.
    command.env("TOLLGATE_LISTEN", "192.0.2.1:1");
    let output = command.arg("serve").args(arguments).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

fn text(reply: &Reply) -> &str {
    std::str::from_utf8(&reply.body).expect("text")
}

fn keys(store: &servers::Server) -> Vec<String> {
    let mut keys: Vec<String> = store.command(["KEYS", "*"]);
    keys.sort_unstable();
    keys
}

/// Ends the service, and returns its log.
fn log(server: Server) -> String {
    server.signal("TERM");
    server.wait().1
}
