//! Who may do what.

use serde_json::json;

use super::{POLICIES, Service, ask, new_token, of_user};
use crate::support::Server;
use crate::support::folder::Folder;

/// The requests of each operation.
pub(super) const REQUESTS: [(&str, &str, &str); 4] = [
    ("PUT", "/v1/overrides", r#"{"policy": "search", "attributes": {"user": "alice"}, "quotas": "denied"}"#),
    ("POST", "/v1/overrides/get", r#"{"policy": "search", "attributes": {"user": "alice"}}"#),
    ("POST", "/v1/overrides/delete", r#"{"policy": "search", "attributes": {"user": "alice"}}"#),
    ("GET", "/v1/overrides", ""),
];

/// Everyone who reaches an open admin listener may change counters. But a change of what a customer may do has an author.
#[test]
fn an_open_listener_refuses_overrides_and_says_what_to_do() {
    let folder = Folder::new();
    let (config, state) = (folder.write("p.yaml", POLICIES), folder.path("state"));
    let server = Server::start(&["--config", &config, "--state-dir", &state]);
    for (method, path, body) in REQUESTS {
        let reply = ask(server.admin, method, path, &[], body);
        reply.assert_problem(403, None);
        let problem = reply.json();
        let detail = problem["detail"].as_str().expect("a text");
        for part in
            ["`overrides`", "`serve --tokens FILE`", "tollgate token new --name NAME --scope overrides"]
        {
            assert!(detail.contains(part), "{method} {path}: {detail}");
        }
        assert_eq!(problem["scope"], "overrides");
    }
    assert_eq!(
        server.admin_post("/v1/reset", r#"{"attributes": {"path": "/search", "user": "a"}}"#).status,
        200
    );
}

/// A principal of one policy knows nothing of the overrides of others, not even whether these policies exist.
#[test]
fn a_principal_with_policies_sees_and_changes_only_their_overrides() {
    let service = Service::start();
    let (token, line) = new_token("billing", &["--scope", "overrides", "--policy", "login"]);
    let file = service.folder.path("t.jsonl");
    let known = std::fs::read_to_string(&file).expect("it is there");
    service.folder.write("t.jsonl", &format!("{known}{line}\n"));
    let bearer = format!("Authorization: Bearer {token}");
    let billing =
        |method: &str, path: &str, body: &str| ask(service.server.admin, method, path, &[&bearer], body);
    crate::support::until("its token is known", || billing("GET", "/v1/overrides", "").status == 200);

    let id = service.set(&of_user("alice", &json!(["50/1h"])))["id"].clone();
    let by_id = json!({ "id": id }).to_string();
    let no_policy = REQUESTS.map(|(method, path, body)| (method, path, body.replace("search", "exports")));
    for (method, path, body) in
        no_policy.iter().map(|(method, path, body)| (*method, *path, &**body)).chain(REQUESTS)
    {
        if method != "GET" {
            billing(method, path, body).assert_problem(403, None);
        }
    }
    billing("POST", "/v1/overrides/get", &by_id).assert_problem(403, None);
    billing("POST", "/v1/overrides/delete", &by_id).assert_problem(403, None);
    billing("GET", "/v1/overrides?policy=search", "").assert_problem(403, None);
    assert_eq!(billing("GET", "/v1/overrides", "").json()["overrides"], json!([]));

    let own = r#"{"policy": "login", "attributes": {"tenant": {"is": "acme"}}, "quotas": "unlimited"}"#;
    let set = billing("PUT", "/v1/overrides", own);
    assert_eq!((set.status, &set.json()["by"]), (200, &json!("billing")));
    let seen = billing("GET", "/v1/overrides", "").json();
    assert_eq!(seen["overrides"].as_array().map(Vec::len), Some(1), "{seen}");
    // Nothing follows that it may see.
    let page = billing("GET", "/v1/overrides?limit=1", "").json();
    assert!(page.get("next").is_none(), "{page}");
    assert_eq!(service.list("")["overrides"].as_array().map(Vec::len), Some(2));
    assert_eq!(service.search("alice").json()["limit"], 50, "nothing of it was changed");
}

/// A page of another site sends no PUT without asking first, and nobody answers it.
#[test]
fn a_page_of_another_site_changes_no_override() {
    let service = Service::start();
    let body = of_user("alice", &json!("denied")).to_string();
    for (method, path, body) in [
        ("PUT", "/v1/overrides", &*body),
        ("POST", "/v1/overrides/delete", &body),
        ("GET", "/v1/overrides", ""),
    ] {
        for foreign in ["Sec-Fetch-Site: cross-site", "Origin: http://evil.example"] {
            service.admin(method, path, &[foreign], body).assert_problem(403, None);
        }
    }
    let bearer = format!("Authorization: Bearer {}", service.token);
    let length = body.len();
    for kind in
        ["X-None: 1", "Content-Type: text/plain", "Content-Type: application/json\r\nContent-Encoding: gzip"]
    {
        let head = format!(
            "PUT /v1/overrides HTTP/1.1\r\nHost: x\r\n{bearer}\r\n{kind}\r\nContent-Length: {length}\r\n\r\n"
        );
        let mut connection = crate::support::Connection::open(service.server.admin);
        connection.ask((head + &body).as_bytes()).assert_problem(415, None);
    }
    service.admin("PUT", "/v1/overrides?policy=search", &[], &body).assert_problem(400, Some("query"));
    assert_eq!(service.list("")["overrides"], json!([]));
    let refused = service.server.get("/healthz");
    assert_eq!(refused.status, 200);
}
