//! `cargo run --package tollgate-tower --features axum,policy --example policies`: the limits of the file
//! `limits.yaml` next to this program.
//!
//! Then, some times: `curl -i http://127.0.0.1:3000/`, and with `-H 'x-plan: pro'`

mod listen;

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tollgate::MemoryStore;
use tollgate_policy::{Config, PolicyLimiter};
use tollgate_tower::{AttributeSources, RateLimitLayer, Rule};

/// The file of policies, next to this program.
const LIMITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/limits.yaml");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let policies = Config::load(LIMITS)?.into_policies();
    let limiter = Arc::new(PolicyLimiter::new(MemoryStore::new(), policies, LIMITS));
    // The file is not watched. To change limits while the program runs, load it again and pass its policies to
    // `limiter.replace`; counters are kept.
    // Method, path and address, and the plan. (A header is anybody's word: take it from your session.)
    let sources = AttributeSources::new()
        .with_fn("plan", |head| head.headers().get("x-plan")?.to_str().ok().map(Into::into));
    let layer = RateLimitLayer::builder(Rule::policies(&limiter, sources)).build()?;
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(layer);

    let listener = listen::here().await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
