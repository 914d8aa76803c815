//! An example of each operation of the HTTP API: a command, and the answer of a real service.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::collections::BTreeMap;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;

use crate::support::folder::Folder;
use crate::support::{Connection, Server, get, tollgate};

/// What the service of the examples limits.
pub(crate) const POLICIES: &str = "policies:
  - { name: users, match: { user: { present: true } }, key: [user], quotas: [5/1m] }
  - { name: paths, match: { path: { present: true } }, key: [ip, path], quotas: [100/1m] }
";

/// Operations and their requests: the port, the target, and the body or a header. They run in this order.
const REQUESTS: [(&str, u16, &str, Input); 28] = [
    (
        "GET /forward-auth",
        8080,
        "/forward-auth",
        Input::Headers(&[
            "X-Forwarded-Method: GET",
            "X-Forwarded-Uri: /search?q=a",
            "X-Forwarded-Host: shop.example",
            "X-Forwarded-For: 192.0.2.7",
        ]),
    ),
    ("GET /healthz", 8080, "/healthz", Input::Nothing),
    ("GET /readyz", 8080, "/readyz", Input::Nothing),
    ("GET /v1/check", 8080, "/v1/check?user=alice&cost=2", Input::Nothing),
    ("POST /v1/check", 8080, "/v1/check", Input::Body(r#"{"attributes": {"user": "alice"}, "cost": 4}"#)),
    (
        "POST /v1/check/batch",
        8080,
        "/v1/check/batch",
        Input::Body(
            r#"{"requests": [{"attributes": {"user": "bob"}}, {"attributes": {"user": "bob"}, "cost": 9}]}"#,
        ),
    ),
    ("POST /v1/peek", 8080, "/v1/peek", Input::Body(r#"{"attributes": {"user": "alice"}}"#)),
    ("POST /v1/inspect", 8090, "/v1/inspect", Input::Body(r#"{"attributes": {"user": "alice"}}"#)),
    (
        "POST /v1/reserve",
        8080,
        "/v1/reserve",
        Input::Body(r#"{"attributes": {"user": "frank"}, "cost": 3, "expires_after": "30s"}"#),
    ),
    (
        "POST /v1/reserve/batch",
        8080,
        "/v1/reserve/batch",
        Input::Body(r#"{"requests": [{"attributes": {"user": "grace"}, "cost": 9}]}"#),
    ),
    ("POST /v1/renew", 8080, "/v1/renew", Input::Body(r#"{"hold": "HOLD"}"#)),
    ("POST /v1/renew/batch", 8080, "/v1/renew/batch", Input::Body(r#"{"requests": [{"hold": "HOLD"}]}"#)),
    ("POST /v1/settle", 8080, "/v1/settle", Input::Body(r#"{"hold": "HOLD", "cost": 1}"#)),
    (
        "POST /v1/settle/batch",
        8080,
        "/v1/settle/batch",
        Input::Body(r#"{"requests": [{"hold": "HOLD", "cost": 0}]}"#),
    ),
    (
        "POST /v1/count",
        8080,
        "/v1/count",
        Input::Body(r#"{"attributes": {"user": "alice"}, "policy": "login", "quotas": ["5/1m"], "cost": 7}"#),
    ),
    (
        "POST /v1/count/batch",
        8080,
        "/v1/count/batch",
        Input::Body(
            r#"{"requests": [{"attributes": {"user": "alice"}, "policy": "login", "window": "1m", "operation": "get"}]}"#,
        ),
    ),
    (
        "POST /v1/refund",
        8090,
        "/v1/refund",
        Input::Body(
            r#"{"attributes": {"user": "bob"}, "version": 1, "windows": [{"policy": "users", "quota": "5/1m", "start": START}]}"#,
        ),
    ),
    ("POST /v1/record", 8090, "/v1/record", Input::Body(r#"{"attributes": {"user": "dave"}, "cost": 7}"#)),
    (
        "POST /v1/record/batch",
        8090,
        "/v1/record/batch",
        Input::Body(r#"{"requests": [{"attributes": {"user": "erin"}, "cost": 2}]}"#),
    ),
    ("POST /v1/reset", 8090, "/v1/reset", Input::Body(r#"{"attributes": {"user": "dave"}}"#)),
    ("POST /v1/set", 8090, "/v1/set", Input::Body(r#"{"attributes": {"user": "dave"}, "used": 4}"#)),
    ("POST /v1/policies/reload", 8090, "/v1/policies/reload", Input::Body("{}")),
    ("GET /v1/policies", 8090, "/v1/policies", Input::Nothing),
    ("GET /v1/policies/history", 8090, "/v1/policies/history", Input::Nothing),
    ("GET /v1/policies/schema", 8090, "/v1/policies/schema", Input::Nothing),
    ("GET /metrics", 8090, "/metrics", Input::Nothing),
    ("GET /openapi.json", 8090, "/openapi.json", Input::Nothing),
    ("POST /v1/clock", 8090, "/v1/clock", Input::Body(r#"{"advance_ms": 60000}"#)),
];

enum Input {
    Nothing,
    Headers(&'static [&'static str]),
    Body(&'static str),
}

/// A minute, which is the window of the examples.
const MINUTE: u64 = 60_000;

/// The start of the window that the page shows.
const SHOWN_START: u64 = 1_795_824_000_000;

/// Returns the example of each operation. Times are those of one fixed minute, so that the page stays the same.
pub(crate) fn examples() -> BTreeMap<&'static str, String> {
    let folder = Folder::new();
    folder.write("tollgate.yaml", POLICIES);
    // So that ids stay the same.
    let secret = folder.write("secret", &"0a".repeat(32));
    set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let mut command = tollgate();
    command.current_dir(folder.root());
    let more = ["--trusted-proxy", "127.0.0.0/8", "--talkers-secret", &secret];
    let server = Server::start_by(
        command,
        &[&["--config", "tollgate.yaml", "--test-clock", "--caller-quotas"], &more[..]].concat(),
    );
    let advance = |millis: u64| {
        let reply = server.admin_post("/v1/clock", &format!(r#"{{"advance_ms": {millis}}}"#)).json();
        reply["now"].as_u64().unwrap()
    };
    let now = advance(0);
    // The middle of the next minute.
    let start = (now / MINUTE + 1) * MINUTE;
    advance(start + MINUTE / 2 - now);
    let ask = |port: u16, request: &[u8]| {
        let address = if port == 8080 { server.public } else { server.admin };
        Connection::open(address).ask(request).body
    };
    let hold = || {
        let body = r#"{"attributes": {"user": "carol"}}"#;
        let decision = server.post("/v1/reserve", body).json();
        decision["hold"].as_str().unwrap().to_owned()
    };
    let examples = REQUESTS.into_iter().map(|(operation, port, target, input)| {
        let url = format!("127.0.0.1:{port}{target}");
        let url = if target.contains('?') { format!("'{url}'") } else { url };
        let (command, request) = match input {
            Input::Nothing => (format!("curl {url}"), get(target)),
            Input::Headers(headers) => {
                let shown: String = headers.iter().map(|header| format!(" -H '{header}'")).collect();
                let sent: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
                let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{sent}\r\n");
                (format!("curl{shown} {url}"), request.into_bytes())
            }
            Input::Body(body) => {
                let sent = body.replace("START", &start.to_string());
                let sent = if sent.contains("HOLD") { sent.replace("HOLD", &hold()) } else { sent };
                let shown = body.replace("START", &SHOWN_START.to_string());
                (format!("curl --json '{shown}' {url}"), crate::support::post(target, &sent))
            }
        };
        let answer = String::from_utf8(ask(port, &request)).unwrap();
        (operation, console(&command, &at_fixed_times(&answer, start)))
    });
    let live = LIVE.map(|(operation, command, answer)| (operation, console(command, answer)));
    examples.chain(live).chain(override_examples()).collect()
}

/// Operations whose answers differ each second.
const LIVE: [(&str, &str, &str); 4] = [
    (
        "GET /v1/live",
        "curl 127.0.0.1:8090/v1/live",
        r#"{"seq":1234,"at":"2026-11-28T00:00:30Z","process":{"host":"web-1","pid":7,"started":"2026-11-27T23:39:56Z","version":"0.1.0"},"state":"ready","state_text":"ready","decided_by":"policies",..."#,
    ),
    (
        "GET /v1/live/series",
        "curl '127.0.0.1:8090/v1/live/series?policy=users&since=1232'",
        r#"{"seq":1234,"tier":"1s","step_seconds":1,"start":1233,"times":[1795824028,1795824029],"series":[{"policy":"users","allowed":[5,3],"denied":[0,2],"trial_denied":[0,0],"by_fallback":[0,0]}],"events":[]}"#,
    ),
    (
        "GET /v1/talkers",
        "curl '127.0.0.1:8090/v1/talkers?policy=users&limit=2'",
        r#"{"policy":"users","by":"checks","period":"current","names":"hashed","since":"2026-11-28T00:00:00Z","until":"2026-11-28T00:00:30Z","total":292,"counted":290,"skipped":2,"counters":128,"max_error":1,"memory_bytes":9480,"rows":[{"id":"k_3f0a9c1d2e","count":120,"error":0,"share":0.41379310344827586},{"id":"k_81b2f0c39d","count":41,"error":1,"share":0.1413793103448276}]}"#,
    ),
    (
        "GET /v1/whatif",
        "curl '127.0.0.1:8090/v1/whatif?policy=users&quota=60/1m'",
        r#"{"policy":"users","quota":"60/1m","exact":true,"since":"2026-11-27T23:41:00Z","until":"2026-11-28T00:00:30Z","span_seconds":1170.0,"keys":41,"requests":2920,"denied_requests":87,"skipped":0,"basis":"calculated","curve":[{"limit":1,"refused_requests":2180,"refused_keys":39,"share_requests":0.7465753424657534,"share_keys":0.9512195121951219},..."#,
    ),
];

/// Operations on overrides, in this order. Only principals can have their scope, so they have a service of their own.
const OVERRIDE_REQUESTS: [(&str, &str, &str, &str); 4] = [
    (
        "PUT /v1/overrides",
        "PUT",
        "/v1/overrides",
        r#"{"policy": "users", "attributes": {"user": "alice"}, "quotas": ["500/1m"], "until": "2099-12-31T00:00:00Z", "label": "ticket-7", "note": "until the audit is over"}"#,
    ),
    (
        "POST /v1/overrides/get",
        "POST",
        "/v1/overrides/get",
        r#"{"policy": "users", "attributes": {"user": "alice"}}"#,
    ),
    ("GET /v1/overrides", "GET", "/v1/overrides?policy=users&limit=10", ""),
    (
        "POST /v1/overrides/delete",
        "POST",
        "/v1/overrides/delete",
        r#"{"policy": "users", "attributes": {"user": "alice"}}"#,
    ),
];

fn override_examples() -> Vec<(&'static str, String)> {
    let folder = Folder::new();
    folder.write("tollgate.yaml", POLICIES);
    let mut create = tollgate();
    create.current_dir(folder.root()).args(["token", "new", "--name", "ops", "--scope", "overrides"]);
    create.args(["--token-file", "ops.txt", "--tokens", "tokens.jsonl"]);
    assert!(create.output().unwrap().status.success());
    let mut command = tollgate();
    command.current_dir(folder.root());
    let flags = ["--config", "tollgate.yaml", "--tokens", "tokens.jsonl", "--state-dir", "state"];
    let server = Server::start_by(command, &flags);
    let token = std::fs::read_to_string(folder.path("ops.txt")).unwrap();
    let examples = OVERRIDE_REQUESTS.into_iter().map(|(operation, method, target, body)| {
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n",
            token.trim()
        );
        let length = body.len();
        let kind = "Content-Type: application/json";
        let request = format!("{head}{kind}\r\nContent-Length: {length}\r\n\r\n{body}");
        let reply = Connection::open(server.admin).ask(request.as_bytes());
        assert_eq!(reply.status, 200, "{operation}: {}", reply.json());
        let answer = String::from_utf8(reply.body.clone()).unwrap();
        let bearer = "-H \"Authorization: Bearer $(cat ops.txt)\"";
        let json = if body.is_empty() { String::new() } else { format!(" --json '{body}'") };
        let put = if method == "PUT" { " -X PUT" } else { "" };
        let url = format!("127.0.0.1:8090{target}");
        let url = if target.contains('?') { format!("'{url}'") } else { url };
        (operation, console(&format!("curl{put} {bearer}{json} {url}"), &of_fixed_history(&answer)))
    });
    examples.collect()
}

/// Replaces the random history of the overrides, and the time of a change.
fn of_fixed_history(answer: &str) -> String {
    let is_version = |value: &str| value.contains('.') && value.len() > 18;
    let mut text = answer.to_owned();
    for field in ["version", "overrides_version"] {
        let shown =
            |value: &str| format!("\"0123456789abcdef.{}", value.split_once('.').unwrap_or_default().1);
        text = replaced(&text, field, |value| is_version(value).then(|| shown(value)));
    }
    with(&text, "changed", |_| true, "\"2026-11-26T20:00:30Z\"")
}

fn console(command: &str, answer: &str) -> String {
    format!("```console\n$ {command}\n{}\n```\n", shortened(answer))
}

/// Replaces the times in an answer, and what is random.
fn at_fixed_times(answer: &str, start: u64) -> String {
    let mut text = answer.to_owned();
    for offset in [0, MINUTE / 2, MINUTE, MINUTE * 3 / 2] {
        text = text.replace(&(start + offset).to_string(), &(SHOWN_START + offset).to_string());
    }
    for (field, shown) in [("since", SHOWN_START), ("at", SHOWN_START), ("age_ms", MINUTE / 2)] {
        text = with(&text, field, |value| value.parse::<u64>().is_ok(), &shown.to_string());
    }
    text = with(&text, "at", |value| value.contains('T'), "\"2026-11-28T00:00:30Z\"");
    for field in ["hold", "id"] {
        text = with(&text, field, |value| value.len() > 30, "\"...\"");
    }
    text
}

/// Replaces each value of a field, if it is one of these.
fn with(text: &str, field: &str, is_replaced: impl Fn(&str) -> bool, shown: &str) -> String {
    replaced(text, field, |value| is_replaced(value).then(|| shown.to_owned()))
}

/// Replaces each value of a field by what this shows in its place.
fn replaced(text: &str, field: &str, shown: impl Fn(&str) -> Option<String>) -> String {
    let name = format!("\"{field}\":");
    let mut parts = text.split(&name);
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find([',', '}']).unwrap_or(part.len());
        let (value, rest) = part.split_at(end);
        replaced.extend([&*name, &*shown(value).unwrap_or_else(|| value.to_owned()), rest]);
    }
    replaced
}

/// Returns the answer itself, or the beginning of a long one.
fn shortened(answer: &str) -> String {
    const LINES: usize = 3;
    const CHARACTERS: usize = 300;
    const MAX_CHARACTERS: usize = 700;
    let mut lines = answer.lines();
    let first: Vec<String> = (&mut lines)
        .take(LINES)
        .map(|line| match line.len() > MAX_CHARACTERS {
            true => format!("{}...", &line[..CHARACTERS]),
            false => line.to_owned(),
        })
        .collect();
    let more = if lines.next().is_some() { "\n..." } else { "" };
    format!("{}{more}", first.join("\n"))
}
