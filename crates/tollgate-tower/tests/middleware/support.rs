//! A server on a free port, and a client that sees every byte of the head.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tollgate::{Anchor, Limiter, ManualClock, MemoryStore, Quota};

/// Longer than any step here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a limiter with a manual clock, 18.4 seconds into a minute.
pub(crate) fn limiter(policy: &str, quota: &str) -> Limiter<ManualClock> {
    limiter_at(policy, quota, &clock())
}

pub(crate) fn limiter_at(policy: &str, quota: &str, clock: &ManualClock) -> Limiter<ManualClock> {
    let store = MemoryStore::builder().clock(clock.clone()).build();
    Limiter::builder(policy).quota(quota.parse::<Quota>().unwrap()).build(store).unwrap()
}

pub(crate) fn clock() -> ManualClock {
    let clock = ManualClock::default();
    clock.advance(Duration::from_millis(18_400));
    clock
}

/// Returns this many per day, from the first request on. A day of the clock could end during a test, at midnight.
pub(crate) fn a_day(limit: u32) -> Quota {
    Quota::per_day(limit).with_anchor(Anchor::FirstHit).unwrap()
}

/// Counts how often a handler ran.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs(Arc<AtomicUsize>);

impl Runs {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Serves until the test ends.
pub(crate) async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
    address
}

/// A response with its body, read to the end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Sends `GET /path`, `POST /path` and so on, each on a connection of its own.
pub(crate) async fn send(address: SocketAddr, line: &str, headers: &[(&str, &str)]) -> Answer {
    let (method, path) = line.split_once(' ').unwrap();
    let request = headers.iter().fold(
        Request::builder().method(method).uri(path).header("host", "localhost"),
        |request, (name, value)| request.header(*name, *value),
    );
    let response = connect(address).await.send_request(request.body(Full::default()).unwrap());
    let response = tokio::time::timeout(PATIENCE, response).await.unwrap().unwrap();
    read(response).await
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, &format!("GET {path}"), &[]).await
}

pub(crate) async fn connect(address: SocketAddr) -> http1::SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    sender
}

async fn read(response: Response<hyper::body::Incoming>) -> Answer {
    let (parts, body) = response.into_parts();
    let body = tokio::time::timeout(PATIENCE, body.collect()).await.unwrap().unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body }
}

/// Waits until the condition holds, for a long time.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
}
