//! Limits over xDS: what is accepted and rejected, and what happens without the server.
//!
//! All of these start services and management servers of their own, so they can run side by side in one process.

#[path = "../support/ads.rs"]
mod ads;
#[path = "../support/certificates.rs"]
mod certificates;
mod settings;
#[path = "../support/mod.rs"]
mod support;
mod trouble;
mod updates;

use std::process::Command;

use serde_json::json;

use crate::ads::Ads;
use crate::support::{Server, tollgate};

/// Starts a service whose limits come from this server, with short waits.
fn start(ads: &Ads, arguments: &[&str]) -> Server {
    start_with(&[], ads, arguments)
}

/// As `start`, with these variables.
fn start_with(variables: &[(&str, &str)], ads: &Ads, arguments: &[&str]) -> Server {
    let url = format!("http://{}", ads.address);
    let import = ["--import", "envoy-ratelimit", "--xds", &url];
    Server::start_by(command(variables), &[&import, arguments].concat())
}

fn command(variables: &[(&str, &str)]) -> Command {
    let mut command = tollgate();
    command
        .env("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "50ms")
        .env("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "200ms");
    command.envs(variables.iter().copied());
    command
}

/// Returns the status of a request of this user in this domain.
fn ask(server: &Server, domain: &str, user: &str) -> u16 {
    let descriptors = json!([{ "entries": [{ "key": "user", "value": user }] }]);
    let body = json!({ "domain": domain, "descriptors": descriptors });
    server.post("/json", &body.to_string()).status
}
