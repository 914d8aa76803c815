//! Requests that a page of another site can send through its visitor's browser.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::net::SocketAddr;

use crate::support::{Connection, Reply, Server};

const ALICE: &str = r#"{"attributes": {"user": "alice"}}"#;
const JSON: &str = "Content-Type: application/json";

/// Operations that change counters or policies, with valid bodies.
const CHANGES: [(&str, &str); 4] = [
    ("/v1/refund", r#"{"attributes": {"user": "alice"}, "version": 1, "windows": []}"#),
    ("/v1/reset", ALICE),
    ("/v1/set", r#"{"attributes": {"user": "alice"}, "used": 0}"#),
    ("/v1/policies/reload", "{}"),
];
const READS: [&str; 4] = ["/v1/policies", "/v1/policies/schema", "/metrics", "/openapi.json"];

fn ask(address: SocketAddr, request: &str, headers: &[&str], body: &str) -> Reply {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let request = format!("{request} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
    Connection::open(address).ask(request.as_bytes())
}

/// A page could post an untyped Blob, a form could reach `/v1/policies/reload`, and a page that rebound its host name
/// to 127.0.0.1 could read and change everything. Each was answered 200.
#[test]
fn a_page_of_another_site_changes_and_reads_nothing() {
    let server = Server::start(&["--limit", "5/1d", "--key", "user"]);
    server.get("/v1/check?user=alice&cost=3");
    let local = format!("Host: {}", server.admin);
    for (path, body) in CHANGES {
        let post = |headers: &[&str]| ask(server.admin, &format!("POST {path}"), headers, body);
        for kind in [
            "X-None: 1",
            "Content-Type: text/plain",
            "Content-Type: application/x-www-form-urlencoded",
            "Content-Type: multipart/form-data; boundary=x",
        ] {
            post(&[&local, kind]).assert_problem(415, None);
        }
        for foreign in [
            "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Site: same-site",
            "Origin: http://evil.example",
            "Origin: null",
        ] {
            post(&[&local, JSON, foreign]).assert_problem(403, None);
        }
        post(&["Host: evil.example", JSON]).assert_problem(403, None);
        post(&["Host: evil.example", JSON, "Origin: http://evil.example", "Sec-Fetch-Site: same-origin"])
            .assert_problem(403, None);
    }
    for path in READS {
        for method in ["GET", "HEAD"] {
            let read = |headers: &[&str]| {
                let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
                let mut connection = Connection::open(server.admin);
                connection.send(format!("{method} {path} HTTP/1.1\r\n{headers}\r\n").as_bytes());
                connection.head().expect("an answer").status
            };
            assert_eq!(read(&[&local]), 200, "{path}");
            assert_eq!(read(&["Host: evil.example"]), 403, "{path}");
            assert_eq!(read(&[&local, "Sec-Fetch-Site: cross-site"]), 403, "{path}");
            assert_eq!(read(&[&local, "Origin: http://evil.example"]), 403, "{path}");
        }
    }
    let refused = server.metric(r#"tollgate_http_requests_rejected_total{status="403"}"#);
    assert_eq!(refused, Some(4.0 * 6.0 + 8.0 * 3.0));
    assert_eq!(server.post("/v1/peek", ALICE).json()["used"], 3);
}

#[test]
fn own_pages_and_clients_that_are_no_browser_are_answered() {
    let server =
        Server::start(&["--limit", "5/1d", "--key", "user", "--allowed-host", "a.example,b.example"]);
    let port = server.admin.port();
    for host in ["127.0.0.1", "[::1]", "localhost", "192.0.2.1", "a.example", "B.Example"] {
        let (host, origin) = (format!("Host: {host}:{port}"), format!("Origin: http://{host}:{port}"));
        for headers in [
            &[&host[..], JSON][..],
            &[&host, JSON, &origin],
            &[&host, JSON, &origin, "Sec-Fetch-Site: same-origin"],
            &[&host, JSON, "Sec-Fetch-Site: none"],
        ] {
            assert_eq!(ask(server.admin, "POST /v1/reset", headers, ALICE).status, 200, "{headers:?}");
            assert_eq!(ask(server.admin, "GET /metrics", headers, "").status, 200, "{headers:?}");
        }
    }
    let reply = ask(server.admin, "GET /metrics", &["Host: c.example"], "");
    assert!(reply.json()["detail"].as_str().is_some_and(|detail| detail.contains("`--allowed-host NAME`")));
    let authority = ask(server.admin, "GET http://c.example/metrics", &["Host: a.example"], "");
    assert_eq!(authority.status, 403, "what stands in the path goes before `Host`");
}

/// They may come from the operator's own pages, under any host name.
#[test]
fn checks_and_probes_accept_any_host_and_origin() {
    let server = Server::start(&["--limit", "50/1d", "--answers", "leetdezine"]);
    let foreign = ["Host: evil.example", "Origin: http://other.example", "Sec-Fetch-Site: cross-site"];
    let batch = format!(r#"{{"requests": [{ALICE}]}}"#);
    for (request, body) in [
        ("POST /v1/check", ALICE),
        ("GET /v1/check?user=alice", ""),
        ("POST /v1/check/batch", &batch),
        ("POST /v1/peek", ALICE),
        ("GET /api/v1/rate_limit?user_id=a&endpoint=/", ""),
        ("GET /healthz", ""),
        ("GET /readyz", ""),
    ] {
        assert_eq!(ask(server.public, request, &foreign, body).status, 200, "{request}");
    }
    for probe in ["GET /healthz", "GET /readyz"] {
        assert_eq!(ask(server.admin, probe, &foreign, "").status, 200, "{probe}");
    }
}

#[test]
fn refuses_an_invalid_allowed_host_at_the_start() {
    for name in ["a.example:80", "http://a.example", "", "*", "a b"] {
        let flags = ["serve", "--limit", "5/1m", "--allowed-host", name];
        let output = crate::support::tollgate().args(flags).output().expect("it runs");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), said.contains("without a port")), (Some(2), true), "{said}");
    }
}
