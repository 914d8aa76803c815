//! Limits over xDS, as Envoy Gateway sends them: go-control-plane, the service, and Envoy with generated routes.

mod broken;
mod control_plane;
mod front;
mod load;
mod reading;
mod restarts;
mod rules;
mod shapes;

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::support::{Connection, Server, post, tollgate};

/// Starts the service as a client of this control plane, with gRPC at this address.
fn start(plane: SocketAddr, grpc: SocketAddr, variables: &[(&str, &str)], flags: &[&str]) -> Server {
    let mut command = tollgate();
    let (plane, grpc) = (plane.to_string(), grpc.to_string());
    command
        .env("CONFIG_TYPE", "GRPC_XDS_SOTW")
        .env("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit")
        .env("CONFIG_GRPC_XDS_SERVER_URL", &plane)
        .env("FORCE_START_WITHOUT_INITIAL_CONFIG", "true")
        .env("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "100ms")
        .env("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "500ms")
        .envs(variables.iter().copied());
    Server::start_by(command, &[&["--import", "envoy-ratelimit", "--grpc", &grpc], flags].concat())
}

/// Asks for a decision about descriptors, each with its entries. Returns the answer of the service at `/json`.
fn ask(connection: &mut Connection, domain: &str, descriptors: &[&[(&str, &str)]]) -> Value {
    let descriptor = |entries: &&[(&str, &str)]| {
        let entry = |(key, value): &(&str, &str)| json!({ "key": key, "value": value });
        json!({ "entries": entries.iter().map(entry).collect::<Vec<_>>() })
    };
    let descriptors = descriptors.iter().map(descriptor).collect::<Vec<_>>();
    let body = json!({ "domain": domain, "descriptors": descriptors }).to_string();
    connection.ask(&post("/json", &body)).json()
}
