//! Authorization by the file of `--tokens`.
//!
//! The expected results are tables in this file, independent of the service's own.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::SanType;
use serde_json::{Value, json};

use crate::certificates::{Authority, Client, Identity};
use crate::support::folder::Folder;
use crate::support::{Connection, EVERY_LINE, Reply, Server, tollgate, until};

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
/// What a client of a proxy sends, in the words of the proxy.
const FORWARDED: &str = r#"{"attributes": {"header.x-name": "search", "header.x-key": "alice"}}"#;
const FORWARD: &[&str] = &[
    "X-Forwarded-Method: GET",
    "X-Forwarded-Uri: /",
    "X-Forwarded-Host: a.example",
    "X-Forwarded-For: 192.0.2.7",
    "X-Name: search",
    "X-Key: alice",
];
const SET: &str = r#"{"attributes": {"name": "search", "key": "alice"}, "used": 7}"#;
const REFUND: &str = r#"{"attributes": {"name": "search", "key": "alice"}, "version": 1,
    "windows": [{"policy": "search", "quota": "1000000/1d@first_hit", "start": 0}]}"#;
const QUERY: &str = "/v1/check?name=search&key=alice";
const EVERYWHERE: &[&str] = &["checks", "admin", "metrics"];
const PUBLIC: &[&str] = &["checks"];
const ADMIN: &[&str] = &["admin"];
const READ: &[&str] = &["read"];

/// Callers may refund only by a receipt, and this is not one.
const REFUND_BY_CALLER: Operation =
    operation("POST", "/v1/refund", REFUND, PUBLIC, &["check"], Concerns::Nonsense);

/// What a proxy asks about.
const fn forwarded(method: &'static str) -> Operation {
    let asked = operation(method, "/forward-auth", "", PUBLIC, &["check"], Concerns::Search);
    Operation { headers: FORWARD, ..asked }
}

const OPERATIONS: [Operation; 30] = {
    use Concerns::{All, Nothing, Search, SearchInBatch};
    [
        operation("POST", "/v1/check", ALICE, PUBLIC, &["check"], Search),
        operation("GET", QUERY, "", PUBLIC, &["check"], Search),
        operation("POST", "/v1/check/batch", BATCH, PUBLIC, &["check"], SearchInBatch),
        operation("GET", "/evaluate?name=search&key=alice", "", PUBLIC, &["check"], Search),
        forwarded("GET"),
        forwarded("POST"),
        operation("POST", "/v1/peek", ALICE, PUBLIC, &["peek"], Search),
        operation("POST", "/v1/refund", REFUND, ADMIN, &["change"], Search),
        // This is not a receipt, so nobody can settle it.
        operation(
            "POST",
            "/v1/settle",
            r#"{"receipt": "none", "cost": 1}"#,
            PUBLIC,
            &["check"],
            Concerns::Nonsense,
        ),
        operation("POST", "/v1/record", ALICE, ADMIN, &["change"], Search),
        operation("POST", "/v1/record/batch", BATCH, ADMIN, &["change"], SearchInBatch),
        operation("POST", "/v1/reset", ALICE, ADMIN, &["change"], Search),
        operation("POST", "/v1/set", SET, ADMIN, &["change"], Search),
        operation("POST", "/v1/policies/reload", "{}", ADMIN, &["policies"], All),
        operation("GET", "/v1/policies", "", ADMIN, READ, Nothing),
        operation("HEAD", "/v1/policies", "", ADMIN, READ, Nothing),
        operation("GET", "/v1/policies/schema", "", ADMIN, READ, Nothing),
        operation("HEAD", "/v1/policies/schema", "", ADMIN, READ, Nothing),
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

const ALL_SCOPES: &[&str] = &["check", "peek", "change", "read", "metrics", "policies"];

/// Returns all principals, and the text of the file with the known ones.
fn principals() -> (Vec<Principal>, String) {
    let mut file = String::from("# Principals of the matrix.\n\n");
    let mut all = Vec::new();
    let nobody = |name, shown: &[&str]| Principal {
        name,
        shown: shown.iter().map(|header| (*header).to_owned()).collect(),
        is_known: false,
        scopes: &[],
        policy: None,
    };
    let unknown = format!("Authorization: Bearer {}", new_token("unknown", &["--scope", "check"]).0);
    all.push(nobody("none", &[]));
    all.push(nobody("unknown", &[&unknown]));
    all.push(nobody("not bearer", &["Authorization: Basic dGdfYTp0Z19h"]));
    let mut known = |name, scopes: &'static [&'static str], policy: Option<&'static str>, more: &[&str]| {
        let scopes_flag = scopes.join(",");
        let mut flags = vec!["--scope", &scopes_flag];
        flags.extend(policy.iter().flat_map(|policy| ["--policy", policy]));
        flags.extend(more);
        let (token, line) = new_token(name, &flags);
        file += &format!("{line}\n");
        let shown = vec![format!("Authorization: Bearer {token}")];
        all.push(Principal { name, shown, is_known: more.is_empty(), scopes, policy });
    };
    known("root", ALL_SCOPES, None, &[]);
    known("expired", ALL_SCOPES, None, &["--expires", "2020-01-01T00:00:00Z"]);
    known("check", &["check"], None, &[]);
    known("peek", &["peek"], None, &[]);
    known("change", &["change"], None, &[]);
    known("read", &["read"], None, &[]);
    known("metrics", &["metrics"], None, &[]);
    known("policies", &["policies"], None, &[]);
    known("several", &["check", "change", "read"], None, &[]);
    known("own-policy", ALL_SCOPES, Some("search"), &[]);
    known("other-policy", ALL_SCOPES, Some("login"), &[]);
    known("peek-other", &["peek"], Some("login"), &[]);
    let twice = all[3].shown[0].clone();
    all.push(nobody("two tokens", &[&twice, &twice]));
    (all, file)
}

/// Returns this operation on that listener.
fn on_listener<'a>(operation: &'a Operation, listener: &str) -> &'a Operation {
    let is_by_caller = operation.path == REFUND_BY_CALLER.path && listener == "checks";
    if is_by_caller { &REFUND_BY_CALLER } else { operation }
}

/// Returns the status of a cell, and of the request in a batch.
fn expected(principal: &Principal, operation: &Operation, listener: &str) -> (u16, u16) {
    let alone = |status| (status, status);
    let Some(needed) = operation.scopes.first() else { return alone(200) };
    if !operation.listeners.contains(&listener) {
        return alone(404);
    }
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
        (Concerns::Nonsense, _) => alone(400),
        _ => alone(200),
    }
}

/// A service of the matrix, watched by a principal who may do everything.
struct Watched {
    server: Server,
    root: String,
}

impl Watched {
    /// Returns the used units of the counters, and the number of reloads of the policy file.
    fn state(&self) -> (u64, Option<String>) {
        let used = |body| {
            let peek = ask(self.server.public, "POST", "/v1/peek", &["Host: x", &self.root], body).json();
            peek["used"].as_u64().expect("a count")
        };
        let metrics = ask(self.metrics(), "GET", "/metrics", &["Host: x"], "").body;
        let metrics = String::from_utf8(metrics).expect("text");
        let is_read =
            |line: &&str| line.starts_with("tollgate_policies_reloads_total{outcome=\"unchanged\"}");
        (used(ALICE) + used(FORWARDED), metrics.lines().find(is_read).map(str::to_owned))
    }

    fn metrics(&self) -> SocketAddr {
        self.server.metrics.expect("it listens for metrics")
    }
}

/// Every principal uses every operation on every listener.
#[test]
fn every_principal_may_do_what_it_is_granted_and_nothing_else() {
    let folder = Folder::new();
    let (principals, file) = principals();
    let (policies, tokens) = (folder.write("p.yaml", POLICIES), folder.write("tokens.jsonl", &file));
    let server = Server::start(&[
        "--config",
        &policies,
        "--tokens",
        &tokens,
        "--metrics-listen",
        "127.0.0.1:0",
        "--answers",
        "spring-starter",
    ]);
    let root = principals.iter().find(|principal| principal.name == "root").expect("it is there");
    let watched = Watched { server, root: root.shown[0].clone() };
    let listeners =
        [("checks", watched.server.public), ("admin", watched.server.admin), ("metrics", watched.metrics())];
    let (mut cells, mut wrong) = (0, String::new());
    let mut before = watched.state();
    for principal in &principals {
        for (listener, address) in listeners {
            for operation in &OPERATIONS {
                cells += 1;
                let operation = on_listener(operation, listener);
                let cell =
                    format!("{} {} {} on {listener}", principal.name, operation.method, operation.path);
                // Any name will do where principals are asked, and for metrics.
                let headers = ["Host: evil.example".to_owned()].into_iter().chain(principal.shown.clone());
                let headers: Vec<String> = headers.collect();
                let headers = headers.iter().map(String::as_str).chain(operation.headers.iter().copied());
                let headers: Vec<&str> = headers.collect();
                let reply = ask(address, operation.method, operation.path, &headers, operation.body);
                let (status, inner) = expected(principal, operation, listener);
                let mut note = |what: &str| wrong += &format!("{cell}: {what}\n");
                let is_right = reply.status == status;
                if !is_right {
                    note(&format!("{} in place of {status}", reply.status));
                }
                if is_right && operation.concerns == Concerns::SearchInBatch && status == 200 {
                    let body = reply.json();
                    let entries =
                        if body["decisions"].is_null() { &body["records"] } else { &body["decisions"] };
                    let entry = &entries[0];
                    let is_refused = entry["status"] == 403 && entry["allowed"].is_null();
                    if is_refused != (inner == 403) {
                        note(&format!("{entry} in place of {inner}"));
                    }
                }
                let challenge = reply.header("www-authenticate");
                if challenge != (status == 401).then_some("Bearer") {
                    note(&format!("the challenge is {challenge:?}"));
                }
                let lacks_scope = status == 401
                    || status == 403 && !operation.scopes.iter().any(|it| principal.scopes.contains(it));
                if is_right && lacks_scope && operation.method != "HEAD" {
                    let (body, needed) = (reply.json(), operation.scopes[0]);
                    let said = body["detail"].as_str().unwrap_or_default();
                    if body["scope"] != needed || !said.contains(&format!("`{needed}`")) {
                        note(&format!("the problem does not name `{needed}`: {body}"));
                    }
                }
                let after = watched.state();
                if inner != 200 && after != before {
                    note(&format!("refused, and yet {before:?} became {after:?}"));
                }
                let takes = operation.scopes.first() == Some(&"check");
                if inner == 200 && takes && after.0 != before.0 + 1 {
                    note(&format!("allowed, and yet {before:?} became {after:?}"));
                }
                before = after;
            }
        }
    }
    assert!(wrong.is_empty(), "of {cells} cells:\n{wrong}");
    assert_published(cells, "cells checked against");
}

/// The page that publishes the number of cells was left behind by new operations.
fn assert_published(cells: usize, follows: &str) {
    let page = include_str!("../../../../SECURITY.md");
    let number = format!("{},{:03} ", cells / 1_000, cells % 1_000);
    let number = format!("in {} {follows}", number.trim_start_matches("0,").trim_end());
    assert!(page.to_lowercase().contains(&number), "SECURITY.md does not say: {number}");
}

/// A receipt proves that somebody was admitted, not that its bearer may use the policy.
#[test]
fn accepts_a_receipt_only_from_principals_that_may_use_its_policy() {
    let folder = Folder::new();
    let token = |name, policy: &str| new_token(name, &["--scope", "check,peek", "--policy", policy]);
    let ((search, search_line), (login, login_line)) = (token("web", "search"), token("form", "login"));
    let tokens = folder.write("t", &format!("{search_line}\n{login_line}\n"));
    let server = Server::start(&["--config", &folder.write("p.yaml", POLICIES), "--tokens", &tokens]);
    let post = |path: &str, token: &str, body: &str| {
        let bearer = format!("Authorization: Bearer {token}");
        ask(server.public, "POST", path, &["Host: x", &bearer], body)
    };
    let asked = r#"{"attributes": {"name": "search", "key": "alice"}, "cost": 5, "receipt": true}"#;
    let receipt = post("/v1/check", &search, asked).json()["receipt"].clone();
    let refund = json!({ "receipt": receipt }).to_string();
    let used = || post("/v1/peek", &search, ALICE).json()["used"].clone();
    post("/v1/refund", &login, &refund).assert_problem(403, None);
    assert_eq!(used(), 5);
    assert_eq!(post("/v1/refund", &search, &refund).status, 200);
    assert_eq!(used(), 0);
}

/// Principals with `policies` could not give limits with a request, even under the names of those policies.
#[test]
fn limits_of_callers_need_the_right_to_the_policy_of_their_name() {
    let folder = Folder::new();
    let (token, line) = new_token("web", &["--scope", "check,peek", "--policy", "search"]);
    let (policies, tokens) = (folder.write("p.yaml", POLICIES), folder.write("t", &line));
    let server = Server::start(&["--config", &policies, "--tokens", &tokens, "--caller-quotas"]);
    let bearer = format!("Authorization: Bearer {token}");
    let post =
        |path: &str, body: &Value| ask(server.public, "POST", path, &["Host: x", &bearer], &body.to_string());
    let limits = |policy: &str| json!({ "attributes": { "key": "alice" }, "policy": policy, "quotas": ["5/1d@first_hit"] });
    let mut asked = limits("search");
    asked["receipt"] = true.into();
    let allowed = post("/v1/check", &asked).json();
    assert_eq!((&allowed["policy"], &allowed["used"]), (&json!("search:caller"), &json!(1)));
    assert_eq!(post("/v1/peek", &limits("search")).json()["used"], 1);
    for (path, policy) in [("/v1/check", "login"), ("/v1/peek", "login"), ("/v1/check", "sear")] {
        post(path, &limits(policy)).assert_problem(403, None);
    }
    let both = post("/v1/check/batch", &json!({ "requests": [limits("login"), limits("search")] })).json();
    assert_eq!((&both["decisions"][0]["status"], &both["decisions"][1]["used"]), (&json!(403), &json!(2)));
    // Its receipt belongs to the same name.
    assert_eq!(post("/v1/refund", &json!({ "receipt": allowed["receipt"] })).status, 200);
    assert_eq!(post("/v1/peek", &limits("search")).json()["used"], 1);
}

/// Starts a service with mutual TLS and this file of principals.
struct Mutual {
    folder: Folder,
    authority: Authority,
    server: Server,
}

impl Mutual {
    fn start(principals: Option<&str>) -> Self {
        let folder = Folder::new();
        let authority = Authority::new(folder.root(), "authority");
        let Identity { certificate, key } = authority.server(folder.root(), "server");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("it is ours");
        let files = [certificate, key, authority.file.clone()].map(|path| path.display().to_string());
        let tokens = principals.map(|principals| folder.write("tokens.jsonl", principals));
        let mut flags = vec!["--limit", "5/1d", "--key", "user"];
        flags.extend(["--tls-cert", &files[0], "--tls-key", &files[1], "--tls-client-ca", &files[2]]);
        flags.extend(tokens.iter().flat_map(|tokens| ["--tokens", tokens]));
        let server = Server::start(&flags);
        Self { folder, authority, server }
    }

    /// Returns a client with a certificate for this name.
    fn client(&self, uri: &str) -> Client {
        let name = SanType::URI(uri.try_into().expect("a name"));
        let identity = self
            .authority
            .issue(self.folder.root(), "client", |params| params.subject_alt_names = vec![name]);
        Client::new(&self.authority, Some(&identity))
    }
}

const READER: &str = r#"{"name": "reader", "san": "spiffe://prod/reader", "scopes": ["read"]}"#;

/// The description mentioned only tokens, even with client certificates.
#[test]
fn the_description_mentions_client_certificates() {
    let document = |mutual: &Mutual| -> Value {
        let (status, reply) = mutual
            .client("spiffe://prod/reader")
            .get(mutual.server.admin, "/openapi.json")
            .expect("an answer");
        assert_eq!(status, 200, "{reply}");
        serde_json::from_str(reply.split_once("\r\n\r\n").expect("a body").1).expect("JSON")
    };
    let schemes = |document: &Value| -> Vec<String> {
        let schemes = document["components"]["securitySchemes"].as_object().expect("schemes");
        schemes.values().map(|scheme| scheme["type"].as_str().expect("a type").to_owned()).collect()
    };
    let security = |document: &Value, path: &str| document["paths"][path]["get"]["security"].clone();

    let everybody = document(&Mutual::start(None));
    assert_eq!(schemes(&everybody), ["mutualTLS"]);
    for path in ["/v1/check", "/metrics", "/healthz"] {
        assert_eq!(security(&everybody, path), json!([{ "certificate": [] }]), "{path}");
    }

    let certificates = document(&Mutual::start(Some(READER)));
    assert_eq!(schemes(&certificates), ["mutualTLS"]);
    assert_eq!(security(&certificates, "/metrics"), json!([{ "certificate": ["metrics"] }]));
    assert_eq!(security(&certificates, "/healthz"), json!([{ "certificate": [] }]));

    let token = new_token("web", &["--scope", "check"]).1;
    let both = document(&Mutual::start(Some(&format!("{READER}\n{token}\n"))));
    assert_eq!(schemes(&both), ["http", "mutualTLS"]);
    let either = json!([{ "certificate": ["check"] }, { "certificate": [], "bearer": ["check"] }]);
    assert_eq!(security(&both, "/v1/check"), either);
}

/// Errors told clients to send a token although no principal has one.
#[test]
fn errors_mention_no_token_if_all_principals_have_certificates() {
    let mutual = Mutual::start(Some(READER));
    let ask = |uri: &str, headers: &str| {
        let head = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
        mutual.client(uri).ask(mutual.server.admin, head.as_bytes()).expect("an answer")
    };
    assert_eq!(ask("spiffe://prod/reader", "").0, 200);
    for (uri, headers) in
        [("spiffe://prod/other", ""), ("spiffe://prod/reader", "Authorization: Bearer tg_unknown\r\n")]
    {
        let (status, reply) = ask(uri, headers);
        assert_eq!(status, 403, "{reply}");
        assert!(!reply.to_ascii_lowercase().contains("www-authenticate"), "{reply}");
        assert!(reply.contains("certificate") && reply.contains("`metrics`"), "{reply}");
    }
}

/// A name that no certificate can have let nobody in, without a warning.
#[test]
fn warns_of_names_that_no_certificate_can_have() {
    let warnings = |server: Server| {
        server.signal("TERM");
        let (_, log) = server.wait();
        log.lines().filter(|line| line.contains("WARN")).map(str::to_owned).collect::<Vec<_>>()
    };
    let line = |name: &str, san: &str| {
        format!("{{\"name\": \"{name}\", \"san\": \"{san}\", \"scopes\": [\"check\"]}}\n")
    };
    let good =
        ["spiffe://prod/web", "web.example", "*.example", "10.0.0.1", "2001:db8::1", "ops@web.example"];
    let good: String =
        good.iter().enumerate().map(|(index, san)| line(&format!("good-{index}"), san)).collect();
    let mutual = Mutual::start(Some(&good));
    assert_eq!(warnings(mutual.server), <[String; 0]>::default());

    let bad = ["Web.example", "web .example", "2001:DB8::1", "::ffff:10.0.0.1", "CN=web", "web.example/"];
    let bad: String = bad.iter().enumerate().map(|(index, san)| line(&format!("bad-{index}"), san)).collect();
    let mutual = Mutual::start(Some(&format!("{good}{bad}")));
    // Also when the file is read again.
    let again = line("late", "spiffe://prod/late") + &line("new", "Other.Example");
    mutual.folder.write("tokens.jsonl", &format!("{good}{again}"));
    let client = mutual.client("spiffe://prod/late");
    until("the file is read again", || {
        client.get(mutual.server.public, "/v1/check?user=a").is_ok_and(|(status, _)| status == 200)
    });
    let said = warnings(mutual.server);
    assert_eq!(said.len(), 7, "{said:#?}");
    for (index, said) in said.iter().take(6).enumerate() {
        assert!(said.contains(&format!("bad-{index}")), "{said}");
    }
    assert!(said[0].contains("web.example"), "it says how the name is written: {}", said[0]);
    assert!(said[6].contains("other.example"), "{}", said[6]);

    let folder = Folder::new();
    let tokens = folder.write("t", &format!("{good}{}", new_token("web", &["--scope", "check"]).1));
    let said = warnings(Server::start(&["--limit", "5/1d", "--tokens", &tokens]));
    let [said] = &said[..] else { panic!("{said:#?}") };
    assert!(said.contains("--tls-client-ca") && said.contains("good-0"), "{said}");
}

/// Every client uses every operation on both listeners with its certificate. Only subject alternative names count, and
/// of several the first that the file knows.
#[test]
fn a_certificate_is_a_principal_by_its_alternative_names() {
    let folder = Folder::new();
    let authority = Authority::new(folder.root(), "authority");
    let uri = |name: &str| SanType::URI(name.try_into().expect("a name"));
    let host = |name: &str| SanType::DnsName(name.try_into().expect("a name"));
    let mut file = String::new();
    let mut clients = Vec::new();
    let mut client = |name: &'static str, names: Vec<SanType>, scopes: &'static [&'static str]| {
        let identity = authority.issue(folder.root(), name, |params| params.subject_alt_names = names);
        let is_known = !scopes.is_empty();
        let principal = Principal { name, shown: Vec::new(), is_known, scopes, policy: None };
        clients.push((principal, Client::new(&authority, Some(&identity))));
    };
    for scope in ALL_SCOPES {
        file += &format!(
            "{{\"name\": \"{scope}\", \"san\": \"spiffe://prod/{scope}\", \"scopes\": [\"{scope}\"]}}\n"
        );
        client(scope, vec![uri(&format!("spiffe://prod/{scope}"))], std::slice::from_ref(scope));
    }
    let all = ALL_SCOPES.join("\", \"");
    file += &format!("{{\"name\": \"root\", \"san\": \"root.example\", \"scopes\": [\"{all}\"]}}\n");
    client("several", vec![uri("spiffe://prod/other"), host("Root.Example")], ALL_SCOPES);
    client("wrong", vec![uri("spiffe://prod/checks"), host("x.root.example")], &[]);
    client("root.example", Vec::new(), &[]);

    let (policies, tokens) = (folder.write("p.yaml", POLICIES), folder.write("tokens.jsonl", &file));
    let Identity { certificate, key } = authority.server(folder.root(), "server");
    let files = [certificate, key, authority.file.clone()].map(|path| path.display().to_string());
    let mut flags = vec!["--config", &policies, "--tokens", &tokens, "--answers", "spring-starter"];
    flags.extend(["--tls-cert", &files[0], "--tls-key", &files[1], "--tls-client-ca", &files[2]]);
    let server = Server::start(&flags);

    let (mut cells, mut wrong) = (0, String::new());
    for (principal, client) in &clients {
        for (listener, address) in [("checks", server.public), ("admin", server.admin)] {
            for operation in &OPERATIONS {
                let operation = on_listener(operation, listener);
                let Operation { method, path, headers, body, .. } = operation;
                let headers = [&["Host: evil.example", "Connection: close"], *headers].concat();
                let request = request(method, path, &headers, body);
                let (status, said) = client.ask(address, &request).expect("an answer comes");
                // No principal has a token, so there is none to ask for.
                let expected = match expected(principal, operation, listener).0 {
                    401 => 403,
                    status => status,
                };
                if status != expected {
                    let cell = format!("{} {method} {path} on {listener}", principal.name);
                    wrong += &format!("{cell}: {status} in place of {expected}: {said}\n");
                }
                cells += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "of {cells} cells:\n{wrong}");
    assert_eq!(cells, clients.len() * 2 * OPERATIONS.len());
    assert_published(cells, "more cells");
}

/// A token overrides the certificate of the connection.
#[test]
fn a_token_overrides_a_certificate() {
    let folder = Folder::new();
    let authority = Authority::new(folder.root(), "authority");
    let uri = |name: &str| SanType::URI(name.try_into().expect("a name"));
    let checks = authority.issue(folder.root(), "checks", |params| {
        params.subject_alt_names = vec![uri("spiffe://prod/checks")]
    });
    let (token, line) = new_token("peeks", &["--scope", "peek"]);
    let san = r#"{"name": "checks", "san": "spiffe://prod/checks", "scopes": ["check"]}"#;
    let tokens = folder.write("tokens.jsonl", &format!("{line}\n{san}\n"));
    let Identity { certificate, key } = authority.server(folder.root(), "server");
    let files = [certificate, key, authority.file.clone()].map(|path| path.display().to_string());
    let mut flags = vec!["--limit", "5/1d", "--key", "key", "--tokens", &tokens];
    flags.extend(["--tls-cert", &files[0], "--tls-key", &files[1], "--tls-client-ca", &files[2]]);
    let server = Server::start(&flags);
    let client = Client::new(&authority, Some(&checks));
    let status = |path: &str, authorization: Option<&str>| {
        let mut headers = vec!["Host: localhost", "Connection: close"];
        headers.extend(authorization);
        let body = r#"{"attributes": {"key": "alice"}}"#;
        client.ask(server.public, &request("POST", path, &headers, body)).expect("an answer comes").0
    };
    let bearer = format!("Authorization: Bearer {token}");
    assert_eq!((status("/v1/check", None), status("/v1/peek", None)), (200, 403));
    assert_eq!((status("/v1/check", Some(&bearer)), status("/v1/peek", Some(&bearer))), (403, 200));
    assert_eq!(status("/v1/check", Some("Authorization: Bearer tg_unknown")), 401);
    let try_it = server.said.last().expect("a line to try");
    assert!(try_it.contains("--key KEY -H \"Authorization: Bearer $(cat token.txt)\" 'https://"), "{try_it}");
}

/// A page cannot have a token, but the browser can send the visitor's other credentials.
#[test]
fn pages_of_other_sites_are_refused_even_with_a_token() {
    let folder = Folder::new();
    let (token, line) = new_token("root", &["--scope", "change"]);
    let server = Server::start(&["--limit", "5/1d", "--tokens", &folder.write("t", &line)]);
    let bearer = format!("Authorization: Bearer {token}");
    let reset = |header: &str| {
        let body = r#"{"attributes": {"user": "alice"}}"#;
        ask(server.admin, "POST", "/v1/reset", &["Host: limits.example", &bearer, header], body).status
    };
    assert_eq!(reset("Sec-Fetch-Site: cross-site"), 403);
    assert_eq!(reset("Origin: http://evil.example"), 403);
    assert_eq!(reset("Origin: http://limits.example"), 200);
}

#[test]
fn a_principal_sees_only_the_policies_that_it_may_use() {
    let folder = Folder::new();
    let (token, line) = new_token("web", &["--scope", "check,read", "--policy", "search"]);
    let (policies, tokens) = (folder.write("p.yaml", POLICIES), folder.write("t", &line));
    let server = Server::start(&["--config", &policies, "--tokens", &tokens]);
    let bearer = format!("Authorization: Bearer {token}");
    let view = ask(server.admin, "GET", "/v1/policies", &["Host: x", &bearer], "").json();
    let names: Vec<&Value> =
        view["policies"].as_array().expect("a list").iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["search"]);
    let check =
        |query: &str| ask(server.public, "GET", &format!("/v1/check?{query}"), &["Host: x", &bearer], "");
    let other = check("name=login&key=alice");
    other.assert_problem(403, None);
    assert!(!String::from_utf8_lossy(&other.body).contains("login"));
    assert_eq!(check("name=login").status, 403, "what it lacks is for those who may touch the policy");
    assert_eq!(check("name=none&key=alice").json()["ground"], "unlimited");
}

#[test]
fn reloads_the_file_of_principals_and_keeps_the_last_valid_one() {
    let folder = Folder::new();
    let (old, old_line) = new_token("web", &["--scope", "check"]);
    let (new, new_line) = new_token("web", &["--scope", "check"]);
    let path = folder.write("t.jsonl", &old_line);
    let server = Server::start(&["--limit", "50/1d", "--tokens", &path, "--metrics-listen", "127.0.0.1:0"]);
    let check = |token: &str| {
        let bearer = format!("Authorization: Bearer {token}");
        ask(server.public, "GET", "/v1/check?user=alice", &["Host: x", &bearer], "").status
    };
    let metric = |name: &str| {
        let metrics = ask(server.metrics.expect("an address"), "GET", "/metrics", &["Host: x"], "").body;
        let text = String::from_utf8(metrics).expect("text");
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<f64>().ok())
    };
    let last_used = || metric(r#"tollgate_principal_last_used_seconds{name="web"}"#);
    assert_eq!(last_used(), None);
    assert_eq!((check(&old), check(&new)), (200, 401));
    let used = last_used();
    assert!(used.is_some_and(|seconds| seconds > 1.7e9), "{used:?}");

    folder.write("t.jsonl", &new_line);
    until("the new token is live", || check(&new) == 200);
    assert_eq!(check(&old), 401);
    assert!(last_used() >= used, "it is the same principal");
    assert_eq!(metric(r#"tollgate_principals_reloads_total{outcome="replaced"}"#), Some(1.0));

    folder.write("t.jsonl", &format!("{new_line}\n{new_line}\n"));
    until("the bad file is told of", || metric("tollgate_principals_in_step") == Some(0.0));
    assert_eq!(metric(r#"tollgate_principals_reloads_total{outcome="failed"}"#), Some(1.0));
    assert_eq!(check(&new), 200);
    fs::remove_file(&path).expect("it is there");
    server.signal("HUP");
    until("the missing file is told of", || {
        metric(r#"tollgate_principals_reloads_total{outcome="failed"}"#) >= Some(2.0)
    });
    assert_eq!(check(&new), 200);
    assert!(metric(r#"tollgate_http_requests_rejected_total{status="401"}"#) >= Some(2.0));

    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(log.contains("principals are replaced") && log.contains("`web` has changed"), "{log}");
    assert!(log.contains("principals stay as they are") && log.contains("t.jsonl:2:"), "{log}");
}

/// Tries every credential, also in wrong places.
#[tokio::test(flavor = "multi_thread")]
async fn no_token_digest_or_header_gets_into_logs_metrics_or_answers() {
    let folder = Folder::new();
    let (token, line) = new_token("web", &["--scope", "check,metrics"]);
    let digest = serde_json::from_str::<Value>(&line).expect("JSON")["sha256"].clone();
    let digest = digest.as_str().expect("a text").to_owned();
    let path = folder.write("t.jsonl", &format!("{line}\n"));
    let mut command = tollgate();
    command.env("RUST_LOG", EVERY_LINE);
    let server = Server::start_by(command, &["--limit", "1/1d", "--tokens", &path]);
    let mut answers = String::new();
    let mut ask = |address, path: &str, header: &str| {
        let reply = ask(address, "GET", path, &["Host: x", header], "");
        let answer = String::from_utf8(reply.body).expect("text");
        answers += &answer;
        answer
    };
    let failures = |metrics: &str| {
        let name = r#"tollgate_principals_reloads_total{outcome="failed"} "#;
        metrics.lines().find_map(|line| line.strip_prefix(name)?.parse::<f64>().ok()).expect("a count")
    };
    let bearer = format!("Authorization: Bearer {token}");
    let canary = "tg_canary0123456789";
    for header in [
        bearer.clone(),
        format!("Authorization: Bearer {canary}"),
        format!("Authorization: Basic {canary}"),
        format!("Authorization: {canary}"),
        format!("Authorization: Bearer {canary}\r\nAuthorization: Bearer {token}"),
        format!("Authorization: Bearer {}", canary.repeat(50)),
    ] {
        for (address, path) in [(server.public, "/v1/check?user=alice"), (server.admin, "/metrics")] {
            for _ in 0..2 {
                ask(address, path, &header);
            }
        }
    }
    // Over HTTP/2 heads are told by another library.
    let status = over_http2(server.public, &format!("Bearer {canary}")).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    for (index, text) in [
        format!("{line}\n{{\"name\": \"x\", \"sha256\": \"{canary}\", \"scopes\": [\"check\"]}}\n"),
        format!("{line}\n{canary}\n"),
        format!("{line}\n{line}\n"),
        format!("{line}\n{{\"name\": \"{canary}:\", \"scopes\": \"{canary}\"}}\n"),
    ]
    .into_iter()
    .enumerate()
    {
        folder.write("t.jsonl", &text);
        server.signal("HUP");
        until("it is read", || failures(&ask(server.admin, "/metrics", &bearer)) > index as f64);
    }
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(log.contains("principals stay as they are"), "{log}");
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "the log has every level");
    assert!(!log.contains("lines were lost"), "nothing of it is missing");
    assert!(answers.contains("is unknown") && answers.contains("tollgate_principal_last_used"), "{answers}");
    for secret in [canary, &token, &digest, "Basic"] {
        assert!(!log.contains(secret), "{secret} in the log:\n{log}");
        assert!(!answers.contains(secret), "{secret} in an answer:\n{answers}");
    }
}

/// Returns the status of a check over HTTP/2 with this header.
async fn over_http2(address: SocketAddr, authorization: &str) -> StatusCode {
    let stream = tokio::net::TcpStream::connect(address).await.expect("the server listens");
    let (mut requests, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("it speaks HTTP/2");
    tokio::spawn(connection);
    let uri = format!("http://{address}/v1/check?user=alice");
    let request = Request::get(uri).header("Authorization", authorization);
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    requests.send_request(request).await.expect("an answer").status()
}

#[test]
fn an_invalid_file_stops_the_start() {
    let folder = Folder::new();
    let line = new_token("web", &["--scope", "check"]).1;
    let file = folder.write("t.jsonl", &format!("# first\n{line}\n{{\"name\": \"a b\"}}\n"));
    let missing = folder.path("missing.jsonl");
    let start = |flags: &[&str], variables: &[(&str, &str)]| {
        let mut command = tollgate();
        command.args([
            "serve",
            "--limit",
            "5/1m",
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
        ]);
        let output = command.args(flags).envs(variables.iter().copied()).output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let (status, said) = start(&["--tokens", &file], &[]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("`--tokens`: ") && said.contains("t.jsonl:3:2: name: expected 1 to 64"), "{said}");
    let (status, said) = start(&[], &[("TOLLGATE_TOKENS", &missing)]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("`TOLLGATE_TOKENS`: cannot read") && said.contains("missing.jsonl"), "{said}");
}

#[test]
fn prints_a_new_token_with_its_line() {
    let run = |flags: &[&str]| {
        let output = tollgate().args(["token", "new"]).args(flags).output().expect("it runs");
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).expect("text"))
    };
    let expires = "2027-01-01T00:00:00Z";
    let (status, text) =
        run(&["--name", "web", "--scope", "check,peek", "--policy", "search", "--expires", expires]);
    assert_eq!(status, Some(0), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let [_, token, _, _, line] = lines[..] else { panic!("{text}") };
    assert!(token.starts_with("tg_") && token.len() == 46, "{text}");
    let mut line: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(line["sha256"].take().as_str().map(str::len), Some(64));
    assert_eq!(
        line,
        json!({ "name": "web", "sha256": null, "scopes": ["check", "peek"], "policies": ["search"],
                "expires": expires })
    );
    for (flags, said) in [
        (&["--name", "web"][..], "--scope"),
        (&["--scope", "check"], "--name"),
        (&["--name", "a b", "--scope", "check"], "expected 1 to 64"),
        (&["--name", "web", "--scope", "root"], "possible values: check, peek, change"),
        (&["--name", "web", "--scope", "check", "--expires", "tomorrow"], "expected a time"),
    ] {
        let (status, text) = run(flags);
        assert!(status == Some(2) && text.contains(said), "{text}");
    }
}

#[test]
fn check_reads_its_token_from_a_file() {
    let folder = Folder::new();
    let (token, line) = new_token("web", &["--scope", "check"]);
    let server = Server::start(&["--limit", "5/1d", "--tokens", &folder.write("t", &line)]);
    let check = |file: Option<&str>| {
        let mut command = tollgate();
        command.args(["check", "user=alice", "--server", &server.public.to_string()]);
        command.envs(file.map(|file| ("TOLLGATE_TOKEN_FILE", file)));
        let output = command.output().expect("it runs");
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).expect("text"))
    };
    let file = folder.write("token", &format!("{token}\n"));
    let with_mode = |mode| {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("it is ours");
        check(Some(&file))
    };
    let (status, said) = with_mode(0o600);
    assert!(status == Some(0) && !said.contains("warning"), "{said}");
    let (status, said) = with_mode(0o644);
    let warning = format!("can read the token in {file} (its mode is 644): run `chmod 600 {file}`");
    assert!(status == Some(0) && said.contains(&warning), "{said}");
    let (status, said) = check(None);
    assert!(
        status == Some(2) && said.contains("this needs the scope `check`") && said.contains("--token-file"),
        "{said}"
    );
    let (status, said) = check(Some(&folder.write("unknown", "tg_unknown")));
    assert!(status == Some(2) && said.contains("is unknown") && !said.contains("--token-file"), "{said}");
    for text in ["", "two words", "ä"] {
        let (status, said) = check(Some(&folder.write("bad", text)));
        assert!(status == Some(2) && said.contains("TOLLGATE_TOKEN_FILE"), "{said}");
    }
    let (status, said) = check(Some(&folder.path("missing")));
    assert!(status == Some(2) && said.contains("cannot read"), "{said}");
}

#[test]
fn the_description_names_the_scope_of_each_operation() {
    let folder = Folder::new();
    let (token, line) = new_token("web", &["--scope", "read"]);
    let tokens = folder.write("t", &line);
    let server = Server::start(&["--limit", "5/1d", "--tokens", &tokens, "--metrics-listen", "127.0.0.1:0"]);
    let bearer = format!("Authorization: Bearer {token}");
    let document = ask(server.admin, "GET", "/openapi.json", &["Host: x", &bearer], "").json();
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    let operation = |path: &str, method: &str| document["paths"][path][method].clone();
    let check = operation("/v1/check", "post");
    assert_eq!(check["security"], json!([{ "bearer": ["check"] }]));
    assert!(check["responses"]["401"].is_object() && check["responses"]["403"].is_object());
    assert_eq!(operation("/v1/reset", "post")["security"], json!([{ "bearer": ["change"] }]));
    assert_eq!(operation("/metrics", "get")["security"], json!([{}, { "bearer": ["metrics"] }]));
    assert_eq!(operation("/metrics", "get")["tags"], json!(["admin", "metrics"]));
    let health = operation("/healthz", "get");
    assert!(health["security"].is_null() && health["responses"]["401"].is_null(), "{health}");

    let open = Server::start(&["--limit", "5/1d"]).admin_get("/openapi.json").json();
    assert!(open["components"]["securitySchemes"].is_null());
    assert!(open["paths"]["/v1/check"]["post"]["responses"]["401"].is_null());
}

/// Prometheus needed access to the listener that changes counters.
#[test]
fn the_metrics_listener_needs_no_token() {
    let server = Server::start(&["--limit", "5/1d", "--metrics-listen", "0.0.0.0:0"]);
    let port = server.metrics.expect("an address").port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let get = |path: &str| ask(address, "GET", path, &["Host: tollgate.monitoring.svc:9090"], "").status;
    assert_eq!((get("/metrics"), get("/healthz"), get("/readyz")), (200, 200, 200));
    assert_eq!((get("/v1/policies"), get("/openapi.json"), get("/v1/check?user=a")), (404, 404, 404));
    let connections = server.metric(r#"tollgate_http_connections{listener="metrics"}"#);
    assert!(connections.is_some());
    server.signal("TERM");
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(!log.contains("WARN"), "{log}");
}
