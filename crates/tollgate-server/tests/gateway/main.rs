//! Real proxies ask the service before they let requests through: Envoy over gRPC, and nginx, Caddy, Traefik and
//! HAProxy at `/forward-auth`. `cargo xtask prove gateway` installs them and runs all of this; `cargo xtask test` does
//! so too.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

#[path = "../support/certificates.rs"]
mod certificates;
mod envoy;
mod manual;
mod proxies;
mod proxy;
mod stream_end;
#[path = "../support/mod.rs"]
mod support;
mod upstream;
mod xds;

use std::net::{SocketAddr, TcpListener};

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}
