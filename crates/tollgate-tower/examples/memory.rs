//! `cargo run --package tollgate-tower --features axum --example memory`: five a minute for each address.
//!
//! Then, six times: `curl -i http://127.0.0.1:3000/`

mod listen;

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::Extension;
use axum::routing::get;
use tollgate::{Limiter, Quota, QuotaStates};
use tollgate_tower::RateLimitLayer;
use tollgate_tower::key::PeerAddress;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let layer = RateLimitLayer::new(Limiter::new(Quota::per_minute(5)), PeerAddress::new());
    let app = Router::new().route("/", get(hello)).layer(layer);

    let listener = listen::here().await?;
    // The addresses of clients are there only if they are asked for.
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// Never called for a request that is denied.
async fn hello(Extension(counted): Extension<QuotaStates>) -> String {
    // Of the only quota.
    format!("{} left\n", counted[0].remaining())
}
