//! `cargo run --package tollgate-tower --features axum --example routes`: limits by route, in one layer.
//!
//! Then, four times: `curl -i -X POST 'http://127.0.0.1:3000/login?password=wrong'`, and with `password=right`

mod listen;

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::{Path, RawQuery};
use axum::routing::{get, post};
use http::StatusCode;
use tollgate::{Limiter, MemoryStore, Quota};
use tollgate_tower::key::{Global, PeerAddress};
use tollgate_tower::{RateLimitLayer, Rule};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // One store for all; the names keep the counters apart.
    let store = MemoryStore::new();
    let named = |name, quota| Limiter::builder(name).quota(quota).build(store.clone());

    let others = Rule::new(named("others", Quota::per_minute(100))?).key(PeerAddress::new());
    // Only failed logins count. The key is that of the others.
    let login =
        Rule::new(named("login", Quota::per_minute(3))?).refund_if(|response| response.status.is_success());
    // A report takes ten units of a hundred that everybody shares.
    let reports = Rule::new(named("reports", Quota::per_minute(100))?).key(Global).cost(10);

    let layer = RateLimitLayer::builder(others)
        .route("POST /login", login)
        .route("/reports/{id}", reports)
        .route("/health", Rule::unlimited())
        .build()?;

    let app = Router::new()
        .route("/login", post(log_in))
        .route("/reports/{id}", get(|Path(id): Path<u32>| async move { format!("report {id}\n") }))
        .route("/health", get(|| async { "ok\n" }))
        // Inside the router, where the matched route is known.
        .layer(layer);

    let listener = listen::here().await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

async fn log_in(RawQuery(query): RawQuery) -> StatusCode {
    match query.as_deref() {
        Some("password=right") => StatusCode::NO_CONTENT,
        _ => StatusCode::FORBIDDEN,
    }
}
