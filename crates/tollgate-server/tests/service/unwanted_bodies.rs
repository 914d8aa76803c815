//! Requests over HTTP/1.1 that are answered before their bodies have arrived.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;

use crate::support::folder::Folder;
use crate::support::{Connection, HANG, Server, get, post, undisturbed};

const TOKENS: &str = r#"{"name":"a","sha256":"0000000000000000000000000000000000000000000000000000000000000000","scopes":["check"]}"#;

fn with_tokens(folder: &Folder) -> Server {
    Server::start(&["--limit", "5/1d", "--tokens", &folder.write("tokens", &format!("{TOKENS}\n"))])
}

/// Sends a head, reads the answer, and then sends a body of this length. Returns the answer, up to a clean end.
fn answer_before_body(address: SocketAddr, head: &str, length: usize) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(HANG)).expect("a timeout can be set");
    let head = format!("{head} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n");
    stream.write_all(format!("{head}\r\n").as_bytes()).expect("it reads");
    let mut first = [0; 1];
    stream.read_exact(&mut first).expect("an answer");
    for _ in 0..length.div_ceil(1000) {
        stream.write_all(&[b' '; 1000]).expect("the body is read");
    }
    let mut answer = String::from_utf8_lossy(&first).into_owned();
    stream.read_to_string(&mut answer).expect("the answer ends without a reset");
    answer
}

/// The answer did not say that the connection ends, and then it was reset: clients saw a broken pipe in its place.
#[test]
fn a_refusal_ends_the_connection_and_reads_what_the_client_still_sends() {
    undisturbed(refusals);
}

fn refusals() {
    let folder = Folder::new();
    let (open, guarded) = (Server::start(&["--limit", "5/1d"]), with_tokens(&folder));
    for (address, head, length, status) in [
        (open.public, "POST /nothing", 20_000, 404),
        (open.public, "PUT /v1/check", 20_000, 405),
        (open.public, "POST /v1/check", 200_000, 413),
        (open.admin, "POST /v1/reset", 20_000, 415),
        (guarded.public, "POST /v1/check", 20_000, 401),
        (open.public, "GET /v1/check?user=a", 20_000, 200),
        (open.public, "GET /healthz", 20_000, 200),
    ] {
        let answer = answer_before_body(address, head, length);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
        assert!(answer.to_ascii_lowercase().contains("\r\nconnection: close\r\n"), "{head}: {answer}");
    }
}

#[test]
fn a_refusal_of_a_whole_request_keeps_the_connection() {
    let folder = Folder::new();
    let server = with_tokens(&folder);
    let mut connection = server.connect();
    for _ in 0..3 {
        for (path, status) in [("/nothing", 404), ("/v1/check", 401)] {
            let reply = connection.ask(&post(path, r#"{"attributes": {"user": "a"}}"#));
            assert_eq!((reply.status, reply.header("connection")), (status, None));
        }
        assert_eq!(connection.ask(&get("/healthz")).status, 200);
    }
}

/// Such a client waits for the answer, and need not send its body at all.
#[test]
fn a_client_that_asks_first_is_not_told_to_send_its_body() {
    let server = Server::start(&["--limit", "5/1d"]);
    for (path, status) in [("/nothing", 404), ("/v1/check", 413)] {
        let mut connection = server.connect();
        let head = "Host: a\r\nExpect: 100-continue\r\nContent-Length: 200000";
        connection.send(format!("POST {path} HTTP/1.1\r\n{head}\r\n\r\n").as_bytes());
        let reply = connection.reply().expect("an answer");
        assert_eq!((reply.status, reply.header("connection")), (status, Some("close")));
    }
    let mut connection = server.connect();
    connection
        .send(b"POST /v1/check HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 29\r\n\r\n");
    assert_eq!(connection.head().map(|reply| reply.status), Some(100));
    connection.send(br#"{"attributes": {"user": "a"}}"#);
    assert_eq!(connection.reply().map(|reply| reply.status), Some(200));
}

/// A client that still sends a head that is too long, or one that is not HTTP, found a reset in place of the answer.
#[test]
fn a_refused_head_is_read_to_its_end() {
    undisturbed(refused_heads);
}

fn refused_heads() {
    let server = Server::start(&["--limit", "5/1d"]);
    let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(100_000));
    for (head, status) in [(long.as_str(), 431), ("GET / HTTP/1.1\r\na b: c\r\n\r\n", 400)] {
        let mut connection = Connection::open(server.public);
        connection.send(head.as_bytes());
        assert_eq!(connection.reply().map(|reply| reply.status), Some(status));
        for _ in 0..50 {
            connection.send(&[b'x'; 1000]);
        }
        let mut stream = connection.into_stream();
        stream.shutdown(Shutdown::Write).expect("it is open");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("it ends without a reset");
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
}

/// Python's client sends head and body in two pieces, and saw 2 to 11 % broken pipes.
#[test]
fn pythons_client_sees_no_broken_pipe() {
    const SCRIPT: &str = r#"
import http.client, sys
failures = []
for address, statuses in ((sys.argv[1], (404, 405, 413, 415)), (sys.argv[2], (401,))):
    client = http.client.HTTPConnection(address, timeout=60)
    for number in range(200 * len(statuses)):
        status = statuses[number % len(statuses)]
        method = "PUT" if status == 405 else "POST"
        path = {404: "/nothing", 415: "/v1/check"}.get(status, "/v1/check")
        body = b" " * (70000 if status == 413 else 500)
        headers = {"Content-Type": "text/plain" if status == 415 else "application/json"}
        try:
            client.request(method, path, body, headers)
            answer = client.getresponse()
            answer.read()
            if answer.status != status:
                failures.append(f"{status}: {answer.status}")
        except Exception as error:
            failures.append(f"{status}: {error!r}")
            client.close()
print(len(failures), "of 1000", failures[:5])
sys.exit(bool(failures))
"#;
    let folder = Folder::new();
    let (open, guarded) = (Server::start(&["--limit", "5/1d"]), with_tokens(&folder));
    let addresses = [open.public, guarded.public].map(|address| address.to_string());
    let output = Command::new("python3").args(["-c", SCRIPT]).args(addresses).output();
    let output = output.expect("python3 is missing: install it, such as with `apt-get install python3`");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
