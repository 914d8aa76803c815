//! `Tollgate-Trials`: how a proxy learns whose requests a limit on trial would deny.

#![allow(clippy::expect_used, reason = "this is a test")]

use serde_json::Value;
use tollgate_testkit::manual::blocks;

use crate::support::folder::Folder;
use crate::support::{Connection, Reply, Server};

const POLICIES: &str = "
policies:
  - { name: api, key: [user], quotas: [3/1d@first_hit], candidate: [1/1d@first_hit] }
  - { name: robots, match: { user: mallory }, key: [user], quotas: [1/1d@first_hit], mode: shadow }
  - { name: closed, match: { user: eve }, key: global, quotas: [0/1d], mode: shadow }
";

fn started(more: &[&str]) -> (Folder, Server) {
    let folder = Folder::new();
    let file = folder.write("limits.yaml", POLICIES);
    let server = Server::start(&[&["--config", &file], more].concat());
    (folder, server)
}

fn trials(reply: &Reply) -> (u16, Option<&str>) {
    (reply.status, reply.header("tollgate-trials"))
}

fn ask(server: &Server, user: &str) -> Reply {
    server.get(&format!("/v1/check?user={user}"))
}

/// A team could read how many requests a shadow policy would deny, and not one client: neither the service nor the
/// proxy knew both the client and the policy. So nobody dared to enforce it.
#[test]
fn an_admission_names_the_trials_that_would_have_denied_it() {
    let (_folder, server) = started(&["--trials-header"]);
    assert_eq!(trials(&ask(&server, "mallory")), (200, None), "both trials have room");
    let both = Some(r#""api";candidate, "robots""#);
    assert_eq!(trials(&ask(&server, "mallory")), (200, both));
    assert_eq!(trials(&ask(&server, "eve")), (200, Some(r#""closed""#)));
    assert_eq!(trials(&ask(&server, "alice")), (200, None));

    let body = r#"{"attributes": {"user": "mallory"}}"#;
    let reply = server.post("/v1/peek", body);
    assert_eq!(trials(&reply), (200, None), "a peek tries nothing out");
    assert_eq!(trials(&server.post("/v1/check", body)), (200, both));
    // Proxies pass denials on to clients.
    assert_eq!(trials(&ask(&server, "mallory")), (429, None));
}

#[test]
fn a_proxy_gets_the_names() {
    let folder = Folder::new();
    let tried = "policies: [{ name: tried, key: [ip], quotas: [1/1d@first_hit], mode: shadow }]";
    let server = Server::start(&["--config", &folder.write("limits.yaml", tried), "--trials-header"]);
    let forward = || {
        let request = "GET /forward-auth HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /\r\n\
                       X-Forwarded-Host: a\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n";
        Connection::open(server.public).ask(request.as_bytes())
    };
    assert_eq!(trials(&forward()), (200, None));
    assert_eq!(trials(&forward()), (200, Some("\"tried\"")));
}

#[test]
fn without_the_flag_nothing_is_said() {
    let (_folder, server) = started(&[]);
    for _ in 0..3 {
        assert_eq!(trials(&ask(&server, "mallory")), (200, None));
    }
}

#[test]
fn openapi_describes_the_header_if_it_is_sent() {
    for (flags, is_sent) in [(&["--trials-header"][..], true), (&[], false)] {
        let (_folder, server) = started(flags);
        let document = server.admin_get("/openapi.json").json();
        let described = |path: &str, status: &str| {
            let operation = document["paths"][path].as_object().expect("a path").values().next().cloned();
            let headers = operation.expect("a method")["responses"][status]["headers"].clone();
            assert_ne!(headers, Value::Null, "{path} {status}");
            headers["Tollgate-Trials"].is_object()
        };
        for path in ["/v1/check", "/forward-auth"] {
            assert_eq!((described(path, "200"), described(path, "429")), (is_sent, false), "{path}");
        }
        assert!(!described("/v1/peek", "200"));
    }
}

/// Plays the files of docs/shadow.md, in windows that do not end meanwhile.
#[test]
fn the_page_leads_from_shadow_to_enforcement() {
    let page = include_str!("../../../../docs/shadow.md").replace("/1m]", "/1d@first_hit]");
    let files: Vec<String> = blocks(&page)
        .into_iter()
        .filter(|block| block.language == "yaml")
        .map(|block| block.text.to_owned())
        .collect();
    let [shadow, candidate, enforced] = &files[..] else { panic!("{} files", files.len()) };
    let (folder, name) = (Folder::new(), "tollgate.yaml");
    let server = Server::start(&["--config", &folder.write(name, shadow), "--trials-header"]);
    let ask = || server.get("/v1/check?path=/search&ip=192.0.2.7");
    let count = |kind: &str, answer: &str| {
        let labels = format!("{{policy=\"search\",kind=\"{kind}\",answer=\"{answer}\"}}");
        server.metric(&format!("tollgate_trials_total{labels}"))
    };
    let ask_30 = || (0..30).for_each(|_| assert_eq!(trials(&ask()), (200, None)));
    let reload = |file: &str| {
        folder.write(name, file);
        assert_eq!(server.admin_post("/v1/policies/reload", "").status, 200);
    };

    ask_30();
    assert_eq!(trials(&ask()), (200, Some("\"search\"")));
    assert_eq!((count("shadow", "allowed"), count("shadow", "denied")), (Some(30.0), Some(1.0)));

    reload(candidate);
    ask_30();
    assert_eq!(trials(&ask()), (200, Some("\"search\";candidate")));
    assert_eq!((count("candidate", "allowed"), count("candidate", "denied")), (Some(30.0), Some(1.0)));

    reload(enforced);
    assert_eq!(trials(&ask()), (429, None), "what was used under the higher limit counts");
}
