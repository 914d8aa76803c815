//! Who may call, over TLS and with tokens.

use rcgen::SanType;
use serde_json::json;
use tonic::{Code, Status};

use crate::certificates::{Authority, Client};
use crate::grpc_client::messages::kuadrant::service::ratelimit::v1::{
    CommitRequest, CommitResponse, ReserveRequest, ReserveResponse,
};
use crate::grpc_client::{OK, RateLimitRequest, RateLimitResponse, Wire, request, start, statuses};
use crate::support::folder::Folder;
use crate::support::{Connection, Server, get, tollgate};

const USER: &[(&str, &str)] = &[("user", "alice")];

/// A token and the line of its principal.
fn new_token(scope: &str) -> (String, String) {
    new_token_with(scope, scope, &[])
}

fn new_token_with(name: &str, scope: &str, more: &[&str]) -> (String, String) {
    let output =
        tollgate().args(["token", "new", "--json", "--name", name, "--scope", scope]).args(more).output();
    let printed: serde_json::Value = serde_json::from_slice(&output.expect("it runs").stdout).expect("JSON");
    let text = |field: &str| printed[field].as_str().expect("a text").to_owned();
    (text("token"), text("line"))
}

async fn code(wire: &Wire, headers: &[(&'static str, &str)]) -> Code {
    wire.call_with(request(&[USER]), headers).await.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test]
async fn a_call_needs_a_token_with_the_scope_check() {
    let (folder, (check, check_line), (peek, peek_line)) =
        (Folder::new(), new_token("check"), new_token("peek"));
    let (expired, expired_line) = new_token_with("expired", "check", &["--expires", "2020-01-01T00:00:00Z"]);
    let (other, other_line) = new_token_with("other", "check", &["--policy", "other"]);
    let lines = [check_line, peek_line, expired_line, other_line].join("\n");
    let tokens = folder.write("tokens.jsonl", &format!("{lines}\n"));
    let server = start(&["--limit", "5/1d", "--tokens", &tokens, "--metrics-listen", "127.0.0.1:0"]);
    let wire = Wire::open(&server).await;
    let bearer = |token: &str| format!("Bearer {token}");
    assert_eq!(code(&wire, &[("authorization", &bearer(&check))]).await, Code::Ok);
    assert_eq!(code(&wire, &[("authorization", &bearer(&peek))]).await, Code::PermissionDenied);
    assert_eq!(code(&wire, &[("authorization", &bearer(&expired))]).await, Code::Unauthenticated);
    assert_eq!(code(&wire, &[("authorization", &bearer(&other))]).await, Code::PermissionDenied);
    assert_eq!(code(&wire, &[("authorization", "Bearer tg_nobody")]).await, Code::Unauthenticated);
    assert_eq!(code(&wire, &[]).await, Code::Unauthenticated);
    assert_eq!(wire.call_at("/grpc.health.v1.Health/Check").await, Code::Ok);
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    assert_eq!(wire.call_at(reflection).await, Code::Unauthenticated);
    assert_eq!(wire.call_at("/envoy.service.ratelimit.v3.RateLimitService/Other").await, Code::Unimplemented);
    assert_eq!(rejected(&server, 401), 4);
    let headers = [("authorization", &*bearer(&check))];
    let response = wire.call_with(request(&[USER]), &headers).await.expect("an answer");
    assert_eq!(statuses(&response), [(OK, 3)], "refused calls took nothing");
}

/// Whoever could commit the reservations of others could give back what they use.
#[tokio::test]
async fn a_reservation_belongs_to_callers_that_may_use_its_policies() {
    let (folder, (check, check_line), (peek, peek_line)) =
        (Folder::new(), new_token("check"), new_token("peek"));
    let (other, other_line) = new_token_with("other", "check", &["--policy", "other"]);
    let lines = [check_line, peek_line, other_line].join("\n");
    let tokens = folder.write("tokens.jsonl", &format!("{lines}\n"));
    let server = start(&["--limit", "5/1d", "--tokens", &tokens]);
    let wire = Wire::open(&server).await;
    let [check, peek, other] = [check, peek, other].map(|token| format!("Bearer {token}"));
    let reservation = || {
        let RateLimitRequest { domain, descriptors, .. } = request(&[USER]);
        ReserveRequest { domain, descriptors, amount: 3, ttl: None }
    };
    let reserve = async |headers: &[(&'static str, &str)]| {
        let path = "/kuadrant.service.ratelimit.v1.RateLimitService/Reserve";
        let answer: Result<ReserveResponse, Status> = wire.call_kuadrant(path, reservation(), headers).await;
        answer.map(|reserved| reserved.reservation_id).map_err(|status| status.code())
    };
    let held = reserve(&[("authorization", &check)]).await.expect("a reservation");
    let commit = async |headers: &[(&'static str, &str)]| {
        let path = "/kuadrant.service.ratelimit.v1.RateLimitService/Commit";
        let asked = CommitRequest { reservation_id: held.clone(), ..CommitRequest::default() };
        let answer: Result<CommitResponse, Status> = wire.call_kuadrant(path, asked, headers).await;
        answer.map(|committed| committed.reservation_released).map_err(|status| status.code())
    };
    let nobody: &[(&'static str, &str)] = &[];
    for (headers, refused) in [
        (nobody, Code::Unauthenticated),
        (&[("authorization", &*peek)], Code::PermissionDenied),
        (&[("authorization", &*other)], Code::PermissionDenied),
    ] {
        assert_eq!((reserve(headers).await, commit(headers).await), (Err(refused), Err(refused)));
        for path in [
            "/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit",
            "/kuadrant.service.ratelimit.v1.RateLimitService/Report",
        ] {
            let answer: Result<RateLimitResponse, Status> =
                wire.call_kuadrant(path, request(&[USER]), headers).await;
            assert_eq!(answer.map_err(|status| status.code()), Err(refused), "{path}");
        }
    }
    assert_eq!(commit(&[("authorization", &check)]).await, Ok(true), "it lives");
}

/// So many calls were rejected with what is this status over HTTP.
fn rejected(server: &Server, status: u16) -> usize {
    let metrics = server.metrics.expect("it was started with `--metrics-listen`");
    let body = Connection::open(metrics).ask(&get("/metrics")).body;
    let text = String::from_utf8(body).expect("text");
    let name = format!("tollgate_http_requests_rejected_total{{status=\"{status}\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok());
    value.expect("it is counted")
}

/// Over TLS, a client that offers no HTTP/2 would only learn at its first bytes that nobody understands it.
#[tokio::test]
async fn over_tls_http_2_is_the_only_protocol() {
    let folder = Folder::new();
    let authority = Authority::new(folder.root(), "authority");
    let identity = authority.server(folder.root(), "server");
    let [certificate, key] = [identity.certificate, identity.key].map(|path| path.display().to_string());
    let server = start(&["--limit", "5/1d", "--tls-cert", &certificate, "--tls-key", &key]);
    let client = Client::new(&authority, None).0;
    for (offered, chosen) in [
        (&[&b"h2"[..], b"http/1.1"][..], Ok(Some(b"h2".to_vec()))),
        (&[b"http/1.1"], Err("NoApplicationProtocol")),
        (&[], Ok(None)),
    ] {
        let spoken = crate::grpc_client::spoken(&server, &client, offered).await;
        match (spoken, chosen) {
            (Ok(spoken), chosen) => assert_eq!(Ok(spoken), chosen, "{offered:?}"),
            (Err(error), Ok(_)) => panic!("{offered:?}: {error}"),
            (Err(error), Err(reason)) => assert!(error.to_string().contains(reason), "{error}"),
        }
    }
    // On the listener for checks, HTTP/1.1 is spoken too.
    let reply = Client(client).get(server.public, "/healthz").map(|(status, _)| status);
    assert_eq!(reply.ok(), Some(200));
}

/// Each of them is about a listener that would not be there.
#[test]
fn flags_of_grpc_need_its_listener() {
    for flag in
        [&["--grpc-limit-headers"][..], &["--grpc-max-connection-age", "1h"], &["--grpc-keep-alive", "10s"]]
    {
        let mut command = tollgate();
        // An address of nobody's, so that a start which should have been refused ends as well.
        command.args(["serve", "--limit", "5/1d", "--listen", "192.0.2.1:1"]).args(flag);
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--grpc <ADDRESS>"), "{said}");
    }
    let mut command = tollgate();
    command.env("TOLLGATE_GRPC_LIMIT_HEADERS", "false");
    let server = Server::start_by(command, &["--limit", "5/1d"]);
    assert_eq!(server.grpc, None, "a flag that is off needs nothing");
}

#[tokio::test]
async fn tls_and_certificates_of_clients_hold_for_grpc() {
    let folder = Folder::new();
    let authority = Authority::new(folder.root(), "authority");
    let server = authority.server(folder.root(), "server");
    let proxy = authority.issue(folder.root(), "proxy", |params| {
        params.subject_alt_names = vec![SanType::DnsName("proxy.example".try_into().expect("a name"))];
    });
    let path = |path: &std::path::Path| path.to_str().expect("text").to_owned();
    let (certificate, key, ca) = (path(&server.certificate), path(&server.key), path(&authority.file));
    let line = json!({ "name": "proxy", "san": "proxy.example", "scopes": ["check"] }).to_string();
    let tokens = folder.write("tokens.jsonl", &format!("{line}\n"));
    let tls = ["--tls-cert", &certificate, "--tls-key", &key];
    let served = start(&[&["--limit", "5/1d"], &tls[..]].concat());
    let wire = Wire::open_tls(&served, &Client::new(&authority, None).0).await.expect("a connection");
    assert_eq!(wire.call(request(&[USER])).await.expect("an answer").overall_code, OK);

    let mutual = [&["--limit", "5/1d", "--tokens", &tokens, "--tls-client-ca", &ca], &tls[..]].concat();
    let served = start(&mutual);
    let wire = Wire::open_tls(&served, &Client::new(&authority, Some(&proxy)).0).await.expect("a connection");
    assert_eq!(code(&wire, &[]).await, Code::Ok);
    let wire =
        Wire::open_tls(&served, &Client::new(&authority, Some(&server)).0).await.expect("a connection");
    assert_eq!(code(&wire, &[]).await, Code::PermissionDenied, "it is known to nobody");
}
