//! Bounds on what clients can make the service spend: memory, connections and work.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::convert::Infallible;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::{Request, StatusCode};
use hyper::body::{Body, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::JoinSet;

use crate::support::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PREFACE, RST_STREAM, fields, frame,
    request, settings,
};
use crate::support::{Connection, HANG, Server, get, post, until};

pub(crate) const MIB: u64 = 1024 * 1024;

/// Returns the most memory that the service has had at once, in bytes.
pub(crate) fn most_resident(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the most resident memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024
}

/// Sends a body that never ends.
struct Unfinished(Option<Bytes>);

impl Body for Unfinished {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}

/// Fifteen connections with unfinished bodies made the service keep 150 MB, and 10,000 connections could have made it
/// keep 60 GB.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_all_connections_share_one_memory() {
    const CONNECTIONS: usize = 40;
    let server = Server::start(&["--limit", "1000000/1d", "--key", "user", "--body-memory", "16MiB"]);
    let before = most_resident(&server);
    let begin = Bytes::from(vec![b' '; 60_000]);
    let mut asking = JoinSet::new();
    // 230 MiB in all.
    for _ in 0..CONNECTIONS {
        let stream = tokio::net::TcpStream::connect(server.public).await.expect("the server listens");
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (requests, connection) = handshake.await.expect("it speaks HTTP/2");
        tokio::spawn(connection);
        for _ in 0..100 {
            let (mut requests, body) = (requests.clone(), Unfinished(Some(begin.clone())));
            let uri = format!("http://{}/v1/check", server.public);
            asking.spawn(async move {
                let request = Request::post(uri).body(body).expect("a request");
                requests.send_request(request).await.expect("each is answered").status()
            });
        }
    }
    assert_eq!(server.post("/v1/check", r#"{"attributes": {"user": "alice"}}"#).status, 200);
    let (mut refused, mut late) = (0_u32, 0_u32);
    while let Some(status) = asking.join_next().await {
        match status.expect("no panic") {
            StatusCode::SERVICE_UNAVAILABLE => refused += 1,
            StatusCode::REQUEST_TIMEOUT => late += 1,
            status => panic!("{status}"),
        }
    }
    let grown = most_resident(&server).saturating_sub(before) / MIB;
    println!("{refused} refused, {late} kept until they were late; {grown} MiB");
    // 16 MiB are for bodies. The connections, their streams and the allocator take some besides.
    assert!(grown < 128, "{grown} MiB");
    assert!(refused > 0 && late > 100, "{refused} refused, there was room for {late}");
    let began = Instant::now();
    while server.metric("tollgate_http_body_memory_bytes") != Some(0.0) {
        assert!(began.elapsed() < HANG, "not all is given back");
    }
    assert_eq!(server.metric("tollgate_http_body_memory_refused_total"), Some(refused.into()));
}

/// Requests that are cancelled at once cost their client nothing (CVE-2023-44487).
#[test]
fn requests_that_are_cancelled_at_once_cost_others_nothing() {
    let server = Server::start(&["--limit", "1000000/1d", "--key", "user"]);
    let before = most_resident(&server);
    let mut flood = server.connect();
    flood.send(&[PREFACE, &settings(&[])].concat());
    let head = request("GET", "/v1/check?user=mallory");
    let cancel = 8_u32.to_be_bytes();
    let mut sent = 0;
    for round in 0..200 {
        let cancelled: Vec<u8> = (0..100)
            .flat_map(|index| {
                let stream = 2 * (round * 100 + index) + 1;
                let begin = frame(HEADERS, END_HEADERS | END_STREAM, stream, &head);
                [begin, frame(RST_STREAM, 0, stream, &cancel)].concat()
            })
            .collect();
        if !flood.try_send(&cancelled) {
            break;
        }
        sent += 100;
        assert_eq!(server.get("/v1/check?user=alice").status, 200);
    }
    let grown = most_resident(&server).saturating_sub(before) / MIB;
    println!("{sent} cancelled; {grown} MiB");
    assert!(grown < 32, "{grown} MiB");
}

/// A head that never ends (CVE-2024-27316).
#[test]
fn a_head_without_end_is_cut() {
    let server = Server::start(&["--limit", "5/1d"]);
    let before = most_resident(&server);
    let mut endless = server.connect();
    endless.send(&[PREFACE, &settings(&[])].concat());
    endless.send(&frame(HEADERS, END_STREAM, 1, &request("GET", "/healthz")));
    let piece = frame(CONTINUATION, 0, 1, &fields(&[("x", &"x".repeat(10_000))]));
    let mut sent = 0;
    while endless.try_send(&piece) {
        sent += piece.len() as u64;
        assert!(sent < 64 * MIB, "a head has no bound");
    }
    let grown = most_resident(&server).saturating_sub(before) / MIB;
    println!("{} KiB sent; {grown} MiB", sent / 1024);
    assert!(grown < 16, "{grown} MiB");
}

/// Bytes that are not HTTP/2 end the connection, and the service names the error.
#[test]
fn frames_against_the_rules_end_the_connection() {
    let server = Server::start(&["--limit", "5/1d"]);
    let wrong = [
        frame(DATA, 0, 1, b"x"),
        frame(HEADERS, END_HEADERS, 2, &request("GET", "/healthz")),
        frame(HEADERS, END_HEADERS, 1, &[0xff; 40]),
        frame(CONTINUATION, END_HEADERS, 1, b""),
        frame(crate::support::http2::SETTINGS, 0, 0, b"x"),
        frame(crate::support::http2::WINDOW_UPDATE, 0, 0, &[0; 4]),
        frame(RST_STREAM, 0, 0, &[0; 4]),
        frame(DATA, 0, 0, b"x"),
    ];
    for wrong in wrong {
        let mut connection = server.connect();
        connection.send(&[PREFACE, &settings(&[]), &wrong].concat());
        let mut kinds = Vec::new();
        while let Some((kind, ..)) = connection.frame() {
            kinds.push(kind);
        }
        assert!(kinds.contains(&GOAWAY), "{kinds:?} to {wrong:?}");
    }
    assert_eq!(server.get("/healthz").status, 200);
    let broken = || server.metric("tollgate_http_connections_cut_total{reason=\"malformed\"}");
    // It is counted a moment after the client has seen it.
    until("each is counted", || broken() == Some(8.0));
}

/// Values of 30,000 bytes became keys of the store, two thousand of them in a request.
#[test]
fn a_value_of_an_attribute_has_a_length() {
    let server = Server::start(&["--limit", "5/1d", "--answers", "leetdezine"]);
    let value = |length: usize| "x".repeat(length);
    let body = |length| format!(r#"{{"attributes": {{"user": "{}", "a": "b"}}}}"#, value(length));
    assert_eq!(server.post("/v1/check", &body(1024)).status, 200);
    let counters = server.metric("tollgate_store_counters");
    let long = body(1025);
    for path in ["/v1/check", "/v1/peek"] {
        let reply = server.post(path, &long);
        reply.assert_problem(400, Some("attributes.user"));
        assert_eq!(reply.json()["detail"], "`user` is longer than 1024 bytes");
    }
    server.get(&format!("/v1/check?user={}", value(1025))).assert_problem(400, Some("query.user"));
    let dialect = format!("/api/v1/rate_limit?user_id={}&endpoint=/", value(1025));
    server.get(&dialect).assert_problem(400, Some("query.user"));
    server.admin_post("/v1/reset", &long).assert_problem(400, Some("attributes.user"));
    let set = long.replace("}}", r#"}, "used": 1}"#);
    server.admin_post("/v1/set", &set).assert_problem(400, Some("attributes.user"));
    let refund = long.replace("}}", r#"}, "version": 1, "windows": []}"#);
    server.admin_post("/v1/refund", &refund).assert_problem(400, Some("attributes.user"));
    let batch = server.post("/v1/check/batch", &format!("{{\"requests\": [{}, {long}]}}", body(2)));
    let batch = batch.json();
    assert_eq!(batch["decisions"][0]["allowed"], true, "{batch}");
    assert_eq!(batch["decisions"][1]["field"], "requests[1].attributes.user");
    assert_eq!(server.metric("tollgate_store_counters"), counters.map(|counters| counters + 1.0));

    let server = Server::start(&["--limit", "5/1d", "--max-attribute-bytes", "3"]);
    assert_eq!(server.get("/v1/check?user=bob").status, 200);
    server.get("/v1/check?user=b%C3%A4b").assert_problem(400, Some("query.user"));
}

/// No metric counted clients that were cut, or that the HTTP library answered by itself.
#[test]
fn clients_that_are_cut_are_counted_and_logged() {
    let server = Server::start(&["--limit", "5/1d"]);
    let cut =
        |reason: &str| server.metric(&format!("tollgate_http_connections_cut_total{{reason=\"{reason}\"}}"));
    let reasons = ["broken", "head_too_large", "idle", "malformed", "slow_head", "stalled"];
    assert!(reasons.iter().all(|reason| cut(reason) == Some(0.0)));
    for _ in 0..2 {
        let mut connection = server.connect();
        assert_eq!(connection.ask(b"GET / HTTP/1.1\r\nX y: z\r\n\r\n").status, 400);
        assert!(connection.is_closed());
    }
    let mut connection = server.connect();
    // More than the service reads: it may close before all of it is sent.
    connection.try_send(format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(40_000)).as_bytes());
    assert_eq!(connection.reply().map(|reply| reply.status), Some(431));
    let mut slow = server.connect();
    slow.send(b"GET /healthz HTT");
    assert!(slow.is_closed());
    let count = |reason, count: f64| {
        let began = Instant::now();
        // It is counted a moment after the client has seen it.
        while cut(reason) != Some(count) {
            assert!(began.elapsed() < HANG, "{reason}: {:?}", cut(reason));
        }
    };
    count("malformed", 2.0);
    count("head_too_large", 1.0);
    count("slow_head", 1.0);
    server.signal("TERM");
    let (_, log) = server.wait();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("were cut")).collect();
    let [line] = lines[..] else { panic!("{log}") };
    for word in ["malformed=2", "head_too_large=1", "slow_head=1"] {
        assert!(line.contains(word), "{line}");
    }
}

/// One client could take every connection.
#[test]
fn a_client_has_no_more_connections_than_are_set() {
    let server = Server::start(&["--limit", "5/1d", "--max-connections-per-peer", "3"]);
    let mut kept: Vec<Connection> = (0..3).map(|_| server.connect()).collect();
    for connection in &mut kept {
        assert_eq!(connection.ask(&get("/healthz")).status, 200);
    }
    assert!(server.connect().is_closed());
    assert!(server.connect().is_closed());
    // Another client, and another listener.
    let mut other = Connection::of(connect_from(Ipv4Addr::new(127, 0, 0, 9), server.public));
    assert_eq!(other.ask(&get("/healthz")).status, 200);
    let name = "tollgate_http_connections_refused_total{listener=\"checks\"}";
    assert_eq!(server.metric(name), Some(2.0));
    drop(kept);
    let began = Instant::now();
    loop {
        let mut connection = server.connect();
        if connection.try_send(&get("/healthz")) && connection.reply().is_some() {
            break;
        }
        assert!(began.elapsed() < HANG, "its places are not given back");
    }
    server.signal("TERM");
    let (_, log) = server.wait();
    assert_eq!(log.matches("--max-connections-per-peer").count(), 1, "{log}");
}

fn connect_from(client: Ipv4Addr, server: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind((client, 0).into()).expect("loopback has many addresses");
        let stream = socket.connect(server).await.expect("the server listens").into_std().expect("a stream");
        stream.set_nonblocking(false).expect("it can wait");
        stream
    })
}

/// Each hold of a batch was taken for as long as a decision, but it may have 8,192 characters.
#[test]
fn a_batch_of_reservations_has_room_for_the_longest_holds() {
    let server = Server::start(&["--limit", "500/1d", "--key", "user", "--body-memory", "512KiB"]);
    let batch = |requests: usize| {
        let request = r#"{"attributes": {"user": "alice"}}"#;
        format!(r#"{{"requests": [{}]}}"#, vec![request; requests].join(","))
    };
    let refused = server.post("/v1/reserve/batch", &batch(60));
    refused.assert_problem(503, None);
    assert_eq!(server.post("/v1/reserve/batch", &batch(50)).status, 200);
    assert_eq!(server.get("/v1/check?user=alice&cost=0").json()["used"], 50, "the refused one took nothing");
}

/// Complete bodies need no memory of the budget, even if it is used up.
#[test]
fn a_body_that_comes_whole_needs_no_room() {
    let server = Server::start(&["--limit", "5/1d", "--key", "user", "--body-memory", "4KiB"]);
    let body = r#"{"attributes": {"user": "alice"}}"#;
    let mut slow = server.connect();
    slow.send(b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n{\"attributes\":");
    let began = Instant::now();
    while server.metric("tollgate_http_body_memory_bytes") == Some(0.0) {
        assert!(began.elapsed() < HANG, "it holds nothing");
    }
    let mut second = server.connect();
    let whole = post("/v1/check", &[body, &" ".repeat(3_000)].concat());
    second.send(&whole[..whole.len() - 100]);
    let refused = second.reply().expect("an answer");
    refused.assert_problem(503, None);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(second.is_closed());
    assert_eq!(server.post("/v1/check", body).status, 200);
}
