//! `cargo run --package tollgate-tower --features axum --example api_key`: a limit for each API key, and one for guessing.
//!
//! ```sh
//! # Three a minute for each key that is known, however many addresses use it.
//! for i in 1 2 3 4; do curl -i -H 'X-Api-Key: apple' localhost:3000; done
//! curl -i -H 'X-Api-Key: banana' localhost:3000
//! # Keys can be invented. Whoever has guessed five times has to wait, whatever key it is then.
//! for i in 1 2 3 4 5 6; do curl -i -H "X-Api-Key: $i" localhost:3000; done
//! ```

mod listen;

use std::error::Error;
use std::net::SocketAddr;

use axum::extract::Request;
use axum::http::{HeaderName, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use tollgate::{Limiter, Quota};
use tollgate_tower::headers::HeaderFormat;
use tollgate_tower::key::{Header, PeerAddress};
use tollgate_tower::{RateLimitLayer, Rule};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Only requests with a wrong key count: what others took is given back.
    let guesses = Rule::new(Limiter::new(Quota::per_minute(5)))
        .key(PeerAddress::new())
        .refund_if(|response| response.status != StatusCode::UNAUTHORIZED);
    // The key is counted by its hash, so that it gets neither into the store nor into a log.
    let requests = Rule::new(Limiter::new(Quota::per_minute(3))).key(Header::new(API_KEY));

    // The layer that is added last is the outermost: guesses, then whether the key is known, then its limit.
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(RateLimitLayer::builder(requests).build()?)
        .layer(from_fn(known))
        // Headers tell of the limit of the key, which the outermost layer would write over.
        .layer(RateLimitLayer::builder(guesses).header_format(HeaderFormat::None).build()?);
    let listener = listen::here().await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// Lets those pass who have a key that is known.
async fn known(request: Request, next: Next) -> Response {
    match request.headers().get(API_KEY).map(|key| key.as_bytes()) {
        Some(b"apple" | b"banana") => next.run(request).await,
        _ => StatusCode::UNAUTHORIZED.into_response(),
    }
}
