//! What clients must not get away with over gRPC: nonsense, size, resets and slowness.

use std::io::{Read, Write};
use std::net::TcpStream;

use prost::Message;
use tonic::Code;

use crate::grpc_client::messages::kuadrant::service::ratelimit::v1::{
    CommitRequest, ReserveRequest, ReserveResponse,
};
use crate::grpc_client::{OK, RateLimitRequest, Wire, address, descriptor, request, start};
use crate::support::http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, PING, PREFACE, RST_STREAM, fields, frame,
    settings,
};
use crate::support::{HANG, Server, until};

const USER: &[(&str, &str)] = &[("user", "alice")];
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A head of a call, as bytes.
fn head(stream: u32) -> Vec<u8> {
    let head = fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", SHOULD_RATE_LIMIT),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]);
    frame(HEADERS, END_HEADERS, stream, &head)
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&[0][..], &u32::try_from(message.len()).expect("a length").to_be_bytes(), message].concat()
}

/// A whole call of `Watch` for the service `""`.
fn watch(stream: u32) -> Vec<u8> {
    let head = fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/grpc.health.v1.Health/Watch"),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]);
    [frame(HEADERS, END_HEADERS, stream, &head), frame(DATA, END_STREAM, stream, &framed(b""))].concat()
}

/// A connection that has said hello.
fn open(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(address(server)).expect("it listens");
    stream.set_read_timeout(Some(HANG)).expect("a timeout");
    stream.write_all(&[PREFACE, &settings(&[])].concat()).expect("it reads");
    stream
}

/// The kind of the next frame; `None` at the end.
fn next_frame(stream: &mut TcpStream) -> Option<u8> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let [high, middle, low, kind, ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
    stream.read_exact(&mut payload).ok()?;
    Some(kind)
}

/// That another client is answered.
async fn is_alive(server: &Server) {
    let response = Wire::open(server).await.call(request(&[USER])).await.expect("an answer");
    assert_eq!(response.overall_code, OK);
}

fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[tokio::test]
async fn messages_of_nonsense_are_answered() {
    let server = start(&["--limit", "1000000/1d"]);
    let mut good = request(&[USER, &[("path", "/search"), ("method", "GET")]]);
    good.descriptors[0].hits_addend = Some(3);
    let good = good.encode_to_vec();
    let wire = Wire::open(&server).await;
    expect_answers(&wire, SHOULD_RATE_LIMIT, &good).await;
    is_alive(&server).await;
}

#[tokio::test]
async fn reservations_of_nonsense_are_answered() {
    let server = start(&["--limit", "1000000/1d"]);
    let wire = Wire::open(&server).await;
    let RateLimitRequest { domain, descriptors, .. } = request(&[USER]);
    let ttl = Some(prost_types::Duration { seconds: 5, nanos: 6 });
    let reservation = ReserveRequest { domain: domain.clone(), descriptors, amount: 3, ttl };
    let [reserve, commit_path] = [
        "/kuadrant.service.ratelimit.v1.RateLimitService/Reserve",
        "/kuadrant.service.ratelimit.v1.RateLimitService/Commit",
    ];
    expect_answers(&wire, reserve, &reservation.encode_to_vec()).await;
    let reserved: ReserveResponse = wire.call_kuadrant(reserve, reservation, &[]).await.expect("an answer");
    let reservation_id = reserved.reservation_id;
    let commit = CommitRequest { domain, reservation_id, actual_amount: 5, ..CommitRequest::default() };
    expect_answers(&wire, commit_path, &commit.encode_to_vec()).await;
    is_alive(&server).await;
}

/// Sends 2,000 messages that are this one with some bytes changed, cut off or added.
async fn expect_answers(wire: &Wire, path: &str, good: &[u8]) {
    let mut random = fastrand::Rng::with_seed(20);
    let mut answered = [0_u32; 2];
    for _ in 0..2_000 {
        let mut message = good.to_vec();
        for _ in 0..random.usize(1..4) {
            match random.u8(0..3) {
                0 => {
                    let at = random.usize(0..message.len());
                    message[at] = random.u8(..);
                }
                1 => message.truncate(random.usize(1..=message.len())),
                _ => message.insert(random.usize(0..=message.len()), random.u8(..)),
            }
        }
        let called = wire.call_raw_at(path, framed(&message)).await;
        assert!(matches!(called, Code::Ok | Code::InvalidArgument), "{called}: {message:?}");
        answered[usize::from(called == Code::Ok)] += 1;
    }
    assert!(answered.iter().all(|count| *count > 5), "some make sense and some do not: {answered:?}");
}

#[tokio::test]
async fn a_message_that_is_too_long_is_refused_and_not_kept() {
    let server = start(&["--limit", "1000000/1d"]);
    let wire = Wire::open(&server).await;
    let entries = [("user", "x".repeat(300_000))];
    let entries: Vec<(&str, &str)> = entries.iter().map(|(key, value)| (*key, &**value)).collect();
    let status = wire.call(request(&[&entries])).await.expect_err("too long");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    // Some 20,000 descriptors fit into no message.
    let many = RateLimitRequest { descriptors: vec![descriptor(USER); 20_000], ..request(&[]) };
    let status = wire.call(many).await.expect_err("too long");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let thousands = RateLimitRequest { descriptors: vec![descriptor(&[("a", "")]); 3_000], ..request(&[]) };
    let status = wire.call(thousands).await.expect_err("too many");
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    is_alive(&server).await;
}

/// The length of a message says 4 GiB, and a few bytes follow.
#[tokio::test]
async fn a_length_that_is_not_that_of_the_message_reserves_nothing() {
    let server = start(&["--limit", "1000000/1d"]);
    let before = resident(&server);
    let body = [&[0][..], &u32::MAX.to_be_bytes(), b"abc"].concat();
    assert_eq!(Wire::open(&server).await.call_raw(body).await, Code::Internal);
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 64 * 1024, "it has {grown} KiB more");
    is_alive(&server).await;
}

/// Envoy copies headers as they are, and admits the requests of calls that are errors. So a client that sent a byte which
/// is no UTF-8 was not limited at all.
#[tokio::test]
async fn values_that_are_no_text_are_counted() {
    let server = start(&["--limit", "1/1d", "--key", "user"]);
    let wire = Wire::open(&server).await;
    let good = request(&[&[("user", "alice")]]).encode_to_vec();
    let at = good.windows(5).position(|window| window == b"alice").expect("it is there");
    let call = async |value: &[u8; 5]| {
        let mut message = good.clone();
        message[at..at + 5].copy_from_slice(value);
        let body = framed(&message);
        let before = server.metric(DENIED).expect("it is there");
        assert_eq!(wire.call_raw(body).await, Code::Ok, "{value:?}");
        server.metric(DENIED).expect("it is there") > before
    };
    const DENIED: &str = r#"tollgate_decisions_total{policy="default",verdict="denied"}"#;
    for value in [b"ali\xffe", b"ali\xfee", b"\xc3\x28ice", b"alice"] {
        assert_eq!(
            [call(value).await, call(value).await],
            [false, true],
            "{value:?} has a counter of its own"
        );
    }
    // In ISO 8859-1 the value is `aliée`, and it was counted as that.
    let text = request(&[&[("user", "ali\u{ff}e")]]);
    assert_eq!(wire.call(text).await.expect("an answer").overall_code, OK);
    // Keys of entries are not chosen by clients.
    let mut message = good.clone();
    message[at - 6] = 0xff;
    assert_eq!(wire.call_raw(framed(&message)).await, Code::InvalidArgument);
}

/// Streams that are reset as soon as they begin (CVE-2023-44487).
#[tokio::test]
async fn rapid_resets_end_their_connection_alone() {
    let server = start(&["--limit", "1000000/1d"]);
    let before = resident(&server);
    for _ in 0..4 {
        let mut stream = open(&server);
        for call in 0..20_000 {
            let id = 2 * call + 1;
            let bytes = [head(id), frame(RST_STREAM, 0, id, &8_u32.to_be_bytes())].concat();
            if stream.write_all(&bytes).is_err() {
                break;
            }
        }
    }
    is_alive(&server).await;
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 64 * 1024, "it has {grown} KiB more");
}

/// Streams of health need no token and last. They once took all memory for requests, so that calls were refused.
#[tokio::test]
async fn streams_of_health_leave_room_for_calls() {
    let server = start(&["--limit", "1000000/1d", "--body-memory", "1MiB"]);
    let mut watching: Vec<TcpStream> = (0..20).map(|_| open(&server)).collect();
    for stream in &mut watching {
        let calls: Vec<u8> = (0..90).flat_map(|call| watch(2 * call + 1)).collect();
        stream.write_all(&calls).expect("it reads");
    }
    until("streams are refused", || {
        let refused = server.metric(r#"tollgate_http_requests_rejected_total{status="503"}"#);
        refused.is_some_and(|refused| refused >= 20.0 * 82.0)
    });
    let held = server.metric("tollgate_http_body_memory_bytes").expect("it is measured");
    assert!((1.0..=256.0 * 1024.0).contains(&held), "{held} bytes");
    let wire = Wire::open(&server).await;
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let wire = wire.clone();
            tokio::spawn(async move { wire.call(request(&[USER])).await.map(|it| it.overall_code) })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.expect("it ends").expect("an answer"), OK);
    }
    assert_eq!(wire.call_at("/grpc.health.v1.Health/Check").await, Code::Ok);
}

/// A kilobyte of gzip is 64 KiB of entries, and those are over a megabyte once they are decoded.
#[tokio::test]
async fn a_decoded_message_needs_room_before_anything_is_counted() {
    let entries: Vec<(String, String)> = (0..63).map(|key| (format!("{key}"), "x".to_owned())).collect();
    let entries: Vec<(&str, &str)> = entries.iter().map(|(key, value)| (&**key, &**value)).collect();
    let large = || RateLimitRequest { descriptors: vec![descriptor(&entries); 90], ..request(&[]) };
    assert!((32 * 1024..64 * 1024).contains(&large().encoded_len()));
    let narrow = start(&["--limit", "1000000/1d", "--body-memory", "1MiB"]);
    let status = Wire::open(&narrow).await.call_compressed(large()).await.expect_err("no room");
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(narrow.metric("tollgate_store_counters"), Some(0.0));
    is_alive(&narrow).await;
    let wide = start(&["--limit", "1000000/1d"]);
    let wire = Wire::open(&wide).await;
    assert_eq!(wire.call_compressed(large()).await.expect("an answer").statuses.len(), 90);
    until("the memory is given back", || wide.metric("tollgate_http_body_memory_bytes") == Some(0.0));
}

/// gRPC wants a status of HTTP for what is no call.
#[tokio::test]
async fn requests_that_are_no_calls_have_a_status_of_http() {
    let server = start(&["--limit", "5/1d"]);
    let wire = Wire::open(&server).await;
    let ask = async |method: &str, uri: &str, kind: &str| {
        let request = http::Request::builder().method(method).uri(uri).header("content-type", kind);
        wire.ask(request.body(tonic::body::Body::empty()).expect("a request")).await
    };
    let path = format!("http://localhost{SHOULD_RATE_LIMIT}");
    let grpc = "application/grpc";
    assert_eq!(ask("GET", "http://localhost/healthz", grpc).await, (405, false));
    assert_eq!(ask("CONNECT", "localhost:443", grpc).await, (405, false));
    for kind in ["application/grpc-web", "application/grpc+json", "application/grpcfoo", "text/plain", ""] {
        assert_eq!(ask("POST", &path, kind).await, (415, false), "{kind}");
    }
    for kind in [grpc, "application/grpc+proto", "application/grpc; charset=utf-8"] {
        assert_eq!(ask("POST", &path, kind).await, (200, true), "{kind}");
    }
}

/// A client that is gone without a word holds its connection no longer than a ping waits.
#[tokio::test]
async fn a_client_that_answers_no_ping_is_cut() {
    let server = start(&["--limit", "1000000/1d", "--grpc-keep-alive", "1s"]);
    let (answering, mut silent) = (Wire::open(&server).await, open(&server));
    let pings = move || std::iter::from_fn(|| next_frame(&mut silent)).filter(|kind| *kind == PING).count();
    // One was sent, and none after the one without an answer.
    assert_eq!(tokio::task::spawn_blocking(pings).await.expect("it ends"), 1);
    let cut = || server.metric(r#"tollgate_http_connections_cut_total{reason="broken"}"#);
    until("the cut is counted", || cut() == Some(1.0));
    assert_eq!(answering.call(request(&[USER])).await.expect("an answer").overall_code, OK);
}

/// A client that takes no data has the head of its answer. The memory of the call is held until the rest is sent.
#[tokio::test]
async fn an_answer_holds_its_memory_until_its_client_takes_it() {
    let server = start(&["--limit", "1000000/1d"]);
    let mut stream = open(&server);
    let call = request(&[USER]).encode_to_vec();
    let call = |id| [head(id), frame(DATA, END_STREAM, id, &framed(&call))].concat();
    stream.write_all(&[settings(&[(INITIAL_WINDOW_SIZE, 0)]), call(1), call(3)].concat()).expect("it reads");
    let held = || server.metric("tollgate_http_body_memory_bytes").expect("it is measured");
    let mut heads = 0;
    while heads < 2 {
        let kind = next_frame(&mut stream).expect("a frame");
        assert_ne!(kind, DATA, "there is no room for data");
        heads += u32::from(kind == HEADERS);
    }
    assert_eq!(server.metric(r#"tollgate_checks_total{source="store"}"#), Some(2.0));
    // The first call of a connection has memory of its own.
    assert!(held() >= 6.0 * 1024.0, "{} bytes", held());
    stream.write_all(&settings(&[(INITIAL_WINDOW_SIZE, 65_535)])).expect("it reads");
    until("the memory is given back", || held() == 0.0);
}

/// Calls whose messages never end hold no more than the memory for requests, and give it back.
#[tokio::test]
async fn slow_calls_hold_bounded_memory() {
    let server = start(&["--limit", "1000000/1d", "--body-memory", "1MiB"]);
    let mut slow: Vec<TcpStream> = (0..20).map(|_| open(&server)).collect();
    for stream in &mut slow {
        for call in 0..100 {
            let id = 2 * call + 1;
            // The connection may be ended meanwhile.
            let _ = stream.write_all(&[head(id), frame(DATA, 0, id, &[0, 0, 0, 1, 0])].concat());
        }
    }
    until("the memory is used up", || {
        server.metric("tollgate_http_body_memory_refused_total").is_some_and(|refused| refused > 0.0)
    });
    let held = server.metric("tollgate_http_body_memory_bytes").expect("it is measured");
    assert!(held <= 1024.0 * 1024.0, "{held} bytes");
    // Their time is up after five seconds.
    let is_given_back = || server.metric("tollgate_http_body_memory_bytes") == Some(0.0);
    until("the memory is given back", is_given_back);
    is_alive(&server).await;
}
