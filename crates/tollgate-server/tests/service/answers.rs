//! `--answers`: paths and formats of other systems, in addition to our own.

#![allow(clippy::expect_used, reason = "this is a test")]

use serde_json::json;

use crate::support::{Reply, Server};

fn text(reply: &Reply) -> &str {
    std::str::from_utf8(&reply.body).expect("text")
}

#[test]
fn serves_paths_of_other_systems_only_if_requested() {
    let server = Server::start(&["--limit", "5/1d"]);
    for path in ["/check?userId=alice", "/api/v1/rate_limit?user_id=a&endpoint=/"] {
        assert_eq!(server.get(path).status, 404);
    }
    let evaluate = server.get("/evaluate?key=user:alice").json();
    assert_eq!(evaluate["detail"], "this path is only served with `serve --answers spring-starter`");
    let envoy = server.post("/json", "{}").json();
    let detail = envoy["detail"].as_str().expect("a text");
    assert!(detail.starts_with("this path is only served with `serve --import envoy-ratelimit`"), "{detail}");
    let rlaas = Server::start(&["--limit", "5/1d", "--answers", "rlaas"]);
    assert_eq!(rlaas.get("/api/v1/rate_limit?user_id=a&endpoint=/").status, 404);
    assert_eq!(rlaas.admin_get("/check?userId=alice").status, 404);
    assert_eq!(rlaas.get("/v1/check?userId=alice").json()["used"], 1);
    let posted = rlaas.post("/check", "{}");
    assert_eq!((posted.status, posted.header("allow")), (405, Some("GET")));
}

#[test]
fn rlaas_admits_and_denies_in_its_own_sentences() {
    let server = Server::start(&["--limit", "5/1d@first_hit", "--key", "userId", "--answers", "rlaas"]);
    // It reads only its own parameter: a cost of 0 would count nothing.
    for path in ["/check?userId=alice", "/check?userId=alice&cost=0", "/check?x=1&userId=%61lice"] {
        let reply = server.get(path);
        assert_eq!((reply.status, text(&reply)), (200, "User is allowed"), "{path}");
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
    }
    assert_eq!(server.get("/v1/check?userId=alice&cost=2").json()["used"], 5);
    let denied = server.get("/check?userId=alice");
    let seconds = denied.header("retry-after").expect("a time to wait");
    assert_eq!(text(&denied), format!("User is not allowed...Try after {seconds} seconds."));
    assert_eq!(denied.status, 429);
    assert!((86_300..=86_400).contains(&seconds.parse::<u32>().expect("whole seconds")), "{seconds}");
    assert!(denied.header("ratelimit").is_some_and(|limit| limit.starts_with(r#""default";r=0;t="#)));
    assert_eq!(server.get("/check?userId=bob").status, 200);
}

/// All requests without a user counted as one user, probes and scrapes included.
#[test]
fn rlaas_refuses_requests_without_a_user_and_charges_nothing() {
    let server = Server::start(&["--limit", "1/1d@first_hit", "--key", "userId", "--answers", "rlaas"]);
    for path in ["/check", "/check?userId=", "/check?userid=alice", "/check?userId=a&userId=b"] {
        server.get(path).assert_problem(400, Some("query.userId"));
    }
    server.get("/check?userId=%zz").assert_problem(400, Some("query.userId"));
    assert_eq!(server.metric("tollgate_store_counters"), Some(0.0));
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.get("/check?userId=null").status, 200);
}

#[test]
fn leetdezine_answers_a_gateway_in_its_two_bodies() {
    let server = Server::start(&["--limit", "5/1d@first_hit", "--key", "user", "--answers", "leetdezine"]);
    let path = "/api/v1/rate_limit?user_id=u_abc123&ip_address=203.0.113.5&endpoint=/api/v1/login";
    for _ in 0..5 {
        let reply = server.get(path);
        assert_eq!((reply.status, reply.json()), (200, json!({ "accepted": true, "retry_after": 0 })));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
    }
    let denied = server.get(path);
    let seconds: u64 = denied.header("retry-after").expect("a wait").parse().expect("whole seconds");
    let body = json!({ "accepted": false, "retry_after": seconds, "error": "rate limit exceeded" });
    assert_eq!((denied.status, denied.json()), (429, body));
    assert!((86_300..=86_400).contains(&seconds), "{seconds}");
}

#[test]
fn leetdezine_counts_by_user_or_else_by_address() {
    let server = Server::start(&["--limit", "9/1d", "--answers", "leetdezine"]);
    let path = |query: &str| format!("/api/v1/rate_limit?{query}");
    for query in ["user_id=a&ip=::1&endpoint=/", "ip=192.0.2.1&endpoint=/", "ip_address=192.0.2.1&endpoint=/"]
    {
        assert_eq!(server.get(&path(query)).status, 200, "{query}");
    }
    for (query, field) in [
        ("user_id=a", "query.endpoint"),
        ("user_id=a&endpoint=", "query.endpoint"),
        ("endpoint=/", "query.user_id"),
        ("user_id=&endpoint=/", "query.user_id"),
        ("user_id=a&endpoint=/&tier=free&tier=admin", "query.tier"),
        // Its keys do not tell a user from an address.
        ("user_id=192.0.2.1&endpoint=/", "query.user_id"),
        ("user_id=2001:db8::1&endpoint=/", "query.user_id"),
        ("ip_address=alice&endpoint=/", "query.ip_address"),
        ("user_id=a&ip=alice&endpoint=/", "query.ip_address"),
    ] {
        server.get(&path(query)).assert_problem(400, Some(field));
    }
}

#[test]
fn other_settings_of_a_policy_hold_there_too() {
    let folder = std::env::temp_dir().join(format!("tollgate-answers-{}", std::process::id()));
    let policies = "
policies:
  - name: unknown
    match: { endpoint: /unknown }
    key: [session]
    quotas: [5/1d]
    on_missing_key: deny
  - name: nobody
    match: { endpoint: /nobody, tier: free }
    key: global
    quotas: [0/1d]
    deny_status: 403
";
    std::fs::write(&folder, policies).expect("a file can be written");
    let file = folder.to_str().expect("a path in UTF-8");
    let server = Server::start(&["--config", file, "--answers", "leetdezine"]);
    let ask = |endpoint: &str| server.get(&format!("/api/v1/rate_limit?user_id=a&endpoint={endpoint}"));
    // Without a limit there is no window, and the format cannot express that.
    let unknown = ask("/unknown");
    assert_eq!((unknown.status, unknown.json()["reason"].as_str()), (429, Some("missing_key")));
    let nobody = ask("/nobody");
    assert_eq!((nobody.status, nobody.json()["error"].as_str()), (403, Some("rate limit exceeded")));
    assert_eq!(nobody.header("retry-after"), None, "no wait helps");
    assert_eq!(ask("/elsewhere").status, 200);
    let _ = std::fs::remove_file(&folder);
}
