//! Authorization by the file of `--tokens`.
//!
//! The expected results are tables in this file, independent of the service's own.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

mod client_certificates;
mod matrix;
mod tokens;

use std::net::SocketAddr;
use std::process::Output;

use serde_json::Value;

use crate::support::{Connection, Reply, tollgate};

const POLICIES: &str = "
policies:
  - name: search
    match: { any: [{ name: search }, { header.x-name: search }] }
    key: { first_of: [key, header.x-key] }
    quotas: [1000000/1d@first_hit]
  - { name: login, match: { name: login }, key: [key], quotas: [1000000/1d@first_hit] }
";

/// Returns a token and the line of its principal, as the command prints them.
fn new_token(name: &str, more: &[&str]) -> (String, String) {
    let Output { status, stdout, .. } =
        tollgate().args(["token", "new", "--json", "--name", name]).args(more).output().expect("it runs");
    assert!(status.success());
    let printed: Value = serde_json::from_slice(&stdout).expect("JSON");
    let text = |field: &str| printed[field].as_str().expect("a text").to_owned();
    (text("token"), text("line"))
}

fn request(method: &str, path: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\n{kind}{headers}Content-Length: {length}\r\n\r\n");
    (head + body).into()
}

fn ask(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
    let mut connection = Connection::open(address);
    connection.send(&request(method, path, headers, body));
    let reply = if method == "HEAD" { connection.head() } else { connection.reply() };
    reply.expect("an answer comes")
}

/// The policies behind the rules of LeetDezine's study.
const RULED_POLICIES: &str = "
policies:
  - { name: search, match: { endpoint: /search }, key: [user], quotas: [1000000/1d@first_hit] }
  - { name: login, match: { endpoint: /login }, key: [user], quotas: [1000000/1d@first_hit] }
";

/// The data that a cell of the matrix concerns.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Concerns {
    /// No counter.
    Nothing,
    /// The counter of `search`.
    Search,
    /// The same counter, in one request of a batch.
    SearchInBatch,
    /// All policies.
    All,
    /// The overrides of the policy that fits, which is `search`.
    FittingPolicy,
    /// No counter, because the request is invalid.
    Nonsense,
}

struct Operation {
    method: &'static str,
    path: &'static str,
    headers: &'static [&'static str],
    body: &'static str,
    /// The listener that answers it.
    listeners: &'static [&'static str],
    /// Scopes, one of which is needed; a problem names the first. Empty if everybody may use the operation.
    scopes: &'static [&'static str],
    concerns: Concerns,
}

const fn operation(
    method: &'static str,
    path: &'static str,
    body: &'static str,
    listeners: &'static [&'static str],
    scopes: &'static [&'static str],
    concerns: Concerns,
) -> Operation {
    Operation { method, path, headers: &[], body, listeners, scopes, concerns }
}

const ALICE: &str = r#"{"attributes": {"name": "search", "key": "alice"}}"#;

const BATCH: &str = r#"{"requests": [{"attributes": {"name": "search", "key": "alice"}}]}"#;

const FORWARD: &[&str] = &[
    "X-Forwarded-Method: GET",
    "X-Forwarded-Uri: /",
    "X-Forwarded-Host: a.example",
    "X-Forwarded-For: 192.0.2.7",
    "X-Name: search",
    "X-Key: alice",
];

const SET: &str = r#"{"attributes": {"name": "search", "key": "alice"}, "used": 7}"#;

const COUNT: &str =
    r#"{"attributes": {"key": "alice"}, "policy": "search", "quotas": ["1000000/1d@first_hit"]}"#;

const COUNT_BATCH: &str = r#"{"requests": [
    {"attributes": {"key": "alice"}, "policy": "search", "quotas": ["1000000/1d@first_hit"]}
]}"#;

const REFUND: &str = r#"{"attributes": {"name": "search", "key": "alice"}, "version": 1,
    "windows": [{"policy": "search", "quota": "1000000/1d@first_hit", "start": 0}]}"#;

/// As the policy has it, so that counts do not change.
const OVERRIDE: &str =
    r#"{"policy": "search", "attributes": {"key": "alice"}, "quotas": ["1000000/1d@first_hit"]}"#;

const OVERRIDDEN: &str = r#"{"policy": "search", "attributes": {"key": "alice"}}"#;

const OVERRIDES: &[&str] = &["overrides"];

const RULE: &str =
    r#"{"endpoint": "/search", "dimension": "per_user", "limit": 9, "window_seconds": 60, "tier": "gold"}"#;

const QUERY: &str = "/v1/check?name=search&key=alice";

const EVERYWHERE: &[&str] = &["checks", "admin", "metrics"];

const PUBLIC: &[&str] = &["checks"];

const ADMIN: &[&str] = &["admin"];

const READ: &[&str] = &["read"];

/// What a proxy asks about.
const fn forwarded(method: &'static str) -> Operation {
    let asked = operation(method, "/forward-auth", "", PUBLIC, &["check"], Concerns::Search);
    Operation { headers: FORWARD, ..asked }
}

const OPERATIONS: [Operation; 55] = {
    use Concerns::{All, Nothing, Search, SearchInBatch};
    [
        operation("POST", "/v1/check", ALICE, PUBLIC, &["check"], Search),
        operation("GET", QUERY, "", PUBLIC, &["check"], Search),
        operation("POST", "/v1/check/batch", BATCH, PUBLIC, &["check"], SearchInBatch),
        operation("GET", "/evaluate?name=search&key=alice", "", PUBLIC, &["check"], Search),
        forwarded("GET"),
        forwarded("POST"),
        operation("POST", "/v1/peek", ALICE, PUBLIC, &["peek"], Search),
        operation("POST", "/v1/count", COUNT, PUBLIC, &["count"], Search),
        operation("POST", "/v1/count/batch", COUNT_BATCH, PUBLIC, &["count"], SearchInBatch),
        operation("POST", "/v1/refund", REFUND, ADMIN, &["change"], Search),
        operation("POST", "/v1/reserve", ALICE, PUBLIC, &["check"], Search),
        operation("POST", "/v1/reserve/batch", BATCH, PUBLIC, &["check"], SearchInBatch),
        // This is not a hold, so nobody can renew or settle it.
        operation("POST", "/v1/renew", r#"{"hold": "none"}"#, PUBLIC, &["check"], Concerns::Nonsense),
        operation(
            "POST",
            "/v1/settle",
            r#"{"hold": "none", "cost": 1}"#,
            PUBLIC,
            &["check"],
            Concerns::Nonsense,
        ),
        operation("POST", "/v1/renew/batch", r#"{"requests": []}"#, PUBLIC, &["check"], Concerns::Nonsense),
        operation("POST", "/v1/settle/batch", r#"{"requests": []}"#, PUBLIC, &["check"], Concerns::Nonsense),
        operation("POST", "/v1/record", ALICE, ADMIN, &["change"], Search),
        operation("POST", "/v1/record/batch", BATCH, ADMIN, &["change"], SearchInBatch),
        operation("POST", "/v1/reset", ALICE, ADMIN, &["change"], Search),
        operation("POST", "/v1/set", SET, ADMIN, &["change"], Search),
        operation("PUT", "/v1/overrides", OVERRIDE, ADMIN, OVERRIDES, Search),
        operation("POST", "/v1/overrides/get", OVERRIDDEN, ADMIN, OVERRIDES, Search),
        operation("GET", "/v1/overrides", "", ADMIN, OVERRIDES, Nothing),
        operation("HEAD", "/v1/overrides", "", ADMIN, OVERRIDES, Nothing),
        operation("POST", "/v1/overrides/delete", OVERRIDDEN, ADMIN, OVERRIDES, Search),
        operation("POST", "/v1/policies/reload", "{}", ADMIN, &["policies"], All),
        operation("GET", "/v1/policies", "", ADMIN, READ, Nothing),
        operation("HEAD", "/v1/policies", "", ADMIN, READ, Nothing),
        operation("GET", "/v1/policies/schema", "", ADMIN, READ, Nothing),
        operation("HEAD", "/v1/policies/schema", "", ADMIN, READ, Nothing),
        operation("POST", "/v1/inspect", ALICE, ADMIN, READ, Search),
        operation("GET", "/v1/policies/history", "", ADMIN, READ, All),
        operation("HEAD", "/v1/policies/history", "", ADMIN, READ, All),
        operation("GET", "/v1/live", "", ADMIN, READ, All),
        operation("HEAD", "/v1/live", "", ADMIN, READ, All),
        operation("GET", "/v1/live/series", "", ADMIN, READ, All),
        operation("HEAD", "/v1/live/series", "", ADMIN, READ, All),
        operation("GET", "/v1/talkers?policy=search", "", ADMIN, READ, Search),
        operation("HEAD", "/v1/talkers?policy=search", "", ADMIN, READ, Search),
        operation("GET", "/v1/whatif?policy=search&quota=5/1m", "", ADMIN, READ, Search),
        operation("HEAD", "/v1/whatif?policy=search&quota=5/1m", "", ADMIN, READ, Search),
        // The files of the live page hold no data.
        operation("GET", "/ui/", "", ADMIN, &[], Nothing),
        operation("HEAD", "/ui/", "", ADMIN, &[], Nothing),
        operation("GET", "/openapi.json", "", ADMIN, READ, Nothing),
        operation("HEAD", "/openapi.json", "", ADMIN, READ, Nothing),
        operation("GET", "/metrics", "", &["admin", "metrics"], &["metrics", "read"], All),
        operation("HEAD", "/metrics", "", &["admin", "metrics"], &["metrics", "read"], All),
        operation("GET", "/actuator/prometheus", "", &["admin", "metrics"], &["metrics", "read"], All),
        operation("HEAD", "/actuator/prometheus", "", &["admin", "metrics"], &["metrics", "read"], All),
        operation("GET", "/actuator/health", "", EVERYWHERE, &[], Nothing),
        operation("HEAD", "/actuator/health", "", EVERYWHERE, &[], Nothing),
        operation("GET", "/healthz", "", EVERYWHERE, &[], Nothing),
        operation("HEAD", "/healthz", "", EVERYWHERE, &[], Nothing),
        operation("GET", "/readyz", "", EVERYWHERE, &[], Nothing),
        operation("HEAD", "/readyz", "", EVERYWHERE, &[], Nothing),
    ]
};

/// With `--answers leetdezine`.
const RULE_OPERATIONS: [Operation; 1] =
    [operation("POST", "/api/v1/rules", RULE, ADMIN, OVERRIDES, Concerns::FittingPolicy)];

/// The caller in a cell of the matrix.
struct Principal {
    name: &'static str,
    /// The header that it sends to identify itself.
    shown: Vec<String>,
    is_known: bool,
    scopes: &'static [&'static str],
    /// The policy that it may use; `None` for all.
    policy: Option<&'static str>,
}

const ALL_SCOPES: &[&str] =
    &["check", "peek", "count", "change", "read", "metrics", "policies", "overrides", "keys"];

/// Returns the status of a cell, and of the request in a batch.
fn expected(principal: &Principal, operation: &Operation, listener: &str) -> (u16, u16) {
    let alone = |status| (status, status);
    if !operation.listeners.contains(&listener) {
        return alone(404);
    }
    let Some(needed) = operation.scopes.first() else { return alone(200) };
    if *needed == "metrics" && listener == "metrics" {
        return alone(200);
    }
    if !principal.is_known {
        return alone(401);
    }
    if !operation.scopes.iter().any(|scope| principal.scopes.contains(scope)) {
        return alone(403);
    }
    match (operation.concerns, principal.policy) {
        (Concerns::All, Some(_)) => alone(403),
        (Concerns::Search, Some("login")) => alone(403),
        (Concerns::SearchInBatch, Some("login")) => (200, 403),
        // It does not learn that there is such a policy.
        (Concerns::FittingPolicy, Some("login")) => alone(409),
        (Concerns::Nonsense, _) => alone(400),
        _ => alone(200),
    }
}

/// The page that publishes the number of cells was left behind by new operations.
fn assert_published(cells: usize, follows: &str) {
    let page = include_str!("../../../../../SECURITY.md");
    let number = format!("{},{:03} ", cells / 1_000, cells % 1_000);
    let number = format!("in {} {follows}", number.trim_start_matches("0,").trim_end());
    assert!(page.to_lowercase().contains(&number), "SECURITY.md does not say: {number}");
}
