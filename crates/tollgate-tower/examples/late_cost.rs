//! `cargo run --package tollgate-tower --features axum --example late_cost`: a cost that is known after the response.
//!
//! Then, some times: `curl -i -d 'tell me a story' http://127.0.0.1:3000/`

mod listen;

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::Extension;
use axum::routing::post;
use http::StatusCode;
use tollgate::{Limiter, Quota};
use tollgate_tower::key::PeerAddress;
use tollgate_tower::{RateLimitLayer, Reservation, Rule};

/// The longest answer that may be given.
const MOST_WORDS: u32 = 400;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A thousand words a minute. A request is let in if the longest answer would fit.
    let rule = Rule::new(Limiter::new(Quota::per_minute(1_000))).key(PeerAddress::new());
    let layer = RateLimitLayer::builder(rule.cost(MOST_WORDS).reserve()).build()?;
    let app = Router::new().route("/", post(answer)).layer(layer);

    let listener = listen::here().await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// If it failed before the end, the reservation would be dropped, and with it everything given back.
async fn answer(
    Extension(reservation): Extension<Reservation>,
    question: String,
) -> Result<String, (StatusCode, &'static str)> {
    let answer = format!("You said: {question}\n").repeat(3);
    let words = u32::try_from(answer.split_whitespace().count()).unwrap_or(MOST_WORDS);
    // What the answer did not take goes back to the window that was charged.
    // The error's text names the address of a shared store, so it is not for clients.
    let trouble = |_| (StatusCode::SERVICE_UNAVAILABLE, "the answer could not be counted");
    reservation.commit(words).await.map_err(trouble)?;
    Ok(answer)
}
