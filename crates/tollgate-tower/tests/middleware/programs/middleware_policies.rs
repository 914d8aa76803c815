use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::{Router, routing::get};
use tollgate::MemoryStore;
use tollgate_policy::{Config, PolicyLimiter};
use tollgate_tower::{AttributeSources, RateLimitLayer, Rule};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::load("limits.yaml")?;
    let limiter = Arc::new(PolicyLimiter::new(MemoryStore::new(), config.into_policies(), "limits.yaml"));
    let sources = AttributeSources::new();
    let layer = RateLimitLayer::builder(Rule::policies(&limiter, sources)).build()?;
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(layer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
