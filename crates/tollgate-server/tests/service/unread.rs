//! Clients that do not read their answers: how much the service keeps for them, and how long.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::bounds::{MIB, most_resident};
use crate::support::folder::Folder;
use crate::support::http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, PREFACE, RST_STREAM, fields, frame, request,
    settings,
};
use crate::support::{Connection, HANG, Server, get, until};

/// The service kept all answers for two minutes for a client that reads nothing.
#[test]
fn answers_that_nobody_reads_are_bounded() {
    let server = Server::start(&["--limit", "1000000/1d", "--key", "user", "--body-memory", "8MiB"]);
    let before = most_resident(&server);
    let batch = vec![r#"{"attributes": {"user": "alice"}}"#; 100].join(",");
    let batch = format!("{{\"requests\": [{batch}]}}");
    let ask = |stream: u32| {
        let head = frame(HEADERS, END_HEADERS, stream, &request("POST", "/v1/check/batch"));
        [head, frame(DATA, END_STREAM, stream, batch.as_bytes())].concat()
    };
    let connections: Vec<TcpStream> = (0..30)
        .map(|_| {
            let mut connection = Connection::open(server.public);
            connection.send(&[PREFACE, &settings(&[(INITIAL_WINDOW_SIZE, 0)])].concat());
            // No more than the window of the connection has room for.
            for stream in 0..18 {
                connection.send(&ask(2 * stream + 1));
            }
            connection.into_stream()
        })
        .collect();
    let began = Instant::now();
    while server.metric("tollgate_http_body_memory_refused_total") == Some(0.0) {
        assert!(began.elapsed() < HANG, "the answers of {} connections are kept", connections.len());
    }
    let grown = most_resident(&server).saturating_sub(before) / MIB;
    println!("{grown} MiB");
    assert!(grown < 48, "{grown} MiB");
    // Those that do not read make room for others.
    while server.post("/v1/check/batch", &batch).status == 503 {
        assert!(began.elapsed() < HANG, "they keep their place");
    }
}

/// Answers of a batch of records were kept without a bound.
#[test]
fn answers_of_a_batch_need_room_before_anything_is_counted() {
    let server = Server::start(&["--limit", "1000000/1d", "--key", "user", "--body-memory", "16KiB"]);
    let batch = vec![r#"{"attributes": {"user": "alice"}}"#; 100].join(",");
    let batch = format!("{{\"requests\": [{batch}]}}");
    for (address, path) in [(server.public, "/v1/check/batch"), (server.admin, "/v1/record/batch")] {
        let mut connection = Connection::open(address);
        let head = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("content-type", "application/json"),
        ];
        let head = frame(HEADERS, END_HEADERS, 1, &fields(&head));
        connection
            .send(&[PREFACE, &settings(&[]), &head, &frame(DATA, END_STREAM, 1, batch.as_bytes())].concat());
        let mut answer = Vec::new();
        while let Some((kind, flags, 1 | 0, payload)) = connection.frame() {
            if kind == DATA {
                answer.extend(payload);
                if flags & END_STREAM != 0 {
                    break;
                }
            }
        }
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("no memory is left for this answer"), "{path}: {} bytes", answer.len());
    }
    let peek = server.post("/v1/peek", r#"{"attributes": {"user": "alice"}}"#);
    assert_eq!(peek.json()["used"], 0, "nothing was counted");
}

/// Asks 99 times over HTTP/2 on each of some connections and takes the heads of the answers, but no byte of a body.
/// Returns the connections, and how many answers are 200.
fn ask_and_read_nothing(address: SocketAddr, path: &str, connections: usize) -> (Vec<TcpStream>, u32) {
    const STREAMS: u32 = 99;
    const STATUS_200: u8 = 0x88;
    let mut ok = 0;
    let connections = (0..connections).map(|_| {
        let mut connection = Connection::open(address);
        let head = request("GET", path);
        let asked =
            (0..STREAMS).flat_map(|index| frame(HEADERS, END_HEADERS | END_STREAM, 2 * index + 1, &head));
        let asked: Vec<u8> = asked.collect();
        connection.send(&[PREFACE, &settings(&[(INITIAL_WINDOW_SIZE, 0)]), &asked].concat());
        let mut heads = 0;
        while heads < STREAMS {
            let (kind, _, _, payload) = connection.frame().expect("each is answered");
            heads += u32::from(kind == HEADERS);
            ok += u32::from(kind == HEADERS && payload.first() == Some(&STATUS_200));
        }
        connection.into_stream()
    });
    (connections.collect(), ok)
}

/// Each unread check took 6 KiB, of which the budget knew a quarter, and nothing was refused: 1,000 connections made the
/// service keep 600 MiB.
#[test]
fn checks_that_nobody_reads_are_bounded() {
    let server = Server::start(&["--limit", "1000000/1d", "--key", "user", "--body-memory", "4MiB"]);
    let before = most_resident(&server);
    let (connections, ok) = ask_and_read_nothing(server.public, "/v1/check?user=alice", 100);
    let grown = most_resident(&server).saturating_sub(before) / MIB;
    println!("{ok} answered; {grown} MiB");
    assert!(grown < 40, "{grown} MiB");
    // Whoever asks one thing at a time is answered, over both versions.
    assert_eq!(server.get("/v1/check?user=bob").status, 200);
    let mut other = server.connect();
    let head = frame(HEADERS, END_HEADERS | END_STREAM, 1, &request("GET", "/v1/check?user=bob"));
    other.send(&[PREFACE, &settings(&[]), &head].concat());
    let head = std::iter::from_fn(|| other.frame()).find(|(kind, ..)| *kind == HEADERS);
    assert_eq!(head.expect("an answer").3.first(), Some(&0x88), "the status is 200");
    // What was refused is not counted.
    let peek = server.post("/v1/peek", r#"{"attributes": {"user": "alice"}}"#);
    assert_eq!(peek.json()["used"], ok);
    drop((connections, other));
    until("all is given back", || server.metric("tollgate_http_body_memory_bytes") == Some(0.0));
}

/// Every unread copy of a document was kept: ten connections made the service keep 553 MiB of metrics, on a listener that
/// needs no token.
#[test]
fn documents_that_nobody_reads_are_bounded() {
    let folder = Folder::new();
    let policies = many_policies(&folder);
    let server =
        Server::start(&["--config", &policies, "--body-memory", "4MiB", "--metrics-listen", "127.0.0.1:0"]);
    let before = most_resident(&server);
    let metrics = server.metrics.expect("it has the listener");
    let listeners = [(metrics, "/metrics"), (server.admin, "/openapi.json"), (server.admin, "/v1/policies")];
    let connections: Vec<_> =
        listeners.iter().map(|(address, path)| ask_and_read_nothing(*address, path, 4)).collect();
    let grown = most_resident(&server).saturating_sub(before) / MIB;
    println!("{:?} answered; {grown} MiB", connections.iter().map(|(_, ok)| ok).collect::<Vec<_>>());
    assert!(grown < 40, "{grown} MiB");
    drop(connections);
    until("others have their documents", || server.admin_get("/openapi.json").status == 200);
}

/// A file whose policies make long documents.
fn many_policies(folder: &Folder) -> String {
    let policies = (0..200).map(|index| {
        format!("  - {{ name: policy-number-{index}, match: {{ path: /{index} }}, key: [user], quotas: [5/1m] }}\n")
    });
    folder.write("policies.yaml", &format!("policies:\n{}", policies.collect::<String>()))
}

/// A client that asks for a document again and again over HTTP/1.1, and reads nothing.
fn ask_and_never_read(address: SocketAddr, path: &str) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("it may be small");
        socket.connect(address).await.expect("the server listens").into_std().expect("a stream")
    });
    stream.set_nonblocking(false).expect("it can wait");
    let mut connection = Connection::of(stream);
    connection.send(&get(path).repeat(400));
    connection.into_stream()
}

/// An answer over HTTP/1.1 counted as answered before it was written, so a connection whose client does not read was
/// taken for an idle one: it was asked to close, which it could not, and a new client waited for two minutes.
#[test]
fn a_client_that_does_not_read_makes_room() {
    let folder = Folder::new();
    // Long, and made quickly: the service has to fill the buffers of the system before a write waits.
    let policies = many_policies(&folder);
    let server = Server::start(&["--config", &policies, "--max-connections", "3"]);
    let _deaf: Vec<TcpStream> = (0..3).map(|_| ask_and_never_read(server.admin, "/v1/policies")).collect();
    let cut =
        |reason: &str| server.metric(&format!("tollgate_http_connections_cut_total{{reason=\"{reason}\"}}"));
    assert!(cut("stalled") >= Some(1.0));
    assert_eq!(cut("idle"), Some(0.0));
}

/// Unread documents over HTTP/1.1 took memory that the budget did not know of.
#[test]
fn an_unread_document_holds_memory_over_http_1() {
    let folder = Folder::new();
    let policies = many_policies(&folder);
    let server = Server::start(&["--config", &policies]);
    let held = || server.metric("tollgate_http_body_memory_bytes");
    let mut deaf = ask_and_never_read(server.admin, "/v1/policies");
    until("a document holds memory", || {
        // The last piece of a document holds none. It may be that one which waits now.
        deaf.read(&mut [0; 64 * 1024]).expect("more than is ever read") > 0 && held() > Some(16.0 * 1024.0)
    });
    drop(deaf);
    until("all is given back", || held() == Some(0.0));
}

/// One small request a second kept a connection for ever, with all its unread answers: the service saw that something
/// was asked and answered, and not that all else stood still.
#[test]
fn a_client_that_reads_nothing_is_cut_however_much_it_asks() {
    let server = Server::start(&["--limit", "1000000/1d", "--key", "user", "--body-memory", "1MiB"]);
    let (connections, _) = ask_and_read_nothing(server.public, "/v1/check?user=alice", 10);
    let mut connections: Vec<Connection> = connections.into_iter().map(Connection::of).collect();
    let cut = || server.metric("tollgate_http_connections_cut_total{reason=\"stalled\"}");
    let held = || server.metric("tollgate_http_body_memory_bytes");
    let (head, cancel) = (request("GET", "/v1/check?user=alice"), 8_u32.to_be_bytes());
    let mut stream = 199;
    let began = Instant::now();
    // Until half of the memory is free, which is room enough.
    while cut() < Some(1.0) || held() > Some(512.0 * 1024.0) {
        assert!(began.elapsed() < HANG, "they keep their place: {:?} are cut", cut());
        let begin = frame(HEADERS, END_HEADERS | END_STREAM, stream, &head);
        let cancelled = [begin, frame(RST_STREAM, 0, stream, &cancel)].concat();
        connections.retain_mut(|connection| connection.try_send(&cancelled));
        stream += 2;
        thread::sleep(Duration::from_millis(300));
    }
}
