//! What a caller is answered whom an override denies: the same at every door, without a wait, and without its key.

use serde_json::json;

use super::{Service, ask};
use crate::grpc_client::messages::kuadrant::service::ratelimit::v1::{ReserveRequest, ReserveResponse};
use crate::grpc_client::{OK, OVER_LIMIT, RateLimitRequest, RateLimitResponse, Wire, request};

/// One policy for every door.
const POLICIES: &str = "
policies:
  - { name: search, key: [user], quotas: [5/1h], deny_status: 418 }
";

fn denied(policies: &str, flags: &[&str]) -> Service {
    let service = Service::with(policies, flags);
    let body = json!({
        "policy": "search", "attributes": { "user": "canary-user" }, "quotas": "denied",
        "until": "2100-01-01T00:00:00Z", "note": "canary-note", "label": "abuse",
    });
    service.set(&body);
    service
}

const ALICE: &str = r#"{"attributes": {"user": "canary-user"}}"#;

#[test]
fn a_denial_is_403_without_a_wait() {
    let service = denied(POLICIES, &[]);
    let bearer = format!("Authorization: Bearer {}", service.token);
    for reply in [
        service.post("/v1/check", ALICE),
        service.post("/v1/reserve", ALICE),
        ask(service.server.public, "GET", "/v1/check?user=canary-user", &[&bearer], ""),
    ] {
        reply.assert_problem(403, None);
        assert_eq!((reply.header("retry-after"), reply.header("ratelimit")), (None, None));
        let problem = reply.json();
        assert_eq!(
            (
                &problem["title"],
                &problem["reason"],
                &problem["ground"],
                &problem["policy"],
                &problem["allowed"]
            ),
            (
                &json!("Denied by an override"),
                &json!("denied_by_override"),
                &json!("denied_by_override"),
                &json!("search"),
                &json!(false)
            )
        );
        assert_eq!(problem["override"], json!({ "until": "2100-01-01T00:00:00Z" }), "neither label nor note");
        assert!(problem.get("retry_after_ms").is_none() && problem.get("quota").is_none(), "{problem}");
        assert!(!problem.to_string().contains("canary"), "{problem}");
    }
    let peek = service.post("/v1/peek", ALICE);
    assert_eq!((peek.status, &peek.json()["reason"]), (200, &json!("denied_by_override")));
    let batch = format!(r#"{{"requests": [{ALICE}, {{"attributes": {{"user": "bob"}}}}]}}"#);
    let batch = service.post("/v1/check/batch", &batch).json();
    assert_eq!(batch["decisions"][0]["reason"], "denied_by_override");
    assert_eq!(batch["decisions"][1]["allowed"], true);
    // Nothing was charged meanwhile.
    service.delete(&json!({ "policy": "search", "attributes": { "user": "canary-user" } }));
    assert_eq!(service.post("/v1/check", ALICE).json()["used"], 1);
}

/// An API gateway passes the status on, so its client learns nothing but that it is denied.
#[test]
fn a_proxy_is_answered_403() {
    let policies = "policies: [{ name: search, key: [header.x-user], quotas: [5/1h] }]";
    let service = Service::with(policies, &["--trusted-proxy", "127.0.0.0/8"]);
    let attributes = json!({ "header.x-user": "canary-user" });
    service.set(&json!({ "policy": "search", "attributes": attributes, "quotas": "denied" }));
    let bearer = format!("Authorization: Bearer {}", service.token);
    let forward = |path: &str| {
        let headers = [
            &*bearer,
            "X-Forwarded-Method: GET",
            "X-Forwarded-Uri: /",
            "X-Forwarded-Host: a.example",
            "X-Forwarded-For: 192.0.2.7",
            "X-User: canary-user",
        ];
        ask(service.server.public, "GET", path, &headers, "")
    };
    let reply = forward("/forward-auth");
    reply.assert_problem(403, None);
    assert_eq!(
        (reply.json()["reason"].clone(), reply.header("retry-after")),
        (json!("denied_by_override"), None)
    );
    assert!(!reply.json().to_string().contains("canary"), "{}", reply.json());
    assert_eq!(forward("/forward-auth?deny=401").status, 401);
}

/// These systems have no word for it, so the answer is ours.
#[test]
fn other_systems_get_our_answer() {
    for (system, path, key, attribute) in [
        ("rlaas", "/check?userId=canary-user", "userId", "userId"),
        ("leetdezine", "/api/v1/rate_limit?user_id=canary-user&endpoint=/search", "user", "user"),
        ("spring-starter", "/evaluate?key=canary-user", "key", "key"),
    ] {
        let policies = format!("policies: [{{ name: search, key: [{key}], quotas: [5/1h] }}]");
        let service = Service::with(&policies, &["--answers", system]);
        let bearer = format!("Authorization: Bearer {}", service.token);
        let check = || ask(service.server.public, "GET", path, &[&bearer], "");
        assert_eq!(check().status, 200, "{system}: {}", check().json());
        let attributes = json!({ attribute: "canary-user" });
        service.set(&json!({ "policy": "search", "attributes": attributes, "quotas": "denied" }));
        let reply = check();
        reply.assert_problem(403, None);
        assert_eq!(
            (&reply.json()["reason"], reply.header("retry-after")),
            (&json!("denied_by_override"), None)
        );
    }
}

/// Over gRPC, Envoy knows allowed and over the limit, and waits for what it is told.
#[tokio::test]
async fn envoy_is_answered_over_the_limit_without_a_wait() {
    let service = denied(POLICIES, &["--grpc", "127.0.0.1:0"]);
    let wire = Wire::open(&service.server).await;
    let bearer = format!("Bearer {}", service.token);
    let authorization = [("authorization", &*bearer)];
    let of = |user: &'static str| request(&[&[("user", user)]]);
    for path in [None, Some("/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit")] {
        for (user, code) in [("canary-user", OVER_LIMIT), ("bob", OK)] {
            let answer: RateLimitResponse = match path {
                None => wire.call_with(of(user), &authorization).await,
                Some(path) => wire.call_kuadrant(path, of(user), &authorization).await,
            }
            .expect("an answer");
            assert_eq!((answer.overall_code, answer.statuses[0].code), (code, code), "{path:?} {user}");
            let is_told = answer.statuses[0].duration_until_reset.is_some();
            assert_eq!(is_told, code == OK, "{path:?} {user}: there is nothing to wait for");
        }
    }
    let RateLimitRequest { domain, descriptors, .. } = of("canary-user");
    let reserve = ReserveRequest { domain, descriptors, amount: 1, ttl: None };
    let path = "/kuadrant.service.ratelimit.v1.RateLimitService/Reserve";
    let reserved: ReserveResponse =
        wire.call_kuadrant(path, reserve, &authorization).await.expect("an answer");
    assert!(reserved.reservation_id.is_empty(), "{reserved:?}");
}
