//! Requests in flight: until the body has ended, whatever ends it.

use std::convert::Infallible;
use std::future;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, WebSocketUpgrade};
use axum::routing::get as on_get;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Frame;
use tokio::sync::{Notify, mpsc};
use tokio_tungstenite::tungstenite::Error;
use tollgate::{InFlight, InFlightLimiter, Key, MemoryStore};
use tollgate_tower::key::{self, Global, Identity, InvalidIdentity, MissingIdentity};
use tollgate_tower::{Head, InFlightLayer, OnMissing, RequestHold};

use crate::support::{Answer, connect, get, send, serve, until};

/// A limit, and what shows how many are live under it.
fn at_most(limit: u32) -> (InFlight, MemoryStore, InFlightLimiter) {
    let (in_flight, store) = (InFlight::new(limit).unwrap(), MemoryStore::new());
    let limiter = InFlightLimiter::with_store(in_flight, store.clone());
    (in_flight, store, limiter)
}

fn live(limiter: &InFlightLimiter) -> u32 {
    limiter.peek(Key::parts(std::iter::empty::<Key<'_>>())).live()
}

#[tokio::test]
async fn a_request_is_in_flight_until_its_body_has_ended() {
    let (in_flight, store, limiter) = at_most(1);
    let (chunks, stream) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
    let stream = Arc::new(tokio::sync::Mutex::new(Some(stream)));
    let handler = move || async move {
        let stream = stream.lock().await.take();
        match stream {
            Some(stream) => Body::new(Chunks(stream)),
            None => Body::from("short"),
        }
    };
    let layer = InFlightLayer::with_store(in_flight, store, Global);
    let address = serve(Router::new().route("/", on_get(handler)).layer(layer)).await;

    let request = || Request::get("/").header("host", "localhost").body(Full::<Bytes>::default()).unwrap();
    let mut client = connect(address).await;
    let mut streamed = client.send_request(request()).await.unwrap();
    chunks.send(Ok(Frame::data("one".into()))).await.unwrap();
    assert_eq!(streamed.frame().await.unwrap().unwrap().into_data().unwrap(), "one");

    let denied = get(address, "/").await;
    assert_eq!(denied.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(denied.header("retry-after"), Some("1"));
    assert_eq!(denied.header("cache-control"), Some("no-store"));
    let body = serde_json::json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota exceeded",
        "status": 429,
        "detail": "1 of 1 units are in flight; one may be free at any time",
        "violated-policies": ["default"],
        "reason": "in_flight_exceeded",
        "policy": "default",
        "limit": 1,
        "held": 1,
    });
    assert_eq!(denied.json(), body);

    drop(chunks);
    assert!(streamed.frame().await.is_none());
    until(|| live(&limiter) == 0).await;
    assert_eq!(&get(address, "/").await.body[..], b"short");
    until(|| live(&limiter) == 0).await;
}

/// A body of what a channel gives.
pub(super) struct Chunks(pub(super) mpsc::Receiver<Result<Frame<Bytes>, Infallible>>);

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context)
    }
}

fn fails() -> &'static str {
    panic!("the handler fails")
}

/// A client that leaves before the response or in its middle, and a handler that panics.
#[tokio::test]
async fn every_way_out_frees_the_unit() {
    let (in_flight, store, limiter) = at_most(1);
    let begun = Arc::new(Notify::new());
    let notify = Arc::clone(&begun);
    let waiting = move || async move {
        notify.notify_one();
        future::pending::<()>().await;
    };
    let endless = || async {
        let frames = (0..3).map(|_| Ok(Frame::data(Bytes::from_static(b"chunk"))));
        let (sender, stream) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(4);
        for frame in frames {
            sender.try_send(frame).unwrap();
        }
        // The stream never ends by itself.
        std::mem::forget(sender);
        Body::new(Chunks(stream))
    };
    let panicking = || async { fails() };
    let app = Router::new()
        .route("/waiting", on_get(waiting))
        .route("/endless", on_get(endless))
        .route("/panicking", on_get(panicking))
        .route("/", on_get(|| async { "here you are" }))
        .layer(InFlightLayer::with_store(in_flight, store, Global));
    let address = serve(app).await;
    let request =
        |path| Request::get(path).header("host", "localhost").body(Full::<Bytes>::default()).unwrap();

    let mut client = connect(address).await;
    let response = tokio::spawn(async move { client.send_request(request("/waiting")).await });
    begun.notified().await;
    assert_eq!(live(&limiter), 1);
    response.abort();
    until(|| live(&limiter) == 0).await;

    let mut client = connect(address).await;
    let mut response = client.send_request(request("/endless")).await.unwrap();
    assert!(response.frame().await.is_some());
    assert_eq!(live(&limiter), 1);
    drop((client, response));
    until(|| live(&limiter) == 0).await;

    assert!(connect(address).await.send_request(request("/panicking")).await.is_err());
    until(|| live(&limiter) == 0).await;
    assert_eq!(get(address, "/").await.status, StatusCode::OK);
}

/// The body of an upgrade ends at once; the handler keeps the hold as long as the connection lives.
#[tokio::test]
async fn a_websocket_is_in_flight_while_its_handler_keeps_the_hold() {
    let (in_flight, store, limiter) = at_most(1);
    let handler = |Extension(hold): Extension<RequestHold>, upgrade: WebSocketUpgrade| async move {
        upgrade.on_upgrade(|mut socket| async move {
            let _hold = hold;
            while let Some(Ok(_)) = socket.recv().await {}
        })
    };
    let layer = InFlightLayer::with_store(in_flight, store, Global);
    // The hold of the inner layer keeps that of the outer one.
    let inner = InFlightLayer::new(in_flight, Global);
    let address = serve(Router::new().route("/", on_get(handler)).layer(inner).layer(layer)).await;
    let (socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}/")).await.unwrap();
    let Err(Error::Http(denied)) = tokio_tungstenite::connect_async(format!("ws://{address}/")).await else {
        panic!("the second one is upgraded")
    };
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(live(&limiter), 1);
    drop(socket);
    until(|| live(&limiter) == 0).await;
}

fn user<'r>(head: Head<'r>) -> Option<Key<'r>> {
    head.headers().get("x-user")?.to_str().ok().map(Key::from)
}

#[tokio::test]
async fn keys_count_apart_and_a_missing_or_invalid_one_is_refused() {
    let (in_flight, store, limiter) = at_most(1);
    let app =
        |layer: InFlightLayer| Router::new().route("/", on_get(|| async { "here you are" })).layer(layer);
    let layer = InFlightLayer::with_store(in_flight, store.clone(), key::from_fn("header `x-user`", user));
    let skipping = layer.clone().on_missing(OnMissing::Skip);
    let _alice = limiter.hold("alice").unwrap().into_hold().unwrap();
    let asked = async |address, user: &[(&str, &str)]| -> Answer { send(address, "GET /", user).await };

    let address = serve(app(layer)).await;
    assert_eq!(asked(address, &[("x-user", "alice")]).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(asked(address, &[("x-user", "bob")]).await.status, StatusCode::OK);
    assert_eq!(asked(address, &[]).await.status, StatusCode::BAD_REQUEST);
    let address = serve(app(skipping)).await;
    assert_eq!(asked(address, &[]).await.status, StatusCode::OK);
    assert_eq!(asked(address, &[("x-user", "alice")]).await.status, StatusCode::TOO_MANY_REQUESTS);

    // An extractor that waits.
    let later = key::from_async_fn(|head| {
        let user = head.headers().get("x-user").cloned();
        async move {
            tokio::task::yield_now().await;
            match user.as_ref().and_then(|user| user.to_str().ok()) {
                Some("eve") => Err(InvalidIdentity::malformed("eve is nobody")),
                Some(user) => Ok(Identity::Known(Key::from(user).into_owned())),
                None => Ok(MissingIdentity::by_caller("a user").into()),
            }
        }
    });
    let address = serve(app(InFlightLayer::with_store(in_flight, store, later))).await;
    assert_eq!(asked(address, &[("x-user", "alice")]).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(asked(address, &[("x-user", "bob")]).await.status, StatusCode::OK);
    assert_eq!(asked(address, &[("x-user", "eve")]).await.status, StatusCode::BAD_REQUEST);
    until(|| limiter.peek("bob").live() == 0).await;
}
