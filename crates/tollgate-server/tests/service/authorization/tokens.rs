//! Tokens, the file of principals, and what it grants.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use super::{ALICE, POLICIES, ask, new_token};
use crate::support::folder::Folder;
use crate::support::{EVERY_LINE, Server, tollgate, until};

/// A hold proves that somebody was admitted, not that its bearer may use the policy.
#[test]
fn accepts_a_hold_only_from_principals_that_may_use_its_policy() {
    let folder = Folder::new();
    let token = |name, policy: &str| new_token(name, &["--scope", "check,peek", "--policy", policy]);
    let ((search, search_line), (login, login_line)) = (token("web", "search"), token("form", "login"));
    let tokens = folder.write("t", &format!("{search_line}\n{login_line}\n"));
    let server = Server::start(&["--config", &folder.write("p.yaml", POLICIES), "--tokens", &tokens]);
    let post = |path: &str, token: &str, body: &str| {
        let bearer = format!("Authorization: Bearer {token}");
        ask(server.public, "POST", path, &["Host: x", &bearer], body)
    };
    let asked = r#"{"attributes": {"name": "search", "key": "alice"}, "cost": 5}"#;
    post("/v1/reserve", &login, asked).assert_problem(403, None);
    let hold = post("/v1/reserve", &search, asked).json()["hold"].clone();
    let (renew, settle) = (json!({ "hold": hold }), json!({ "hold": hold, "cost": 0 }));
    let used = || post("/v1/peek", &search, ALICE).json()["used"].clone();
    for (path, body) in [("/v1/renew", &renew), ("/v1/settle", &settle)] {
        post(path, &login, &body.to_string()).assert_problem(403, None);
        let batch = json!({ "requests": [body] }).to_string();
        let refused = post(&format!("{path}/batch"), &login, &batch).json();
        assert!(refused.to_string().contains(r#""status":403"#), "{refused}");
        assert_eq!(used(), 5);
    }
    assert_eq!(post("/v1/renew", &search, &renew.to_string()).json()["status"], "renewed");
    assert_eq!(post("/v1/settle", &search, &settle.to_string()).json()["status"], "settled");
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
    let allowed = post("/v1/reserve", &limits("search")).json();
    assert_eq!((&allowed["policy"], &allowed["used"]), (&json!("search:caller"), &json!(1)));
    assert_eq!(post("/v1/peek", &limits("search")).json()["used"], 1);
    for (path, policy) in [("/v1/check", "login"), ("/v1/peek", "login"), ("/v1/check", "sear")] {
        post(path, &limits(policy)).assert_problem(403, None);
    }
    let both = post("/v1/check/batch", &json!({ "requests": [limits("login"), limits("search")] })).json();
    assert_eq!((&both["decisions"][0]["status"], &both["decisions"][1]["used"]), (&json!(403), &json!(2)));
    // Its hold belongs to the same name.
    assert_eq!(
        post("/v1/settle", &json!({ "hold": allowed["hold"], "cost": 0 })).json()["status"],
        "settled"
    );
    assert_eq!(post("/v1/peek", &limits("search")).json()["used"], 1);
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
    let view = || ask(server.admin, "GET", "/v1/policies", &["Host: x", &bearer], "").json();
    folder.write("p.yaml", &POLICIES.replace("1000000", "2000000"));
    until("a reload, which may name other policies", || view()["version"] == 2);
    let view = view();
    assert_eq!(view.get("reloads"), None);
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
        (&["--name", "web", "--scope", "root"], "possible values: check, peek, count, change"),
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
