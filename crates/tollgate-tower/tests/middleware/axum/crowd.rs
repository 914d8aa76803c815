//! Ten thousand requests at once against a limit of a thousand.

use axum::Router;
use axum::routing::get as on_get;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tollgate::{Limiter, MemoryStore, SharedLimiter, Store};
use tollgate_testkit::FaultyStore;
use tollgate_tower::key::PeerAddress;
use tollgate_tower::{RateLimitLayer, Rule};

use crate::support::{PATIENCE, Runs, a_day, serve};

/// As many as hyper accepts at once.
const STREAMS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_a_thousand_of_ten_thousand_reach_the_handler() {
    a_tenth_passes(Limiter::new(a_day(1_000)).into(), 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_a_tenth_passes_over_a_store_that_has_to_be_waited_for() {
    let store = FaultyStore::new(MemoryStore::new());
    a_tenth_passes(SharedLimiter::new(a_day(200), store), 10).await;
}

/// The limit is a tenth of the requests, which are spread over this many connections.
async fn a_tenth_passes<S: Store + 'static>(limiter: SharedLimiter<S>, connections: usize) {
    let runs = Runs::default();
    let counting = runs.clone();
    let layer = RateLimitLayer::builder(Rule::new(limiter).key(PeerAddress::new())).build().unwrap();
    let handler = move || async move { counting.add() };
    let address = serve(Router::new().route("/", on_get(handler)).layer(layer)).await;

    let mut requests = JoinSet::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        for _ in 0..STREAMS {
            let mut sender = sender.clone();
            requests.spawn(async move {
                sender.ready().await.unwrap();
                let request = Request::get("http://localhost/").body(Empty::<Bytes>::new()).unwrap();
                sender.send_request(request).await.unwrap().status()
            });
        }
    }
    let statuses = tokio::time::timeout(PATIENCE, requests.join_all()).await.unwrap();
    let count = |status| statuses.iter().filter(|other| **other == status).count();
    let (requests, tenth) = (connections * STREAMS, connections * STREAMS / 10);
    assert_eq!((count(StatusCode::OK), count(StatusCode::TOO_MANY_REQUESTS)), (tenth, requests - tenth));
    assert_eq!(runs.count(), tenth);
}
