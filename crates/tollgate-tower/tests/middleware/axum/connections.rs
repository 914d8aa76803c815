//! Connections that end early, carry streams, or turn into something else.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, WebSocketUpgrade};
use axum::routing::{get as on_get, post as on_post};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Frame;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio_tungstenite::tungstenite::{Error, Message};
use tollgate::{Key, Limiter, MemoryStore};
use tollgate_policy::{Config, PolicyLimiter};
use tollgate_testkit::{FaultyStore, StoreFault};
use tollgate_tower::key::Global;
use tollgate_tower::{RateLimitLayer, Reservation, Rule};
use tower_layer::Layer;
use tower_service::Service;

use crate::support::{Runs, a_day, get, limiter, serve, until};

fn all() -> Key<'static> {
    Key::parts(std::iter::empty::<Key<'_>>())
}

/// Sends a request; leaves when the connection is dropped.
async fn ask(address: std::net::SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    stream
}

/// Sends a request and leaves once its handler has begun.
async fn go_away(address: std::net::SocketAddr, has_begun: &Notify) {
    let _stream = ask(address).await;
    has_begun.notified().await;
}

#[tokio::test]
async fn a_client_that_leaves_is_counted_unless_it_has_a_reservation() {
    for (reserves, expected) in [(false, 1), (true, 0)] {
        let limiter = limiter("search", "10/1m");
        let rule = Rule::new(limiter.clone()).key(Global);
        let rule = if reserves { rule.reserve() } else { rule.refund_if(|_| true) };
        let (begin, ended) = (Arc::new(Notify::new()), Runs::default());
        let (has_begun, end) = (Arc::clone(&begin), ended.clone());
        let handler = move |reservation: Option<Extension<Reservation>>| async move {
            let _ended = OnDrop(end);
            has_begun.notify_one();
            std::future::pending::<()>().await;
            drop(reservation);
        };
        let layer = RateLimitLayer::builder(rule).build().unwrap();
        let address = serve(Router::new().route("/", on_get(handler)).layer(layer)).await;
        go_away(address, &begin).await;
        until(|| ended.count() == 1).await;
        until(|| limiter.peek(all()).unwrap().used() == expected).await;
    }
}

/// If a client left while its charge was in flight, the units stayed taken until their window ended, because there was
/// no reservation yet to give them back.
#[tokio::test]
async fn a_charge_that_is_answered_too_late_is_given_back() {
    for reserves in [true, false] {
        let memory = MemoryStore::new();
        let store = FaultyStore::new(memory.clone());
        let limiter = |policy| Limiter::builder(policy).quota(a_day(10)).build(memory.clone()).unwrap();
        let policy = "policies: [{ name: policies, key: global, quotas: [10/1d@first_hit] }]";
        let policies = Config::parse("limits.yaml", policy).unwrap().into_policies();
        let policies = Arc::new(PolicyLimiter::new(store.clone(), policies, "limits.yaml"));
        let by_key = Limiter::builder("key").quota(a_day(10)).build_shared(store.clone()).unwrap();
        for (name, rule) in [
            ("key", Rule::new(by_key).key(Global)),
            ("policies", Rule::policies(&policies, tollgate_tower::AttributeSources::new())),
        ] {
            let rule = if reserves { rule.cost(7).reserve() } else { rule.cost(7).refund_if(|_| true) };
            let (asked, left) = (Runs::default(), Runs::default());
            let layer = RateLimitLayer::builder(rule).build().unwrap();
            let runs = asked.clone();
            let app = Router::new().route("/", on_get(move || async move { runs.add() })).layer(layer);
            let address = serve(app.layer(Left(left.clone()))).await;
            let used = || limiter(name).peek(all()).unwrap().used();

            store.begin(StoreFault::HoldsAnswers);
            drop(ask(address).await);
            until(|| store.held() > 0 && left.count() == 1).await;
            assert_eq!(used(), 7, "it was taken before the client went away");
            store.end();
            if reserves {
                until(|| used() == 0).await;
            } else {
                assert_eq!(used(), 7, "whoever hangs up in time is counted");
            }
            assert_eq!(asked.count(), 0, "nobody runs a handler for a client that is gone");
        }
    }
}

/// Records that a request was dropped.
#[derive(Clone)]
struct Left(Runs);

impl<S> Layer<S> for Left {
    type Service = Leaving<S>;

    fn layer(&self, inner: S) -> Leaving<S> {
        Leaving { inner, left: self.0.clone() }
    }
}

#[derive(Clone)]
struct Leaving<S> {
    inner: S,
    left: Runs,
}

impl<S: Service<Request<Body>>> Service<Request<Body>> for Leaving<S>
where
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (left, response) = (OnDrop(self.left.clone()), self.inner.call(request));
        Box::pin(async move {
            let _left = left;
            response.await
        })
    }
}

struct OnDrop(Runs);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add();
    }
}

/// A body with frames that a channel delivers.
struct Chunks(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}

#[tokio::test]
async fn bodies_stream_through_in_both_directions() {
    let layer = RateLimitLayer::new(limiter("search", "1/1m"), Global);
    // Sends back each frame as it comes.
    let echo = |body: Body| async move { body };
    let address = serve(Router::new().route("/", on_post(echo)).layer(layer)).await;
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);

    let (chunks, receive) = mpsc::channel(1);
    let request = Request::post("/").header("host", "localhost").body(Chunks(receive)).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.headers()["ratelimit"], "\"search\";r=0;t=42");
    let mut body = response.into_body();
    for chunk in ["one", "two", "three"] {
        chunks.send(chunk.into()).await.unwrap();
        // The next frame is not sent before this one is back: no part waits for the end.
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(frame, chunk);
    }
    drop(chunks);
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn a_websocket_is_upgraded_or_denied_before() {
    let layer = RateLimitLayer::new(limiter("sockets", "1/1m"), Global);
    let runs = Runs::default();
    let counting = runs.clone();
    let handler = move |upgrade: WebSocketUpgrade| async move {
        counting.add();
        upgrade.on_upgrade(|mut socket| async move {
            while let Some(Ok(message)) = socket.recv().await {
                if socket.send(message).await.is_err() {
                    break;
                }
            }
        })
    };
    let address = serve(Router::new().route("/", on_get(handler)).layer(layer)).await;
    let (mut socket, response) = tokio_tungstenite::connect_async(format!("ws://{address}/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(response.headers()["ratelimit"], "\"sockets\";r=0;t=42");
    for text in ["one", "two"] {
        use futures_util::{SinkExt, StreamExt};
        socket.send(Message::text(text)).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(text));
    }

    let Err(Error::Http(denied)) = tokio_tungstenite::connect_async(format!("ws://{address}/")).await else {
        panic!("the second one is upgraded")
    };
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(denied.headers()["retry-after"], "42");
    assert_eq!(runs.count(), 1);
    assert_eq!(get(address, "/").await.status, StatusCode::TOO_MANY_REQUESTS, "the others are not harmed");
}
