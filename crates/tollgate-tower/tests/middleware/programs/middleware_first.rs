use std::error::Error;
use std::net::SocketAddr;

use axum::{Router, routing::get};
use tollgate::{Limiter, Quota};
use tollgate_tower::{RateLimitLayer, key::PeerAddress};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Two a minute for each address.
    let layer = RateLimitLayer::new(Limiter::new(Quota::per_minute(2)), PeerAddress::new());
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(layer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
