//! `cargo run --package tollgate-tower --features axum --example redis`: processes that count together.
//!
//! Needs a Redis or Valkey server at 127.0.0.1:6379. Start it once more with `PORT=3001`; then, in turns:
//! `curl -i http://127.0.0.1:3000/` and `curl -i http://127.0.0.1:3001/`

mod listen;

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tollgate::{FallbackStore, LocalShare, OnStoreFailure, Quota, SharedLimiter};
use tollgate_redis::RedisStore;
use tollgate_tower::RateLimitLayer;
use tollgate_tower::key::PeerAddress;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = listen::here().await?;
    let port = listener.local_addr()?.port();

    let store = RedisStore::builder("redis://127.0.0.1".parse()?).build()?;
    // While the server is down, each of the two processes counts against half of the limit.
    let store = FallbackStore::new(store, OnStoreFailure::Local(LocalShare::new(1, 2)?));
    let limiter = SharedLimiter::new(Quota::per_minute(5), store);

    let layer = RateLimitLayer::new(limiter, PeerAddress::new());
    let app = Router::new().route("/", get(move || async move { format!("port {port}\n") })).layer(layer);

    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
