//! Policies of a file in front of axum.

use std::sync::Arc;
use std::sync::mpsc::channel;

use axum::Router;
use axum::extract::Extension;
use axum::routing::{get as on_get, post as on_post};
use http::{HeaderName, Request, StatusCode};
use tollgate::{ManualClock, MemoryStore, QuotaStates, Store, StoreError};
use tollgate_policy::{Config, PolicyDecision, PolicyLimiter, View};
use tollgate_testkit::{FaultyStore, StoreFault};
use tollgate_tower::key::{Header, PeerAddress};
use tollgate_tower::{AttributeSources, Head, RateLimitLayer, Reservation, Rule, SetupWarning};

use crate::support::{Runs, clock, get, send, serve};

const LIMITS: &str = "
policies:
  - name: health
    match: { path: /health }
    exempt: true
  - name: login
    match: { path: /login, method: POST }
    key: [ip]
    quotas: [2/1m]
    deny_status: 403
    headers: x-ratelimit
  - name: users
    match: { path: '/users/{id}' }
    key: [user]
    quotas: [3/1m, 100/day@UTC]
    on_missing_key: deny
";

type Limiter<S> = Arc<PolicyLimiter<S>>;

fn limiter_of<S: Store>(limits: &str, store: S) -> Limiter<S> {
    let config = Config::parse("limits.yaml", limits).unwrap();
    Arc::new(PolicyLimiter::new(store, config.into_policies(), "limits.yaml"))
}

fn limiter(limits: &str) -> Limiter<MemoryStore<ManualClock>> {
    limiter_of(limits, MemoryStore::builder().clock(clock()).build())
}

fn with_user() -> AttributeSources {
    AttributeSources::new()
        .with_fn("user", |head| Some(head.headers().get("x-user")?.to_str().unwrap().into()))
}

fn router() -> Router {
    let quotas = |Extension(decision): Extension<PolicyDecision>| async move {
        decision.quotas().map(|standing| format!("{} ", standing.state.remaining())).collect::<String>()
    };
    Router::new()
        .route("/health", on_get(|| async {}))
        .route(
            "/login",
            on_post(|Extension(counted): Extension<QuotaStates>| async move {
                counted[0].remaining().to_string()
            }),
        )
        .route("/users/{id}", on_get(quotas))
}

#[tokio::test]
async fn policies_choose_key_cost_and_headers() {
    let limiter = limiter(LIMITS);
    let layer = RateLimitLayer::builder(Rule::policies(&limiter, with_user())).build().unwrap();
    let address = serve(router().layer(layer)).await;

    for left in ["1", "0"] {
        let allowed = send(address, "POST /login", &[]).await;
        assert_eq!(allowed.body, left);
        assert_eq!(allowed.header("x-ratelimit-remaining"), Some(left));
    }
    let denied = send(address, "POST /login", &[]).await;
    assert_eq!(denied.status, StatusCode::FORBIDDEN);
    assert_eq!(
        (denied.header("retry-after"), denied.header("x-ratelimit-remaining")),
        (Some("42"), Some("0"))
    );
    assert_eq!(
        (denied.json()["policy"].as_str(), denied.json()["status"].as_u64()),
        (Some("login"), Some(403))
    );

    // The path is the matched route, so one policy covers all users; the attribute tells them apart.
    let alice = [("x-user", "alice")];
    let answer = send(address, "GET /users/7", &alice).await;
    assert_eq!(answer.body, "2 99 ");
    assert_eq!(
        answer.header("ratelimit"),
        Some("\"users/3/1m\";r=2;t=42, \"users/100/day@UTC\";r=99;t=6342")
    );
    assert_eq!(send(address, "GET /users/8", &alice).await.body, "1 98 ");
    assert_eq!(send(address, "GET /users/8", &[("x-user", "bob")]).await.body, "2 99 ");
    let nobody = get(address, "/users/7").await;
    assert_eq!(nobody.status, StatusCode::TOO_MANY_REQUESTS);
    let problem = nobody.json();
    assert_eq!(problem["type"], "urn:problem-type:tollgate:missing-key");
    assert_eq!(problem["detail"], "the request has no key: `user` is missing");
    assert_eq!(
        (&problem["violated-policies"][0], &problem["reason"]),
        (&"users".into(), &"missing_key".into())
    );

    for _ in 0..3 {
        let exempt = get(address, "/health").await;
        assert_eq!((exempt.status, exempt.header("ratelimit")), (StatusCode::OK, None));
    }
}

#[tokio::test]
async fn other_policies_hold_from_the_next_request_on() {
    let limiter = limiter("policies: [{ name: all, key: [ip], quotas: [1/1m] }]");
    let layer = RateLimitLayer::builder(Rule::policies(&limiter, AttributeSources::new())).build().unwrap();
    let address = serve(router().layer(layer)).await;
    assert_eq!(get(address, "/health").await.status, StatusCode::OK);
    assert_eq!(get(address, "/health").await.status, StatusCode::TOO_MANY_REQUESTS);
    let raised =
        Config::parse("limits.yaml", "policies: [{ name: all, key: [ip], quotas: [3/1m] }]").unwrap();
    limiter.replace(raised.into_policies(), "limits.yaml");
    assert_eq!(get(address, "/health").await.header("ratelimit"), Some("\"all\";r=1;t=42"));
}

#[tokio::test]
async fn reservations_and_refunds_go_back() {
    const LIMITS: &str = "policies: [{ name: all, key: [ip], quotas: [20/1m] }]";
    let commit = |Extension(reservation): Extension<Reservation>| async move {
        assert_eq!(reservation.units(), 10);
        reservation.commit(3).await.unwrap();
    };
    let reserving = limiter(LIMITS);
    let rule = Rule::policies(&reserving, AttributeSources::new()).cost(10).reserve();
    let layer = RateLimitLayer::builder(rule).build().unwrap();
    let address = serve(Router::new().route("/", on_get(commit)).layer(layer)).await;
    assert_eq!(get(address, "/").await.header("ratelimit"), Some("\"all\";r=10;t=42"));
    assert_eq!(get(address, "/").await.header("ratelimit"), Some("\"all\";r=7;t=42"), "17 were left");

    let refunding = limiter(LIMITS);
    let rule = Rule::policies(&refunding, AttributeSources::new())
        .refund_if(|response| response.status.is_success());
    let layer = RateLimitLayer::builder(rule).build().unwrap();
    let address = serve(Router::new().route("/", on_get(|| async {})).layer(layer)).await;
    for _ in 0..2 {
        assert_eq!(get(address, "/").await.header("ratelimit"), Some("\"all\";r=19;t=42"));
    }
    get(address, "/nowhere").await;
    assert_eq!(get(address, "/").await.header("ratelimit"), Some("\"all\";r=18;t=42"), "one has failed");
}

/// The error of a commit did not name its policy.
#[tokio::test]
async fn an_error_of_a_commit_names_the_policy() {
    let store = FaultyStore::new(MemoryStore::new());
    let limits = "
policies:
  - { name: requests, key: [ip], cost: 1, quotas: [9/1m@first_hit] }
  - { name: tokens, key: [ip], quotas: [100/1m@first_hit] }";
    let rule = Rule::policies(&limiter_of(limits, store.clone()), AttributeSources::new()).cost(50).reserve();
    let commit = move |Extension(reservation): Extension<Reservation>| async move {
        store.begin(StoreFault::unreachable());
        reservation.commit(20).await.unwrap_err().to_string()
    };
    let layer = RateLimitLayer::builder(rule).build().unwrap();
    let address = serve(Router::new().route("/", on_get(commit)).layer(layer)).await;
    let said = get(address, "/").await.body;
    assert_eq!(said, "policy `tokens`, quota 100/1m@first_hit: the store could not count");
}

#[tokio::test]
async fn trouble_is_answered_as_the_policy_has_it() {
    for (on_failure, status) in [("open", StatusCode::OK), ("closed", StatusCode::SERVICE_UNAVAILABLE)] {
        let store = FaultyStore::new(MemoryStore::new());
        let limits =
            format!("policies: [{{ name: all, key: [ip], quotas: [1/1m], on_store_failure: {on_failure} }}]");
        let limiter = limiter_of(&limits, store.clone());
        let layer =
            RateLimitLayer::builder(Rule::policies(&limiter, AttributeSources::new())).build().unwrap();
        let address = serve(router().layer(layer)).await;
        store.begin(StoreFault::unreachable());
        for _ in 0..3 {
            assert_eq!(get(address, "/health").await.status, status, "{on_failure}");
        }
        store.begin(StoreFault::Fails(StoreError::Uncountable("its quotas lie in several slots")));
        let uncountable = get(address, "/health").await;
        assert_eq!(uncountable.status, StatusCode::INTERNAL_SERVER_ERROR, "{on_failure}");
        assert_eq!(uncountable.json()["type"], "urn:problem-type:tollgate:uncountable");
    }
}

/// A user's function may be slow, and may have side effects.
#[tokio::test]
async fn a_request_that_waits_for_its_store_is_read_once() {
    let limits = "policies: [{ name: all, key: [ip], quotas: [9/1m@first_hit] }]";
    for reserves in [false, true] {
        let store = FaultyStore::new(MemoryStore::new());
        let (told, cost) = (Runs::default(), Runs::default());
        let (telling, costing) = (told.clone(), cost.clone());
        let sources = AttributeSources::new().with_fn("host", move |_| {
            telling.add();
            None
        });
        let rule = Rule::policies(&limiter_of(limits, store), sources);
        let rule = rule.cost_of(move |_| {
            costing.add();
            2
        });
        let rule = if reserves { rule.reserve() } else { rule };
        let address = serve(router().layer(RateLimitLayer::builder(rule).build().unwrap())).await;
        assert!(get(address, "/health").await.header("ratelimit").unwrap().starts_with("\"all\";r=7;"));
        assert_eq!((told.count(), cost.count()), (1, 1));
    }
}

#[tokio::test]
async fn a_proxy_in_front_of_policies_shows_as_well() {
    for (name, expected) in [("ip", &[SetupWarning::PeerIsProxy][..]), ("peer", &[])] {
        let (give, warnings) = channel();
        let sources = AttributeSources::new().with_fn("ip", |_| None).with(name, PeerAddress::new());
        let limits = "policies: [{ name: all, key: [ip], quotas: [9/1m], on_missing_key: skip }]";
        let rule = Rule::policies(&limiter(limits), sources);
        let layer = RateLimitLayer::builder(rule).on_warning(move |warning| give.send(warning).unwrap());
        let address = serve(router().layer(layer.build().unwrap())).await;
        for _ in 0..2 {
            assert_eq!(
                send(address, "GET /health", &[("forwarded", "for=192.0.2.7")]).await.status,
                StatusCode::OK
            );
        }
        assert_eq!(warnings.try_iter().collect::<Vec<_>>(), expected, "{name}");
    }
}

#[tokio::test]
async fn listed_callers_are_denied_before_anything_is_counted() {
    let limits = "deny: { user: [mallory] }
allow: { user: [root] }
policies: [{ name: each, key: [user], quotas: [1/1m] }]";
    let layer = RateLimitLayer::builder(Rule::policies(&limiter(limits), with_user())).build().unwrap();
    let address = serve(router().layer(layer)).await;
    for _ in 0..2 {
        let denied = send(address, "GET /users/7", &[("x-user", "mallory")]).await;
        assert_eq!((denied.status, denied.header("retry-after")), (StatusCode::FORBIDDEN, None));
        assert_eq!(denied.json()["detail"], "the request matches a deny list");
        assert_eq!(send(address, "GET /users/7", &[("x-user", "root")]).await.status, StatusCode::OK);
    }
    assert_eq!(send(address, "GET /users/7", &[("x-user", "alice")]).await.status, StatusCode::OK);
}

/// A client that sends the header itself could choose its limit.
#[tokio::test]
async fn limits_come_only_from_verified_attributes() {
    let limits = "policies:
  - { name: api, key: [user], quotas: [{ limit: { attribute: quota }, max: 5, window: 1m }] }
  - { name: health, match: { path: /health }, exempt: true }";
    let header = || Header::new(HeaderName::from_static("x-quota")).plain();
    for is_verified in [false, true] {
        let (give, warnings) = channel();
        let with_quota = |sources: AttributeSources| sources.with("quota", header());
        let sources = if is_verified { with_user().verified(with_quota) } else { with_quota(with_user()) };
        let rule = Rule::policies(&limiter(limits), sources);
        let layer = RateLimitLayer::builder(rule).on_warning(move |warning| give.send(warning).unwrap());
        let address = serve(router().layer(layer.build().unwrap())).await;
        let ask = async |quota: &'static str| {
            let reply = send(address, "GET /users/7", &[("x-user", "alice"), ("x-quota", quota)]).await;
            (reply.status.as_u16(), reply.header("ratelimit-policy").map(str::to_owned))
        };
        assert_eq!(send(address, "GET /health", &[]).await.status, StatusCode::OK);
        if !is_verified {
            assert_eq!((ask("4").await, ask("4").await), ((500, None), (500, None)));
            assert_eq!(warnings.try_iter().collect::<Vec<_>>(), [SetupWarning::UnverifiedLimit]);
            continue;
        }
        let told = |quota: u64| Some(format!("\"api\";q={quota};w=60"));
        assert_eq!(ask("2").await, (200, told(2)));
        assert_eq!(ask("2").await, (200, told(2)));
        assert_eq!(ask("2").await, (429, told(2)));
        assert_eq!(ask("3").await, (200, told(3)), "the counter is the same");
        assert_eq!(ask("9").await, (200, told(5)));
        assert_eq!(ask("many").await, (400, None));
        assert_eq!(warnings.try_iter().count(), 0);
    }
    // A source that replaces it is not verified.
    let verified = AttributeSources::new().verified(|sources| sources.with("quota", header()));
    let request = Request::new(());
    assert!(verified.view(Head::from(&request)).is_verified("quota"));
    let replaced = verified.with("quota", header());
    assert!(!replaced.view(Head::from(&request)).is_verified("quota"));
}

/// The policy that decided, its quota and the request; no quota if a policy denies a request without a key.
#[tokio::test]
async fn a_denial_knows_the_policy_that_denied_and_the_request() {
    let limiter = limiter(LIMITS);
    let rule = Rule::policies(&limiter, with_user());
    let layer = RateLimitLayer::builder(rule).on_denied(|denial, mut response| {
        let quota = denial.quota().map(|quota| format!("{} {}", quota.policy(), quota.quota()));
        let path = denial.head().uri().path();
        let left = denial.state().map(|state| state.remaining());
        assert_eq!(left, denial.counted().map(|counted| counted[0].remaining()));
        *response.body_mut() = format!("{path}: {quota:?}, {left:?} left").into();
        response
    });
    let address = serve(router().layer(layer.build().unwrap())).await;
    let alice = [("x-user", "alice")];
    for _ in 0..3 {
        assert_eq!(send(address, "GET /users/7", &alice).await.status, StatusCode::OK);
    }
    let denied = send(address, "GET /users/7", &alice).await;
    assert_eq!(denied.body, "/users/7: Some(\"users 3/1m\"), Some(0) left");
    let unknown = get(address, "/users/8").await;
    assert_eq!(unknown.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(unknown.body, "/users/8: None, None left");
}

#[tokio::test]
async fn a_layer_may_leave_no_decision_of_policies() {
    let handler = |counted: Option<Extension<QuotaStates>>, decision: Option<Extension<PolicyDecision>>| async move {
        format!("{} {}", counted.is_some(), decision.is_some())
    };
    let rule = Rule::policies(
        &limiter("policies: [{ name: all, key: global, quotas: [9/1m] }]"),
        AttributeSources::new(),
    );
    for (builder, body) in [
        (RateLimitLayer::builder(rule.clone()), "true true"),
        (RateLimitLayer::builder(rule).without_decisions(), "false false"),
    ] {
        let address = serve(Router::new().route("/", on_get(handler)).layer(builder.build().unwrap())).await;
        assert_eq!(get(address, "/").await.body, body);
    }
}
