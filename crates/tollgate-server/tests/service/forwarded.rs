//! `/forward-auth`: what proxies ask about, with the headers that they send. Real proxies are in `tests/gateway`.
//!
//! Quotas are by the day from the first hit, so that no window ends while a test runs.

#![allow(clippy::expect_used, reason = "this is a test")]

use serde_json::{Value, json};

use crate::support::folder::Folder;
use crate::support::{Connection, Reply, Server, until};

/// As Traefik and Caddy describe a request.
const LOGIN: [&str; 4] = [
    "X-Forwarded-Method: POST",
    "X-Forwarded-Uri: /login?next=/",
    "X-Forwarded-Host: shop.example",
    "X-Forwarded-For: 192.0.2.7",
];

fn ask_by(method: &str, server: &Server, target: &str, headers: &[&str]) -> Reply {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let mut connection = Connection::open(server.public);
    // Proxies keep the host of the request, or name their own.
    connection.send(format!("{method} {target} HTTP/1.1\r\nHost: evil.example\r\n{headers}\r\n").as_bytes());
    let reply = if method == "HEAD" { connection.head() } else { connection.reply() };
    reply.expect("an answer comes")
}

fn ask(server: &Server, target: &str, headers: &[&str]) -> Reply {
    ask_by("GET", server, target, headers)
}

fn forward(server: &Server, headers: &[&str]) -> Reply {
    ask(server, "/forward-auth", headers)
}

fn started(folder: &Folder, policies: &str, more: &[&str]) -> Server {
    let file = folder.write("limits.yaml", policies);
    Server::start(&[&["--config", &file], more].concat())
}

/// What is used of the counter of these attributes.
fn used(server: &Server, attributes: &Value) -> u64 {
    let body = json!({ "attributes": attributes }).to_string();
    server.post("/v1/peek", &body).json()["used"].as_u64().expect("a count")
}

#[test]
fn a_request_in_headers_is_the_request_with_these_attributes() {
    let folder = Folder::new();
    let policies = "
policies:
  - name: login
    match: { method: POST, path: /login, host: shop.example, header.x-app: web }
    key: [ip, header.x-app]
    quotas: [3/1d@first_hit]
unmatched: allow
";
    let server = started(&folder, policies, &[]);
    let asked = [&LOGIN[..], &["X-App: web", "X-Other: 1"]].concat();
    let allowed = forward(&server, &asked);
    assert_eq!((allowed.status, &allowed.json()["used"]), (200, &json!(1)));
    allowed.assert_limit_of_a_day("\"login\";r=2");
    let attributes = json!({ "method": "POST", "path": "/login", "host": "shop.example", "ip": "192.0.2.7",
                             "header.x-app": "web" });
    assert_eq!(used(&server, &attributes), 1, "one counter, however it is asked for");

    let original = [
        "X-Original-Method: POST",
        "X-Original-URL: https://Shop.Example:443//%6Cogin?next=/",
        "X-Forwarded-For: 192.0.2.7",
        "x-app: web",
    ];
    assert_eq!(forward(&server, &original).status, 200);
    assert_eq!(used(&server, &attributes), 2);
    for (index, other) in
        ["X-Forwarded-Method: PUT", "X-Forwarded-Uri: /logout", "X-Forwarded-Host: a.example"]
            .into_iter()
            .enumerate()
    {
        let mut asked = asked.clone();
        asked[index] = other;
        assert_eq!(forward(&server, &asked).json()["ground"], "unlimited", "{other}");
    }
    assert_eq!(forward(&server, &LOGIN).json()["ground"], "unlimited", "without the header");
    assert_eq!(used(&server, &attributes), 2);
}

/// An operator limited all requests and exempted the health check. `GET /api/..%2fhealthz` was exempt, and Flask and
/// Express served it as `/api`: any client could avoid the limit.
#[test]
fn a_spelling_of_an_exempt_path_that_services_may_read_otherwise_is_counted() {
    let folder = Folder::new();
    let policies = "
policies:
  - { name: all, key: [ip], quotas: [9/1d@first_hit] }
  - { name: health, match: { path: /healthz }, exempt: true }
";
    let server = started(&folder, policies, &[]);
    let spellings = ["/api/..%2fhealthz", "/api/../healthz", "/api/%2e%2e/healthz", "/api//../healthz"];
    for (number, path) in (1..).zip(spellings) {
        let uri = format!("X-Forwarded-Uri: {path}?a=/healthz");
        let reply = forward(&server, &[LOGIN[0], &uri, LOGIN[2], LOGIN[3]]);
        assert_eq!((reply.status, &reply.json()["used"]), (200, &json!(2 * number - 1)), "{path}");
        let uri = format!("X-Original-URI: {path}");
        let original = ["X-Original-Method: GET", &uri, "X-Original-Host: a.example", LOGIN[3]];
        assert_eq!(forward(&server, &original).json()["used"], 2 * number, "{path}");
    }
    let reply = forward(&server, &[LOGIN[0], "X-Forwarded-Uri: /healthz?a=b", LOGIN[2], LOGIN[3]]);
    assert_eq!(reply.json()["ground"], "exempt");
}

#[test]
fn a_denial_has_the_status_that_the_proxy_understands() {
    let folder = Folder::new();
    let policies = "
policies:
  - { name: all, match: { path: { not: [/secret, /odd] } }, key: [ip], quotas: [1/1d@first_hit] }
  - { name: tried, match: { path: /login }, key: [ip], quotas: [0/1d], mode: shadow }
  - { name: odd, match: { path: /odd }, key: [ip], quotas: [0/1d], deny_status: 420 }
unmatched: deny
";
    let server = started(&folder, policies, &[]);
    assert_eq!(forward(&server, &LOGIN).status, 200);
    for (query, status) in
        [("", 429), ("?deny=401", 401), ("?deny=403", 403), ("?deny=429", 429), ("?deny=503", 503)]
    {
        let denied = ask(&server, &format!("/forward-auth{query}"), &LOGIN);
        assert_eq!(denied.status, status, "{query}");
        denied.assert_limit_of_a_day("\"all\";r=0");
        let wait: u32 = denied.header("retry-after").and_then(|wait| wait.parse().ok()).expect("a number");
        assert!((86_000..=86_400).contains(&wait), "{wait}");
        assert_eq!(denied.header("content-type"), Some("application/problem+json"));
        let body = denied.json();
        assert_eq!((&body["status"], &body["policy"]), (&json!(status), &json!("all")));
        // The proxy passes the body on to its client.
        assert_eq!((&body["trials"], &body["version"]), (&Value::Null, &Value::Null), "{body}");
    }
    let of = |path: &'static str| [LOGIN[0], path, LOGIN[2], LOGIN[3]];
    assert_eq!(forward(&server, &of("X-Forwarded-Uri: /odd")).status, 420);
    assert_eq!(ask(&server, "/forward-auth?deny=403", &of("X-Forwarded-Uri: /odd")).status, 403);
    let unmatched = forward(&server, &of("X-Forwarded-Uri: /secret"));
    assert_eq!((unmatched.status, unmatched.header("retry-after")), (403, None));
    assert_eq!(ask(&server, "/forward-auth?deny=429", &of("X-Forwarded-Uri: /secret")).status, 429);
}

/// Each of these would otherwise be admitted by `unmatched`.
#[test]
fn incomplete_descriptions_are_refused_and_count_nothing() {
    let folder = Folder::new();
    let policies = "
policies:
  - { name: login, match: { path: /login }, key: [ip], quotas: [100/1d@first_hit] }
unmatched: allow
";
    let server = started(&folder, policies, &[]);
    let names = ["Method", "Uri", "Host", "For"].map(|name| format!("headers.X-Forwarded-{name}"));
    for (index, field) in names.iter().enumerate() {
        let mut asked = LOGIN.to_vec();
        asked.remove(index);
        let refused = forward(&server, &asked);
        refused.assert_problem(400, Some(field));
        assert!(refused.json()["detail"].as_str().is_some_and(|detail| detail.contains("the proxy")));
    }
    for (header, field) in [
        ("X-Forwarded-Uri: /", &names[1]),
        ("X-Forwarded-Host: a", &names[2]),
        ("X-Forwarded-For: unknown", &names[3]),
    ] {
        forward(&server, &[&LOGIN[..], &[header]].concat()).assert_problem(400, Some(field));
    }
    forward(&server, &[&LOGIN[..], &["X-Original-URI: /"]].concat())
        .assert_problem(400, Some("headers.X-Original-URI"));
    ask(&server, "/forward-auth?deny=200", &LOGIN).assert_problem(400, Some("query.deny"));
    ask(&server, "/forward-auth/", &LOGIN).assert_problem(404, None);
    assert_eq!(used(&server, &json!({ "path": "/login", "ip": "192.0.2.7" })), 0);
    // Caddy passes its client's query on.
    assert_eq!(ask(&server, "/forward-auth?user=alice&x=%zz", &LOGIN).status, 200);
}

/// All attributes together were the key, so a client that asked for another path each time was never denied.
#[test]
fn without_a_key_a_client_is_counted_by_its_address() {
    let server = Server::start(&["--limit", "2/1d@first_hit"]);
    let statuses = |address: &str| -> Vec<u16> {
        let one = |index: usize| {
            let (uri, host) = (format!("X-Forwarded-Uri: /{index}"), format!("X-Forwarded-Host: h{index}"));
            let client = format!("X-Forwarded-For: {}", address.replace('#', &index.to_string()));
            forward(&server, &[LOGIN[0], &uri, &host, &client]).status
        };
        (0..3).map(one).collect()
    };
    assert_eq!(statuses("192.0.2.7"), [200, 200, 429]);
    assert_eq!(statuses("192.0.2.8"), [200, 200, 429]);
    assert_eq!(statuses("2001:db8::#"), [200, 200, 429], "one network");
    assert_eq!(statuses("2001:db8:0:#::1"), [429, 200, 200], "three networks");
    forward(&server, &LOGIN[1..]).assert_problem(400, Some("headers.X-Forwarded-Method"));
    assert_eq!(used(&server, &json!({ "ip": "192.0.2.7" })), 2);
}

/// With the files of envoyproxy/ratelimit there are no policies, and every request was admitted.
#[test]
fn nothing_asks_policies_where_there_are_none() {
    let folder = Folder::new();
    folder.write("shop.yaml", "domain: shop\n");
    let server = Server::start(&["--import", "envoy-ratelimit", folder.root().to_str().expect("text")]);
    let body = json!({ "attributes": { "ip": "192.0.2.7" } }).to_string();
    let asked = [
        forward(&server, &LOGIN),
        server.get("/v1/check?ip=192.0.2.7"),
        server.post("/v1/check", &body),
        server.post("/v1/peek", &body),
        server.post("/v1/check/batch", &json!({ "requests": [] }).to_string()),
        server.post("/v1/refund", &body),
        server.post("/v1/settle", &body),
        server.admin_post("/v1/record", &body),
        server.admin_post("/v1/reset", &body),
    ];
    for reply in &asked {
        reply.assert_problem(404, None);
        let problem = reply.json();
        assert!(
            problem["detail"].as_str().is_some_and(|detail| detail.contains("--import envoy-ratelimit")),
            "{problem}"
        );
    }
    let described = server.admin_get("/openapi.json").json();
    assert_eq!(described["paths"]["/forward-auth"], Value::Null);
    assert!(described["paths"]["/json"].is_object());
}

#[test]
fn headers_that_policies_name_are_attributes_and_others_are_not() {
    let folder = Folder::new();
    let by_key = "
policies:
  - { name: keys, key: [header.X-Api-Key], quotas: [9/1d@first_hit] }
";
    let server = started(&folder, by_key, &[]);
    let asked = |more: &[&str]| forward(&server, &[&LOGIN[..], more].concat());
    let long = "x".repeat(1025);
    assert_eq!(asked(&["x-api-key: a", &format!("Cookie: {long}"), "X-Bytes: \u{e9}"]).status, 200);
    assert_eq!(used(&server, &json!({ "header.X-Api-Key": "a" })), 1);
    asked(&[]).assert_problem(400, Some("attributes.header.X-Api-Key"));
    asked(&["X-Api-Key:"]).assert_problem(400, Some("attributes.header.X-Api-Key"));
    asked(&["X-Api-Key: a", "X-Api-Key: a"]).assert_problem(400, Some("attributes.header.X-Api-Key"));
    let many = vec!["X-Api-Key: a"; 65];
    asked(&many).assert_problem(400, Some("headers.x-api-key"));
    assert_eq!(used(&server, &json!({ "header.X-Api-Key": "a" })), 1);

    // The next version names another header.
    let by_tenant = by_key.replace("X-Api-Key", "x-tenant");
    folder.write("limits.yaml", &by_tenant);
    until("it is live", || asked(&["X-Tenant: acme"]).status == 200);
    assert!(used(&server, &json!({ "header.x-tenant": "acme" })) > 0);
    asked(&["X-Api-Key: a"]).assert_problem(400, Some("attributes.header.x-tenant"));
}

/// Clients that sent `X-Api-Key:` shared one counter, although the policy denies requests without the header: three a
/// day of all of them were admitted. `explain` said that they are denied.
#[test]
fn an_empty_header_is_a_missing_one() {
    let folder = Folder::new();
    let policies = "
policies:
  - name: keyed
    key: [header.x-api-key]
    quotas: [3/1d@first_hit]
    on_missing_key: deny
    deny_status: 403
";
    let server = started(&folder, policies, &[]);
    for header in [&[][..], &["X-Api-Key:"], &["X-Api-Key: \t"], &["X-Api-Key:", "X-Api-Key:"]] {
        let reply = forward(&server, &[&LOGIN[..], header].concat());
        assert_eq!(reply.status, 403, "{header:?}");
    }
    assert_eq!(forward(&server, &[&LOGIN[..], &["X-Api-Key: a"]].concat()).status, 200);
}

/// A client sent its header twice. The policy by the header skipped it, and the policy for requests without the header
/// did not match, so it was never limited and no warning said so.
#[test]
fn a_client_that_sends_its_key_twice_is_one_without_a_key() {
    let folder = Folder::new();
    let policies = "
policies:
  - { name: api, key: [header.x-api-key], quotas: [3/1d@first_hit], on_missing_key: skip }
  - { name: anon, match: { header.x-api-key: { absent: true } }, key: [ip], quotas: [3/1d@first_hit] }
";
    let server = started(&folder, policies, &[]);
    let asked = |more: &[&str]| forward(&server, &[&LOGIN[..], more].concat());
    for (used, header) in
        [&["X-Api-Key: a", "X-Api-Key: b"][..], &["X-Api-Key: a", "X-Api-Key: a"], &["X-Api-Key:"]]
            .iter()
            .enumerate()
    {
        let reply = asked(header).json();
        assert_eq!((&reply["policy"], &reply["used"]), (&json!("anon"), &json!(used + 1)), "{header:?}");
    }
    assert_eq!(asked(&["X-Api-Key: a", "X-Api-Key: b"]).status, 429);
    assert_eq!(asked(&["X-Api-Key: a"]).json()["policy"], "api");
}

/// The proxies in front counted as the client if one of them had left an entry empty. With their network exempt, such
/// clients were not limited.
#[test]
fn an_empty_entry_of_a_proxy_is_refused() {
    let folder = Folder::new();
    let policies = "
policies:
  - { name: internal, match: { ip: { cidr: 10.0.0.0/8 } }, exempt: true }
  - { name: all, key: [ip], quotas: [9/1d@first_hit] }
";
    let server = started(&folder, policies, &["--trusted-proxy", "10.0.0.0/8"]);
    let from = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|line| format!("X-Forwarded-For: {line}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        forward(&server, &[&LOGIN[..3], &lines].concat())
    };
    for lines in
        [&["9.9.9.9,,10.0.0.1"][..], &["9.9.9.9, ,10.0.0.1"], &["9.9.9.9", "", "10.0.0.1"], &["9.9.9.9,"]]
    {
        from(lines).assert_problem(400, Some("headers.X-Forwarded-For"));
    }
    assert_eq!(from(&[",,9.9.9.9, 10.0.0.1"]).json()["policy"], "all");
}

/// A long path was answered 400, which nginx makes 500.
#[test]
fn long_values_are_counted_by_a_digest() {
    let folder = Folder::new();
    let policies = "
policies:
  - { name: paths, match: { path: /long/* }, key: [path, header.x-api-key], quotas: [2/1d@first_hit] }
";
    let server = started(&folder, policies, &["--max-attribute-bytes", "100"]);
    let ask = |path: &str, key: &str| {
        let (uri, key) = (format!("X-Forwarded-Uri: {path}"), format!("X-Api-Key: {key}"));
        forward(&server, &[LOGIN[0], &uri, LOGIN[2], LOGIN[3], &key]).status
    };
    let (path, key) = (format!("/long/{}", "x".repeat(200)), "k".repeat(300));
    assert_eq!([ask(&path, &key), ask(&format!("//{path}?a"), &key), ask(&path, &key)], [200, 200, 429]);
    assert_eq!(ask(&format!("{path}x"), &key), 200, "another path");
    assert_eq!(ask(&path, &format!("{key}k")), 200, "another key");
}

#[test]
fn a_header_that_is_not_utf_8_is_named() {
    let folder = Folder::new();
    let policies = "policies: [{ name: all, key: [header.x-api-key], quotas: [9/1d] }]";
    let server = started(&folder, policies, &[]);
    let mut request = format!("GET /forward-auth HTTP/1.1\r\nHost: a\r\n{}\r\n", LOGIN.join("\r\n"));
    request.push_str("X-Api-Key: ");
    let request = [request.as_bytes(), b"\xff\r\n\r\n"].concat();
    server.connect().ask(&request).assert_problem(400, Some("headers.x-api-key"));
}

/// nginx drops the body, and nobody learned why its clients got 500.
#[test]
fn a_refusal_is_in_the_log_once_a_minute() {
    let server = Server::start(&["--limit", "9/1d", "--key", "user"]);
    for _ in 0..3 {
        forward(&server, &LOGIN).assert_problem(400, Some("attributes.user"));
    }
    server.signal("TERM");
    let (_, log) = server.wait();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("a proxy asks about was refused")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    for told in ["400", "attributes.user", "is missing"] {
        assert!(lines[0].contains(told), "{}", lines[0]);
    }
    assert!(!log.contains("192.0.2.7"), "{log}");
}

/// A client could write its own limit into the header.
#[test]
fn no_limit_is_taken_from_a_header() {
    let folder = Folder::new();
    let policies = "
policies:
  - { name: all, key: [ip], quotas: [{ limit: { attribute: header.x-limit }, max: 100, window: 1d }] }
";
    let server = started(&folder, policies, &[]);
    let refused = forward(&server, &[&LOGIN[..], &["X-Limit: 100"]].concat());
    refused.assert_problem(400, Some("attributes.header.x-limit"));
    let asked = json!({ "attributes": { "ip": "192.0.2.7", "header.x-limit": "100" } });
    assert_eq!(server.post("/v1/check", &asked.to_string()).status, 200, "callers are trusted");
}

#[test]
fn proxies_in_front_of_the_one_that_asks_are_believed_if_they_are_named() {
    let addresses = "X-Forwarded-For: 192.0.2.7, 10.1.2.3, 203.0.113.5";
    let asked = [LOGIN[0], LOGIN[1], LOGIN[2], addresses];
    for (flags, client) in [
        (&[][..], "203.0.113.5"),
        (&["--trusted-proxy", "203.0.113.5"], "10.1.2.3"),
        (&["--trusted-proxy", "10.0.0.0/8, 203.0.113.0/24"], "192.0.2.7"),
        (&["--trusted-proxy", "10.0.0.0/8"], "203.0.113.5"),
    ] {
        let limit = ["--limit", "9/1d@first_hit", "--key", "ip"];
        let server = Server::start(&[&limit, flags].concat());
        assert_eq!(forward(&server, &asked).status, 200);
        assert_eq!(used(&server, &json!({ "ip": client })), 1, "{flags:?}");
    }
}

/// Some proxies ask by GET, some by HEAD, and some by the method of their client.
#[test]
fn any_method_asks_and_none_has_a_body() {
    let server = Server::start(&["--limit", "20/1d@first_hit", "--key", "ip"]);
    for (index, method) in
        ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"].into_iter().enumerate()
    {
        let reply = ask_by(method, &server, "/forward-auth", &LOGIN);
        let left = 19 - index;
        assert_eq!(reply.status, 200, "{method}");
        reply.assert_limit_of_a_day(&format!("\"default\";r={left}"));
    }
    // The body of the client stays with the proxy, and not every proxy says so.
    let reply =
        forward(&server, &[&LOGIN[..], &["Content-Length: 100", "Content-Type: text/plain"]].concat());
    assert_eq!(reply.status, 200);
    let admin = format!("GET /forward-auth HTTP/1.1\r\nHost: localhost\r\n{}\r\n\r\n", LOGIN.join("\r\n"));
    Connection::open(server.admin).ask(admin.as_bytes()).assert_problem(404, None);
}
