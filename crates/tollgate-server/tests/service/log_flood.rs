//! Clients that try to fill the log: no request, frame or connection of theirs has a line of its own.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::time::Instant;

use crate::support::folder::Folder;
use crate::support::http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, fields,
    frame, request, settings,
};
use crate::support::{Connection, Server, get, post, tollgate};

/// The flag of PING and SETTINGS that are answers.
const ACK: u8 = 1;

/// Returns the lines that clients have caused since the start.
fn lines(server: Server) -> Vec<String> {
    server.signal("TERM");
    let (_, log) = server.wait();
    let own = ["started", "draining", "stopped"];
    log.lines().filter(|line| !own.iter().any(|own| line.contains(own))).map(str::to_owned).collect()
}

/// Sends the frames, and waits until the service has read all of them or has ended the connection.
fn send(connection: &mut Connection, frames: &[u8]) {
    let last = frame(PING, 0, 0, b"the last");
    if connection.try_send(&[frames, &last].concat()) {
        while connection.frame().is_some_and(|(kind, flags, _, payload)| {
            (kind, flags & ACK, &*payload) != (PING, ACK, b"the last")
        }) {}
    }
}

fn http2(server: &Server) -> Connection {
    let mut connection = server.connect();
    connection.send(&[PREFACE, &settings(&[])].concat());
    connection
}

/// One connection that sent PING frames as answers to nothing made the HTTP/2 library log a warning for each: 25 MB of
/// log a second, on any listener, without a token.
#[test]
fn frames_that_nobody_asked_for_leave_no_line_each() {
    for filter in [None, Some("info"), Some("warn")] {
        let mut command = tollgate();
        command.envs(filter.map(|filter| ("RUST_LOG", filter)));
        let server = Server::start_by(command, &["--limit", "5/1d"]);
        let mut connection = http2(&server);
        send(&mut connection, &frame(PING, ACK, 0, b"unasked!").repeat(2_000));
        assert!(connection.try_send(&frame(PING, 0, 0, b"is alive")), "it was read to its end");
        let lines = lines(server);
        assert!(lines.len() <= 1, "{filter:?}: {} lines, such as {:?}", lines.len(), lines[0]);
    }
}

#[test]
fn frames_against_the_rules_leave_no_line_each() {
    let server = Server::start(&["--limit", "5/1d"]);
    let head = |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &request("GET", "/healthz"));
    let reset = |stream| frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    let http1_fields = fields(&[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/healthz"),
        (":authority", "localhost"),
        ("connection", "keep-alive"),
        ("te", "gzip"),
    ]);
    let on_each =
        |frames: &dyn Fn(u32) -> Vec<u8>| (0..100).flat_map(|it| frames(2 * it + 1)).collect::<Vec<u8>>();
    let floods = [
        on_each(&|stream| [head(stream), reset(stream)].concat()),
        on_each(&|stream| [head(stream), frame(DATA, 0, stream, b"late")].concat()),
        on_each(&|stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &http1_fields)),
        on_each(&|stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &fields(&[(":method", "GET")]))),
        on_each(&|stream| [head(stream), frame(WINDOW_UPDATE, 0, stream, &[0x7f; 4])].concat()),
        frame(SETTINGS, ACK, 0, b"").repeat(100),
        frame(0xbe, 0, 0, b"unknown").repeat(100),
        frame(HEADERS, END_HEADERS, 2, &request("GET", "/healthz")),
    ];
    for flood in &floods {
        for _ in 0..10 {
            send(&mut http2(&server), flood);
        }
    }
    let lines = lines(server);
    assert!(lines.len() <= 1, "{} lines: {lines:#?}", lines.len());
}

#[test]
fn requests_over_http1_leave_no_line_each() {
    let server = Server::start(&["--limit", "1/1d", "--grpc", "127.0.0.1:0"]);
    for wrong in [
        &b"GET / HTTP/9.9\r\n\r\n"[..],
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
        b"GET /forward-auth HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n{",
        &get("/v1/check?user=a"),
        &get("/nothing"),
    ] {
        for address in [server.public, server.admin, server.grpc.expect("an address")] {
            for _ in 0..20 {
                let mut connection = Connection::open(address);
                connection.try_send(wrong);
                let _ = connection.finish();
            }
        }
    }
    let lines = lines(server);
    // One for each kind of event: a denial, a refused proxy, a refused call, connections that were cut.
    assert!(lines.len() <= 5, "{} lines: {lines:#?}", lines.len());
}

/// Anyone with the scope `policies` could write a line with each request. It was still so for warnings about Envoy's
/// limits, and for a store that differs from the one in use.
#[test]
fn requests_to_reload_leave_no_line_each() {
    const POLICIES: &str = "policies: [{ name: a, key: [user], quotas: [5/1m] }]\n";
    // Each of these descriptors has a warning.
    let descriptor = |number: u32| format!("- {{ key: k{number}, shadow_mode: true }}\n");
    let domain: String = (0..150).map(descriptor).collect();
    let folder = Folder::new();
    folder.write("limits.yaml", &format!("domain: d\ndescriptors:\n{domain}"));
    let root = folder.root().to_str().expect("a path in UTF-8");
    let domains = Server::start(&["--import", "envoy-ratelimit", root]);
    let log = reload(domains, 100, "warnings about limits");
    assert_eq!(log.iter().filter(|line| line.contains("limits.yaml:")).count(), 100, "{}", log.len());
    assert_eq!(log.iter().filter(|line| line.contains("more=50")).count(), 1, "{}", log.len());

    let folder = Folder::new();
    let file = folder.write("p.yaml", POLICIES);
    let _ = reload(Server::start(&["--config", &file]), 0, "nothing");
    let server = Server::start(&["--config", &file]);
    folder.write("p.yaml", &format!("store: {{ url: 'redis://127.0.0.1:1' }}\n{POLICIES}"));
    let log = reload(server, 0, "another store");
    assert_eq!(log.iter().filter(|line| line.contains("`store:` has changed")).count(), 1, "{log:?}");
}

/// Requests 100 reloads, and returns the lines of the log: at most one a second, and `others`.
fn reload(server: Server, others: usize, case: &str) -> Vec<String> {
    let began = Instant::now();
    let mut connection = Connection::open(server.admin);
    for _ in 0..100 {
        assert_eq!(connection.ask(&post("/v1/policies/reload", "")).status, 200, "{case}");
    }
    let lines = lines(server);
    // One for each second that began, one that an interval noticed, and one for each kind of warning.
    let most = others + 4 + usize::try_from(began.elapsed().as_secs()).expect("a test is short");
    assert!(lines.len() <= most, "{case}: {} lines: {:?}", lines.len(), lines[0]);
    lines
}
