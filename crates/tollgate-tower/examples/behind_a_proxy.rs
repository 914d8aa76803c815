//! `cargo run --package tollgate-tower --features axum --example behind_a_proxy`: each client behind a proxy, not the proxy.
//!
//! ```sh
//! # You act as the proxy of the client 192.0.2.7: three a minute.
//! for i in 1 2 3 4; do curl -i -H 'X-Forwarded-For: 192.0.2.7' localhost:3000; done
//! # What the client puts before that is not looked at: still 429.
//! curl -i -H 'X-Forwarded-For: 198.51.100.1, 192.0.2.7' localhost:3000
//! # Another client has a limit of its own.
//! curl -i -H 'X-Forwarded-For: 192.0.2.8' localhost:3000
//! ```

mod listen;

use std::error::Error;
use std::net::SocketAddr;

use axum::{Router, routing::get};
use tollgate::{Limiter, Quota};
use tollgate_tower::RateLimitLayer;
use tollgate_tower::key::{ClientAddress, ForwardedHeader, TrustedProxies};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The addresses of your proxies, and nothing else: whoever has one of them is believed.
    let proxies = TrustedProxies::parse(["127.0.0.1", "::1"])?;
    // The header that your proxies append to. They have to append to it, or replace it, always.
    let client = ClientAddress::behind(proxies, ForwardedHeader::XForwardedFor);
    let layer = RateLimitLayer::new(Limiter::new(Quota::per_minute(3)), client);

    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(layer);
    let listener = listen::here().await?;
    // Without the address of the connection nobody would know whether it is a proxy.
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
