//! Hostile clients: malformed, slow and oversized requests.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Connection, HANG, Server, get, post, undisturbed};

#[test]
fn names_the_invalid_field() {
    let server = Server::start(&["--limit", "5/1d"]);
    let body = |body: &str, field: &str| server.post("/v1/check", body).assert_problem(400, Some(field));
    body("", "body");
    body("{", "body");
    body(r#"{"attributes": {"": 7}}"#, "attributes");
    body(r#"{"attributes": {"user": "alice"}, "": 7}"#, "body");
    body("[]", "body");
    body(r#"[{"user": "alice"}, 1]"#, "body");
    body(r#"{"attributes": {"user": 7}}"#, "attributes.user");
    body(r#"{"attributes": {"user": "alice"}, "cost": -1}"#, "cost");
    body(r#"{"attributes": {"user": "alice"}, "cost": 4294967296}"#, "cost");
    body(r#"{"attributes": {"user": "alice"}, "cost": 0.5}"#, "cost");
    body(r#"{"attributes": {"user": "alice"}, "price": 1}"#, "price");
    body(r#"{"attributes": {"user": "alice"}} {}"#, "body");
    let names: Vec<String> = (0..65).map(|index| format!("\"{index}\": \"x\"")).collect();
    body(&format!("{{\"attributes\": {{{}}}}}", names.join(", ")), "attributes");
    let query = |query: &str, field: &str| {
        server.get(&format!("/v1/check?{query}")).assert_problem(400, Some(field));
    };
    query("user=%", "query.user");
    query("=alice", "query");
    query("=%", "query");
    query("user=%ff", "query.user");
    query("user=alice&user=bob", "query.user");
    query("user=alice&cost=-1", "query.cost");
    query("user=alice&cost=", "query.cost");
    assert_eq!(server.metric("tollgate_store_counters"), Some(0.0));
}

/// A cost in the query of a POST was ignored, and one unit taken.
#[test]
fn a_post_with_a_query_is_refused() {
    let server = Server::start(&["--limit", "5/1d", "--key", "user"]);
    let body = r#"{"attributes": {"user": "alice"}}"#;
    server.post("/v1/check?cost=5", body).assert_problem(400, Some("query"));
    server.admin_post("/v1/reset?user=bob", body).assert_problem(400, Some("query"));
    assert_eq!(server.metric("tollgate_store_counters"), Some(0.0));
}

#[test]
fn a_body_is_json_of_64_kib_at_most() {
    let server = Server::start(&["--limit", "5/1d@first_hit"]);
    let padded = |length: usize| {
        let body = r#"{"attributes": {"user": "alice"}}"#;
        format!("{body}{}", " ".repeat(length - body.len()))
    };
    assert_eq!(server.post("/v1/check", &padded(64 * 1024)).status, 200);
    server.post("/v1/check", &padded(64 * 1024 + 1)).assert_problem(413, None);

    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let chunked =
        format!("POST /v1/check HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}1\r\n ");
    server.connect().ask(chunked.as_bytes()).assert_problem(413, None);

    let plain = String::from_utf8(post("/v1/check", &padded(64)))
        .expect("text")
        .replace("application/json", "text/plain");
    server.connect().ask(plain.as_bytes()).assert_problem(415, None);
    let charset = plain.replace("text/plain", "application/json; charset=utf-8");
    assert_eq!(server.connect().ask(charset.as_bytes()).status, 200);
    let none = plain.replace("Content-Type: text/plain\r\n", "");
    assert_eq!(server.connect().ask(none.as_bytes()).status, 200);
}

/// Such requests were answered 200. A proxy before the service may have understood them otherwise.
#[test]
fn a_request_names_its_host_once() {
    let server = Server::start(&["--limit", "5/1d"]);
    let ask = |version: &str, hosts: &str| {
        server.connect().ask(format!("GET /healthz HTTP/{version}\r\n{hosts}\r\n").as_bytes())
    };
    ask("1.1", "").assert_problem(400, None);
    ask("1.1", "Host: a\r\nHost: a\r\n").assert_problem(400, None);
    ask("1.1", "Host: a\r\nHost: b\r\n").assert_problem(400, None);
    assert_eq!(ask("1.1", "Host: a\r\n").status, 200);
    assert_eq!(ask("1.0", "").status, 200, "the older version knows no `Host`");
}

/// A body with two lengths. The chunked one counts (RFC 9112, section 6.3), and the bytes after it are never taken for
/// another request, whatever a proxy in front made of them.
#[test]
fn after_a_body_with_two_lengths_the_connection_is_closed() {
    let server = Server::start(&["--limit", "5/1d", "--key", "user"]);
    let body = r#"{"attributes": {"user": "alice"}}"#;
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for lengths in
        ["Content-Length: 4\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 4"]
    {
        let mut connection = server.connect();
        let smuggled = String::from_utf8(get("/v1/check?user=alice")).expect("text");
        let head = format!("POST /v1/check HTTP/1.1\r\nHost: test\r\n{lengths}\r\n\r\n");
        let reply = connection.ask(format!("{head}{chunked}{smuggled}").as_bytes());
        assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
        assert!(connection.is_closed());
    }
    assert_eq!(server.post("/v1/peek", body).json()["used"], 2);
}

#[test]
fn slow_heads_are_cut_off_after_five_seconds_and_idle_connections_are_not() {
    undisturbed(slow_heads);
}

fn slow_heads() {
    let server = Server::start(&["--limit", "5/1d"]);
    let started = Instant::now();
    let mut silent = server.connect();
    let mut slow = server.connect();
    slow.send(b"GET /healthz HTTP/1.1\r\nX: ");
    let mut slow_second = server.connect();
    assert_eq!(slow_second.ask(&get("/healthz")).status, 200);
    slow_second.send(b"GET /hea");
    let mut http2 = server.connect();
    http2.send(b"PRI * HTTP/2.0\r\n");
    let mut slow_body = server.connect();
    slow_body.send(b"POST /v1/check HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\n\r\n{");
    let mut idle = server.connect();
    assert_eq!(idle.ask(&get("/healthz")).status, 200);

    // A byte a second keeps nobody here.
    while slow.try_send(b"x") {
        std::thread::sleep(Duration::from_secs(1));
        assert!(started.elapsed() < HANG, "a slow head is waited for");
    }
    slow_body.reply().expect("an answer").assert_problem(408, None);
    for connection in [&mut silent, &mut slow, &mut slow_second, &mut http2] {
        assert!(connection.is_closed());
    }
    assert!(started.elapsed() > Duration::from_millis(4_500), "{:?}", started.elapsed());
    assert_eq!(idle.ask(&get("/healthz")).status, 200);
}

/// Ten lines a second filled the log while there were no file descriptors.
#[test]
fn logs_once_that_no_connection_can_be_accepted() {
    let log_after = |wait| {
        let mut few_files = Command::new("sh");
        few_files.args(["-c", r#"ulimit -n 24; exec "$@""#, "sh", env!("CARGO_BIN_EXE_tollgate")]);
        let server = Server::start_by(few_files, &["--limit", "5/1d"]);
        // The fewest that are served on each listener are too many for so low a limit.
        let connection_pair = |_| [server.connect(), Connection::open(server.admin)];
        let connections: Vec<_> = (0..20).map(connection_pair).collect();
        // Real time: the service takes the connections meanwhile, or not.
        std::thread::sleep(wait);
        drop(connections);
        server.signal("TERM");
        server.wait().1
    };
    // On a machine that is busy it may not have come to it sooner.
    let logs = [600, 3_000, 15_000].map(Duration::from_millis).into_iter().map(log_after);
    let said = |log: String| {
        ["checks", "admin"].map(|listener| {
            let is_its = |line: &&str| {
                line.contains("cannot accept connections")
                    && line.contains(&format!("listener=\"{listener}\""))
            };
            log.lines().filter(is_its).count()
        })
    };
    let counts = logs.map(said).find(|counts| *counts != [0, 0]);
    assert!(counts.is_some_and(|counts| counts.iter().all(|count| *count <= 1)), "{counts:?}");
}

#[test]
fn thousands_of_malformed_requests_are_refused_and_harm_nothing() {
    let server = Server::start(&["--limit", "1000000/1d", "--key", "user", "--caller-quotas"]);
    let mut random = Random(0x7011_6a7e);
    let (mut taken, mut refused) = (0, 0);
    let mut kept = server.connect();
    let mut kept_admin = Connection::open(server.admin);
    for round in 0..4_000 {
        let request = match round % 4 {
            0 => post(random.path(), &random.body()),
            1 => get(&format!("/v1/check?{}", random.query())),
            2 => random.head(),
            _ => random.bytes(),
        };
        let admin = random.below(4) == 0;
        let connection = if admin { &mut kept_admin } else { &mut kept };
        let sent = connection.try_send(&request);
        // What is no HTTP ends the connection, with or without an answer; so does what looks unfinished.
        let reply = if sent && round % 4 < 2 { connection.reply() } else { None };
        if let Some(reply) = &reply {
            assert!(reply.status < 500, "{reply:?} to {}", String::from_utf8_lossy(&request));
            *if reply.status < 400 { &mut taken } else { &mut refused } += 1;
            if reply.status >= 400 && reply.status != 414 && reply.status != 431 {
                let kind = reply.header("content-type");
                assert!(reply.body.is_empty() || kind == Some("application/problem+json"), "{reply:?}");
            }
        }
        if reply.is_none() {
            let last = if sent && round % 4 >= 2 { connection.finish() } else { None };
            if let Some(reply) = last {
                assert!(reply.status < 500, "{reply:?} to {}", String::from_utf8_lossy(&request));
            }
            *connection = if admin { Connection::open(server.admin) } else { server.connect() };
        }
    }
    assert!(taken > 50 && refused > 1_500, "{taken} taken, {refused} refused");
    assert_eq!(server.get("/v1/check?user=alice").status, 200);
    assert_eq!(server.admin_get("/readyz").status, 200);
    server.signal("TERM");
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0));
    assert!(!log.contains("panicked"), "{log}");
}

/// xorshift64*: the same requests in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    fn path(&mut self) -> &'static str {
        self.pick(&[
            "/v1/check",
            "/v1/peek",
            "/v1/check/batch",
            "/v1/count",
            "/v1/count/batch",
            "/v1/refund",
            "/v1/reserve",
            "/v1/reserve/batch",
            "/v1/renew",
            "/v1/settle",
            "/v1/reset",
            "/v1/set",
            "/nothing",
        ])
    }

    /// Returns nearly valid JSON with invalid parts, sometimes cut off.
    fn body(&mut self) -> String {
        const NAMES: &[&str] = &[
            "attributes",
            "cost",
            "requests",
            "windows",
            "version",
            "hold",
            "id",
            "units",
            "expires_after",
            "policy",
            "quota",
            "quotas",
            "window",
            "operation",
            "start",
            "used",
            "user",
            "",
            "é\\u0000",
            "\\ud800",
        ];
        let mut body = String::new();
        if self.below(3) == 0 {
            body.push_str(r#"{"attributes": {"user": "alice"}, "cost": "#);
            self.value(&mut body, 1, NAMES);
            body.push('}');
        } else {
            self.value(&mut body, 0, NAMES);
        }
        if self.below(8) == 0 {
            let mut cut = self.below(body.len() + 1);
            while !body.is_char_boundary(cut) {
                cut -= 1;
            }
            body.truncate(cut);
        }
        body
    }

    fn value(&mut self, text: &mut String, depth: usize, names: &[&str]) {
        const LEAVES: &[&str] = &[
            "null",
            "true",
            "-1",
            "0",
            "1",
            "4294967296",
            "1e999",
            "-0.0",
            "1.5",
            "\"\"",
            "\"alice\"",
            "\"\\ud800\"",
            "\"\u{7f}\"",
            "99999999999999999999999",
            "nul",
            "'x'",
            "{\"user\": \"alice\"}",
            "[",
            "}",
            "\u{feff}",
        ];
        let choice = if depth == 0 { 0 } else { self.below(4) };
        match choice {
            0 if depth < 6 => {
                text.push('{');
                for index in 0..self.below(4) {
                    text.push_str(if index == 0 { "" } else { "," });
                    text.push_str(&format!("\"{}\":", self.pick(names)));
                    self.value(text, depth + 1, names);
                }
                text.push('}');
            }
            1 if depth < 6 => {
                text.push_str(&"[".repeat(if self.below(50) == 0 { 500 } else { 1 }));
                self.value(text, depth + 1, names);
                text.push(']');
            }
            _ => text.push_str(self.pick(LEAVES)),
        }
    }

    fn query(&mut self) -> String {
        const PIECES: &[&str] = &[
            "user",
            "cost",
            "=",
            "&",
            "%",
            "%4",
            "%zz",
            "%ff",
            "%00",
            "%C3%A9",
            "+",
            "?",
            ";",
            "alice",
            "-1",
            "4294967296",
            "1",
            "user=alice&",
            "cost=1&",
            "%25",
            "[]",
            "\"",
            "<",
            "\\",
            "é",
        ];
        let start = self.pick(&["user=alice&", ""]);
        (0..self.below(12)).map(|_| self.pick(PIECES)).fold(start.to_owned(), |query, piece| query + piece)
    }

    /// Returns a nearly valid head.
    fn head(&mut self) -> Vec<u8> {
        const LINES: &[&str] = &[
            "Host: test",
            "Host:",
            ": x",
            "Content-Length: 5",
            "Content-Length: -1",
            "Content-Length: 99999999999999999999",
            "Transfer-Encoding: chunked",
            "Transfer-Encoding: nonsense",
            "Connection: upgrade",
            "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABkAAQAAP__",
            "Expect: 100-continue",
            "Expect: nonsense",
            "Content-Type: \u{1}",
            "X y: z",
            "X: \0",
            "Content-Type: application/json",
            "Content-Encoding: gzip",
            " folded",
            "Cookie: é",
        ];
        let method =
            self.pick(&["GET", "POST", "HEAD", "PUT", "CONNECT", "TRACE", "get", "", "G\u{e9}T", "PRI"]);
        let target = self.pick(&[
            "/v1/check?user=a",
            "*",
            "/",
            "",
            "http://x/v1/check?user=a",
            "x:1",
            "/%",
            "//",
            "/\u{e9}",
        ]);
        let version = self.pick(&["HTTP/1.1", "HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/1.1 ", "", "\0"]);
        let mut head = format!("{method} {target} {version}\r\n");
        for _ in 0..self.below(5) {
            head.push_str(self.pick(LINES));
            head.push_str(self.pick(&["\r\n", "\r\n", "\r\n", "\n", "\r", ""]));
        }
        if self.below(40) == 0 {
            head.push_str(&format!("X: {}\r\n", "x".repeat(100_000)));
        }
        head.push_str("\r\n");
        head.push_str(self.pick(&["", "5\r\n{}", "ffffffffffffffff1\r\n", "{}"]));
        head.into_bytes()
    }

    fn bytes(&mut self) -> Vec<u8> {
        let prefix: &[u8] =
            [&b""[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01"]
                [self.below(4)];
        let noise = (0..self.below(200)).map(|_| self.next() as u8);
        let noise: Vec<u8> = noise.collect();
        [prefix, &noise].concat()
    }
}
