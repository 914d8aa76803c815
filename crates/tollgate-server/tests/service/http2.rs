//! Answers over HTTP/2, many at once on one connection.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Frame};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::support::Server;

async fn connect<B>(address: SocketAddr) -> SendRequest<B>
where
    B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let stream = tokio::net::TcpStream::connect(address).await.expect("the server listens");
    let (requests, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("it speaks HTTP/2");
    tokio::spawn(connection);
    requests
}

async fn ask(requests: &mut SendRequest<Empty<Bytes>>, method: Method, uri: String) -> (StatusCode, Bytes) {
    let request = Request::builder().method(method).uri(uri).body(Empty::new()).expect("a request");
    let reply = requests.send_request(request).await.expect("an answer");
    let status = reply.status();
    (status, reply.into_body().collect().await.expect("a whole answer").to_bytes())
}

#[tokio::test]
async fn exactly_20_of_50_requests_on_one_connection_pass() {
    let server = Server::start(&["--limit", "20/1d@first_hit"]);
    let (address, requests) = (server.public, connect(server.public).await);
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let mut requests = requests.clone();
            let uri = format!("http://{address}/v1/check?user=alice");
            tokio::spawn(async move { ask(&mut requests, Method::GET, uri).await.0 })
        })
        .collect();
    let mut allowed = 0;
    for asked in asking {
        allowed += u32::from(asked.await.expect("no panic") == StatusCode::OK);
    }
    assert_eq!(allowed, 20);
}

/// RFC 9113, sections 3.4 and 6.5: a server sends its settings first.
#[test]
fn a_connection_has_100_requests_at_once() {
    const MAX_CONCURRENT_STREAMS: u16 = 3;
    let server = Server::start(&["--limit", "5/1d"]);
    let mut stream = std::net::TcpStream::connect(server.public).expect("the server listens");
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("the server reads");
    let mut head = [0; 9];
    stream.read_exact(&mut head).expect("the head of a frame");
    let mut settings = vec![0; usize::from(head[2])];
    stream.read_exact(&mut settings).expect("settings");
    let setting = |bytes: &[u8]| (u16::from_be_bytes([bytes[0], bytes[1]]), bytes[2..6].to_vec());
    let settings: Vec<(u16, Vec<u8>)> = settings.chunks_exact(6).map(setting).collect();
    assert!(settings.contains(&(MAX_CONCURRENT_STREAMS, vec![0, 0, 0, 100])), "{settings:?}");
}

#[tokio::test]
async fn a_head_has_no_body() {
    let server = Server::start(&["--limit", "5/1d"]);
    let mut requests = connect(server.admin).await;
    let uri = format!("http://{}/openapi.json", server.admin);
    assert_eq!(ask(&mut requests, Method::HEAD, uri.clone()).await, (StatusCode::OK, Bytes::new()));
    assert!(ask(&mut requests, Method::GET, uri).await.1.len() > 1_000);
}

/// A body of chunks of 64 KiB, and the number that is not sent yet.
struct Chunks(Arc<AtomicUsize>);

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let sent = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        Poll::Ready(sent.ok().map(|_| Ok(Frame::data(vec![b' '; 64 * 1024].into()))))
    }
}

/// The answer ended the stream while clients were still sending, and curl 7 and httpx reported a broken stream instead
/// of the answer.
#[tokio::test]
async fn an_answer_waits_for_the_end_of_a_body_that_is_not_wanted() {
    let server = Server::start(&["--limit", "5/1d"]);
    let mut requests = connect(server.public).await;
    for (path, status) in [("/v1/check", StatusCode::PAYLOAD_TOO_LARGE), ("/nothing", StatusCode::NOT_FOUND)]
    {
        let left = Arc::new(AtomicUsize::new(80));
        let uri = format!("http://{}{path}", server.public);
        let request = Request::post(uri).body(Chunks(Arc::clone(&left))).expect("a request");
        let reply = requests.send_request(request).await.expect("an answer");
        assert_eq!((reply.status(), left.load(Ordering::Relaxed)), (status, 0));
        reply.into_body().collect().await.expect("a whole answer");
    }
}

/// HTTP/2 has the host name in `:authority`.
#[tokio::test]
async fn a_page_with_another_host_name_reads_nothing() {
    let server = Server::start(&["--limit", "5/1d"]);
    let mut requests = connect(server.admin).await;
    let uri = |host: &str| format!("http://{host}/metrics");
    assert_eq!(ask(&mut requests, Method::GET, uri("evil.example")).await.0, StatusCode::FORBIDDEN);
    assert_eq!(ask(&mut requests, Method::GET, uri("localhost:8090")).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_drain_ends_a_connection_that_is_idle() {
    let server = Server::start(&["--limit", "5/1d"]);
    let mut requests = connect(server.public).await;
    let uri = format!("http://{}/healthz", server.public);
    assert_eq!(ask(&mut requests, Method::GET, uri).await.0, StatusCode::OK);
    server.signal("TERM");
    let (status, log) = tokio::task::spawn_blocking(move || server.wait()).await.expect("no panic");
    assert_eq!(status.code(), Some(0));
    assert!(log.contains("stopped") && !log.contains("left"), "{log}");
}

/// A client that never pauses kept its connection until the end of the drain, and lost its open requests.
#[tokio::test]
async fn a_drain_ends_a_connection_that_is_busy() {
    let server = Server::start(&["--limit", "1000000/1d"]);
    let (address, mut requests) = (server.public, connect(server.public).await);
    let uri = format!("http://{address}/healthz");
    assert_eq!(ask(&mut requests, Method::GET, uri).await.0, StatusCode::OK);
    let busy = tokio::spawn(async move {
        loop {
            let uri = format!("http://{address}/v1/check?user=alice");
            let request = Request::get(uri).body(Empty::<Bytes>::new()).expect("a request");
            // An error says that the server takes no further request.
            let Ok(reply) = requests.send_request(request).await else { break };
            assert_eq!(reply.status(), StatusCode::OK);
            reply.into_body().collect().await.expect("what is accepted is answered");
        }
    });
    server.signal("TERM");
    let (status, log) = tokio::task::spawn_blocking(move || server.wait()).await.expect("no panic");
    busy.await.expect("no panic");
    assert_eq!(status.code(), Some(0));
    assert!(log.contains("stopped") && !log.contains("left"), "{log}");
}
