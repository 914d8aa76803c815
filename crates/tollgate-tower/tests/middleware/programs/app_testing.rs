use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::connect_info::MockConnectInfo;
use axum::http::{Request, Response, StatusCode};
use axum::{Router, routing::get};
use tollgate::testing::limiter;
use tollgate::{Quota, SharedLimiter, Store};
use tollgate_tower::{RateLimitLayer, key::PeerAddress};
use tower::ServiceExt;

/// The app, as `main` builds it. Only the limiter is passed in.
fn app<S: Store + 'static>(limiter: impl Into<SharedLimiter<S>>) -> Router {
    let layer = RateLimitLayer::new(limiter, PeerAddress::new());
    Router::new().route("/", get(|| async { "hello\n" })).layer(layer)
}

/// Sends a request as if it came from this address.
async fn ask(app: &Router, client: [u8; 4]) -> Result<Response<Body>, Box<dyn Error>> {
    let app = app.clone().layer(MockConnectInfo(SocketAddr::from((client, 49152))));
    Ok(app.oneshot(Request::get("/").body(Body::empty())?).await?)
}

#[tokio::test]
async fn the_third_request_of_a_minute_waits() -> Result<(), Box<dyn Error>> {
    let (limiter, clock) = limiter(Quota::per_minute(2));
    let app = app(limiter);
    let (alice, bob) = ([192, 0, 2, 1], [192, 0, 2, 2]);

    assert_eq!(ask(&app, alice).await?.status(), StatusCode::OK);
    assert_eq!(ask(&app, alice).await?.status(), StatusCode::OK);
    let denied = ask(&app, alice).await?;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(denied.headers()["retry-after"], "60");
    assert_eq!(ask(&app, bob).await?.status(), StatusCode::OK);

    clock.advance(Duration::from_secs(60));
    assert_eq!(ask(&app, alice).await?.status(), StatusCode::OK);
    Ok(())
}
