//! The peer of `redis/http`: limitador over its Redis storage, behind a bare hyper server.
//!
//! It serves one request of limitador's own server: `POST /check_and_report` with namespace, values and delta. Like our
//! service, it answers 200 or 429, with headers for the remaining units and the end of the window. It has no other
//! routes, no metrics and no framework, which makes it faster.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use limitador_redis::counter::Counter;
use limitador_redis::limit::{Limit, Namespace};
use limitador_redis::storage::redis::AsyncRedisStorage;
use limitador_redis::{AsyncRateLimiter, CheckResult};
use serde::Deserialize;
use tokio::net::TcpListener;

/// Never reached.
const UNITS: i64 = 1_000_000_000;
const SECONDS: u64 = 3_600;
const NO_CONDITIONS: [&str; 0] = [];

#[derive(Deserialize)]
struct Check {
    namespace: String,
    values: HashMap<String, String>,
    delta: i64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().context("usage: limitador ADDRESS STORE");
    let (address, store): (SocketAddr, String) = (next()?.parse()?, next()?);
    let limiter = AsyncRateLimiter::new_with_storage(Box::new(AsyncRedisStorage::new(&store).await?));
    limiter.add_limit(Limit::new("bench", UNITS, SECONDS, NO_CONDITIONS, ["user"]));
    let limiter = Arc::new(limiter);
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let limiter = limiter.clone();
        let service = service_fn(move |request| answer(limiter.clone(), request));
        // An error is a client that has gone.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(
    limiter: Arc<AsyncRateLimiter>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = match check(&limiter, request, response.headers_mut()).await {
        Ok(true) => StatusCode::OK,
        Ok(false) => StatusCode::TOO_MANY_REQUESTS,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Ok(response)
}

/// Returns whether the request may pass.
async fn check(
    limiter: &AsyncRateLimiter,
    request: Request<Incoming>,
    headers: &mut HeaderMap,
) -> Result<bool> {
    let body = request.into_body().collect().await?.to_bytes();
    let Check { namespace, values, delta } = serde_json::from_slice(&body)?;
    let namespace = Namespace::from(namespace);
    // Loads the remaining units and the end of the window: one more script, and the least that our answer contains.
    let CheckResult { limited, counters, .. } =
        limiter.check_rate_limited_and_update(&namespace, &values, delta, true).await?;
    if let Some(counter) = counters.first() {
        tell(counter, headers)?;
    }
    Ok(!limited)
}

/// Writes the three headers of limitador's own server.
fn tell(counter: &Counter, headers: &mut HeaderMap) -> Result<()> {
    headers.insert("x-ratelimit-limit", counter.max_value().to_string().try_into()?);
    headers.insert(
        "x-ratelimit-remaining",
        counter.remaining().unwrap_or_default().max(0).to_string().try_into()?,
    );
    let seconds = counter.expires_in().unwrap_or_default().as_secs();
    headers.insert("x-ratelimit-reset", seconds.to_string().try_into()?);
    Ok(())
}
