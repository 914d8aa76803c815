//! `cargo run --package tollgate-tower --features axum,policy --example policies`: the limits of a file.
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

/// As it would stand in a file beside the program.
const LIMITS: &str = "
policies:
  - name: each-address
    key: [ip]
    quotas: [3/1m]
    overrides:
      - { when: { plan: pro }, quotas: [30/1m] }
  - name: everybody
    key: global
    quotas: [1000/1s]
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::parse("limits.yaml", LIMITS)?;
    let limiter = Arc::new(PolicyLimiter::new(MemoryStore::new(), config.into_policies(), "limits.yaml"));
    // Whoever reads the file anew gives its policies to `limiter.replace`; counters go on.
    // Method, path and address, and the plan. (A header is anybody's word: take it from your session.)
    let sources = AttributeSources::new()
        .with_fn("plan", |head| head.headers().get("x-plan")?.to_str().ok().map(Into::into));
    let layer = RateLimitLayer::builder(Rule::policies(&limiter, sources)).build()?;
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(layer);

    let listener = listen::here().await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
