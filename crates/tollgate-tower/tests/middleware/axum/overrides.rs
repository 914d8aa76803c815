//! Overrides behind axum.

use std::sync::Arc;

use axum::Router;
use axum::extract::Extension;
use axum::routing::get as on_get;
use http::StatusCode;
use tollgate::{Key, ManualClock, MemoryStore, Timestamp};
use tollgate_policy::{
    Config, OverrideLimits, OverrideName, OverrideRecord, OverrideTarget, PolicyDecision, PolicyLimiter,
};
use tollgate_tower::{AttributeSources, RateLimitLayer, Rule};

use crate::support::{clock, send, serve};

const LIMITS: &str = "policies: [{ name: users, key: [user], quotas: [1/1m], deny_status: 402 }]";

fn set(limiter: &PolicyLimiter<MemoryStore<ManualClock>>, user: &str, limits: OverrideLimits) {
    limiter.replace_overrides(|set, policies| {
        let target = OverrideTarget::Key(set.key(&Key::from(user)));
        let record = OverrideRecord {
            name: OverrideName { policy: "users".into(), target },
            key: "user".into(),
            limits,
            // In 2100, so that it has not come when the tests run.
            until: Some(Timestamp::from_unix_millis(4_102_444_800_000)),
            label: None,
            note: None,
            by: None,
            at: Timestamp::EPOCH,
            version: 1,
        };
        set.expect_fit(&record, policies).unwrap();
        set.with(record, policies)
    });
}

#[tokio::test]
async fn an_override_changes_one_users_limits_at_once() {
    let config = Config::parse("limits.yaml", LIMITS).unwrap();
    let store = MemoryStore::builder().clock(clock()).build();
    let limiter = Arc::new(PolicyLimiter::new(store, config.into_policies(), "limits.yaml"));
    let sources = AttributeSources::new()
        .with_fn("user", |head| Some(head.headers().get("x-user")?.to_str().unwrap().into()));
    let layer = RateLimitLayer::builder(Rule::policies(&limiter, sources)).build().unwrap();
    let overridden = |Extension(decision): Extension<PolicyDecision>| async move {
        decision.applied_overrides().count().to_string()
    };
    let address = serve(Router::new().route("/", on_get(overridden)).layer(layer)).await;
    let (alice, bob) = ([("x-user", "alice")], [("x-user", "bob")]);
    assert_eq!(send(address, "GET /", &alice).await.body, "0");
    assert_eq!(send(address, "GET /", &alice).await.status, StatusCode::PAYMENT_REQUIRED);

    set(&limiter, "alice", OverrideLimits::of(["3/1m"]));
    let raised = send(address, "GET /", &alice).await;
    assert_eq!((&*raised.body, raised.header("ratelimit")), (&b"1"[..], Some("\"users\";r=1;t=42")));
    assert_eq!(raised.header("ratelimit-policy"), Some("\"users\";q=3;w=60"));
    assert_eq!(send(address, "GET /", &bob).await.header("ratelimit-policy"), Some("\"users\";q=1;w=60"));

    set(&limiter, "alice", OverrideLimits::Unlimited);
    for _ in 0..5 {
        let free = send(address, "GET /", &alice).await;
        assert_eq!((free.status, free.header("ratelimit")), (StatusCode::OK, None));
    }
}

/// It was answered with the status of the policy's denials, and clients asked again after a second.
#[tokio::test]
async fn a_denial_by_an_override_is_403_without_a_wait() {
    let config = Config::parse("limits.yaml", LIMITS).unwrap();
    let store = MemoryStore::builder().clock(clock()).build();
    let limiter = Arc::new(PolicyLimiter::new(store, config.into_policies(), "limits.yaml"));
    set(&limiter, "alice", OverrideLimits::Denied);
    let sources = AttributeSources::new()
        .with_fn("user", |head| Some(head.headers().get("x-user")?.to_str().unwrap().into()));
    let layer = RateLimitLayer::builder(Rule::policies(&limiter, sources)).build().unwrap();
    let address = serve(Router::new().route("/", on_get(|| async {})).layer(layer)).await;

    let denied = send(address, "GET /", &[("x-user", "alice")]).await;
    assert_eq!((denied.status, denied.header("retry-after")), (StatusCode::FORBIDDEN, None));
    assert_eq!(denied.header("ratelimit"), None);
    let problem = denied.json();
    assert_eq!(problem["type"], "urn:problem-type:tollgate:denied-by-override");
    assert_eq!(
        (problem["title"].as_str(), problem["status"].as_u64()),
        (Some("Denied by an override"), Some(403))
    );
    assert_eq!(problem["reason"], "denied_by_override");
    assert_eq!(problem["override"]["until"], "2100-01-01T00:00:00Z");
    assert!(!problem.to_string().contains("alice"), "{problem}");

    // PERMISSION_DENIED
    let grpc = [("x-user", "alice"), ("content-type", "application/grpc")];
    let denied = send(address, "GET /", &grpc).await;
    assert_eq!((denied.status, denied.header("grpc-status")), (StatusCode::OK, Some("7")));
    assert_eq!(denied.header("grpc-status-details-bin"), None, "there is nothing to wait for");
}
