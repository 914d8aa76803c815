//! Former ways around a limit, each closed.

use std::sync::Arc;
use std::sync::mpsc::channel;

use axum::Router;
use axum::extract::Extension;
use axum::routing::{any, get as on_get};
use http::StatusCode;
use tollgate::{Key, ManualClock, MemoryStore};
use tollgate_policy::{Config, PolicyDecision, PolicyLimiter};
use tollgate_tower::key::{self, Global, Header, Identity, InvalidIdentity, KeyExtractor, Peer, PeerAddress};
use tollgate_tower::{
    AttributeSources, Head, OnMissing, RateLimitLayer, RateLimitLayerBuilder, Reservation, Rule, SetupWarning,
};

use crate::support::{Runs, clock, get, limiter, send, serve};

type Policies = Arc<PolicyLimiter<MemoryStore<ManualClock>>>;

fn policies(limits: &str) -> Policies {
    let config = Config::parse("limits.yaml", limits).unwrap();
    let store = MemoryStore::builder().clock(clock()).build();
    Arc::new(PolicyLimiter::new(store, config.into_policies(), "limits.yaml"))
}

fn by_policies(limits: &str) -> RateLimitLayerBuilder {
    RateLimitLayer::builder(Rule::policies(&policies(limits), AttributeSources::new()))
}

/// axum answers HEAD with the handler for GET, so HEAD bypassed every policy that named GET.
#[tokio::test]
async fn head_is_counted_as_get() {
    let layer =
        by_policies("policies: [{ name: all, match: { method: GET }, key: [ip, method], quotas: [2/1m] }]");
    let router = Router::new().route("/", on_get(|| async {}));
    let address = serve(router.layer(layer.build().unwrap())).await;
    assert_eq!(send(address, "HEAD /", &[]).await.header("ratelimit"), Some("\"all\";r=1;t=42"));
    assert_eq!(get(address, "/").await.header("ratelimit"), Some("\"all\";r=0;t=42"));
    assert_eq!(send(address, "HEAD /", &[]).await.status, StatusCode::TOO_MANY_REQUESTS);
}

/// If a handler decodes paths itself, one resource has many spellings. The first policy or route that named it counted
/// only one of them.
#[tokio::test]
async fn all_spellings_of_a_path_are_counted_together() {
    let login = || Rule::new(limiter("login", "5/1m")).key(Global);
    let layers = [
        by_policies("policies: [{ name: login, match: { path: /login }, key: [path], quotas: [5/1m] }]"),
        RateLimitLayer::builder(Rule::unlimited()).route("/login", login()),
    ];
    for layer in layers {
        // The layer wraps the router's fallback, which has no route.
        let router = Router::new().fallback(any(|| async {})).layer(layer.build().unwrap());
        let address = serve(router).await;
        for (path, left) in [
            ("/login", Some("4")),
            ("//login", Some("3")),
            ("/%6Cogin?x=%2f", Some("2")),
            ("/x/../login", Some("1")),
            ("/login/", None),
            ("/x%2F..%2Flogin", Some("0")),
        ] {
            let answer = get(address, path).await;
            let told =
                answer.header("ratelimit").map(|told| told.split([';', '=']).nth(2).unwrap().to_owned());
            assert_eq!(told.as_deref(), left, "{path}");
        }
        assert_eq!(get(address, "/.//login").await.status, StatusCode::TOO_MANY_REQUESTS);
    }
}

/// A layer in front of a router had a limit for all requests, and none for the health check. It read
/// `/api/..%2fhealthz` as `/healthz`, and the router as a path below `/api`: any client could avoid the limit.
#[tokio::test]
async fn a_spelling_of_an_unlimited_path_that_the_service_may_read_otherwise_is_counted() {
    let all = || Rule::new(limiter("all", "9/1m")).key(Global);
    let layers = [
        by_policies(
            "policies:
  - { name: all, key: global, quotas: [9/1m] }
  - { name: health, match: { path: /healthz }, exempt: true }",
        ),
        RateLimitLayer::builder(all()).route("/healthz", Rule::unlimited()),
    ];
    for layer in layers {
        let router = Router::new().fallback(any(|| async {})).layer(layer.build().unwrap());
        let address = serve(router).await;
        let spellings = ["/api/..%2fhealthz", "/api/../healthz", "/api/%2e%2e/healthz", "/api//../healthz"];
        for (path, left) in spellings.into_iter().zip(["8", "7", "6", "5"]) {
            let answer = get(address, path).await;
            assert_eq!(answer.header("ratelimit").unwrap().split([';', '=']).nth(2), Some(left), "{path}");
        }
        assert_eq!(get(address, "/healthz?a=/../b").await.header("ratelimit"), None);
    }
}

/// `/public/info/..%2f..%2fapi%2fx` is a path below `/public/info` as it was sent, and `/api/x` normalized. Only the
/// loose limit of the first counted it, and a service that decodes paths served `/api/x`.
#[tokio::test]
async fn a_path_that_two_routes_count_in_its_two_readings_is_counted_by_both() {
    let waiting = || {
        key::from_async_fn(|_| async {
            tokio::task::yield_now().await;
            Ok(Identity::Known(Key::from("all")))
        })
    };
    for waits in [false, true] {
        let strict = Rule::new(limiter("strict", "1/1m"));
        let strict = if waits { strict.key(waiting()) } else { strict.key(Global) };
        let loose = Rule::new(limiter("loose", "9/1m")).key(Global);
        let layer = RateLimitLayer::builder(Rule::unlimited()).route("/api/{*rest}", strict).route(
            "/public/info/{id}",
            loose.refund_if(|response| response.status == StatusCode::TOO_MANY_REQUESTS),
        );
        let router = Router::new().fallback(any(|| async {})).layer(layer.build().unwrap());
        let address = serve(router).await;
        let moved = "/public/info/..%2f..%2fapi%2fx";
        assert_eq!(get(address, moved).await.header("ratelimit"), Some("\"strict\";r=0;t=42"));
        assert_eq!(get(address, moved).await.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(get(address, "/api/x").await.status, StatusCode::TOO_MANY_REQUESTS);
        let left = async || get(address, "/public/info/a").await.header("ratelimit").map(str::to_owned);
        assert_eq!(left().await.as_deref(), Some("\"loose\";r=7;t=42"), "the denial charged nothing here");
        // The other rule denies, and this one gives back what it does for such an answer.
        let denied = get(address, "/api/..%2fpublic%2finfo%2fa").await;
        assert_eq!(denied.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(denied.header("ratelimit"), Some("\"strict\";r=0;t=42"));
        assert_eq!(left().await.as_deref(), Some("\"loose\";r=6;t=42"));
    }
    // Copies of one rule, for both spellings of a route, count once.
    let rule = Rule::new(limiter("one", "9/1m")).key(Global);
    let layer = RateLimitLayer::builder(Rule::unlimited()).route("/café", rule.clone());
    let layer = layer.route("/caf%C3%A9", rule).build().unwrap();
    let address = serve(Router::new().fallback(any(|| async {})).layer(layer)).await;
    for left in [8, 7] {
        let answer = get(address, "/caf%C3%A9").await;
        assert_eq!(answer.header("ratelimit"), Some(&*format!("\"one\";r={left};t=42")));
    }
}

/// A service behind `nest_service` sees its paths without their first part. So a policy for `/api/login` did not match,
/// and one for `/login` did.
#[tokio::test]
async fn a_path_is_whole_behind_nested_services() {
    let path = |Extension(decision): Extension<PolicyDecision>| async move {
        decision.policy().map_or("none", |policy| policy.name()).to_owned()
    };
    let limits = "
policies:
  - { name: whole, match: { path: /api/login }, key: global, quotas: [9/1m] }
  - { name: route, match: { path: '/api/users/{id}' }, key: global, quotas: [9/1m] }
  - { name: cut, match: { path: [/login, '/users/{id}', /users/7] }, key: global, quotas: [9/1m] }";
    let layer = || by_policies(limits).build().unwrap();
    let inner = || Router::new().route("/login", any(path)).route("/users/{id}", any(path));
    let fallback = Router::new().fallback(any(path)).layer(layer());
    for (router, route) in [
        (Router::new().nest_service("/api", inner().layer(layer())), "route"),
        (Router::new().nest("/api", inner().layer(layer())), "route"),
        (Router::new().nest("/api", inner()).layer(layer()), "route"),
        (Router::new().nest_service("/api", fallback), "none"),
    ] {
        let address = serve(router).await;
        assert_eq!(get(address, "/api/login").await.body, "whole");
        assert_eq!(get(address, "/api/users/7").await.body, route);
    }
}

/// Every request was asked for its token, so a health check with an expired token was answered 401.
#[tokio::test]
async fn values_that_no_policy_needs_are_not_looked_up() {
    let limits = "
policies:
  - { name: health, match: { path: /health }, exempt: true }
  - { name: search, match: { path: /search, plan: gold }, key: [user], quotas: [9/1m] }
  - { name: all, key: global, quotas: [9/1m] }";
    let (plans, users) = (Runs::default(), Runs::default());
    let find = |runs: &Runs| {
        let runs = runs.clone();
        move |head: Head<'_>| {
            runs.add();
            let value = head.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
            async move {
                // It waits, as a session lookup would.
                tokio::task::yield_now().await;
                match value.as_deref() {
                    Some("stale") => Err(InvalidIdentity::malformed("the session is over")),
                    _ => Ok(value),
                }
            }
        }
    };
    let sources =
        AttributeSources::new().with_async_fn("plan", find(&plans)).with_async_fn("user", find(&users));
    let layer = RateLimitLayer::builder(Rule::policies(&policies(limits), sources)).build().unwrap();
    let address = serve(Router::new().fallback(any(|| async {})).layer(layer)).await;
    for (path, session, status, found) in [
        ("/health", "stale", StatusCode::OK, (0, 0)),
        ("/other", "stale", StatusCode::OK, (0, 0)),
        ("/search", "stale", StatusCode::BAD_REQUEST, (1, 0)),
        ("/search", "free", StatusCode::OK, (2, 0)),
        ("/search", "gold", StatusCode::OK, (3, 1)),
    ] {
        let answer = send(address, &format!("GET {path}"), &[("authorization", session)]).await;
        assert_eq!(answer.status, status, "{path} {session}");
        assert_eq!((plans.count(), users.count()), found, "{path} {session}");
    }
}

/// `or_else(PeerAddress)` hid that the server had not recorded the address of the connection. With `skip`, requests
/// without the header were not limited, and no warning said so.
#[tokio::test]
async fn a_service_without_addresses_lets_no_request_pass() {
    let header = || Header::new(http::HeaderName::from_static("x-user"));
    for swapped in [false, true] {
        let (give, warnings) = channel();
        let rule = Rule::new(limiter("all", "9/1m")).on_missing(OnMissing::Skip);
        let rule = match swapped {
            false => rule.key(header().or_else(PeerAddress::new())),
            true => rule.key(PeerAddress::new().or_else(header())),
        };
        let layer = RateLimitLayer::builder(rule).on_warning(move |warning| give.send(warning).unwrap());
        let router = Router::new().route("/", on_get(|| async {})).layer(layer.build().unwrap());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        assert_eq!(send(address, "GET /", &[("x-user", "alice")]).await.status, StatusCode::OK);
        assert_eq!(get(address, "/").await.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(warnings.try_recv(), Ok(SetupWarning::NoPeerAddress));
    }
}

/// A listener on `[::]` sees IPv4 clients with mapped addresses.
#[tokio::test]
async fn a_client_has_one_address_on_every_listener() {
    let limits =
        "policies: [{ name: host, match: { ip: 192.0.2.7 }, key: [{ attribute: ip }], quotas: [9/1m] }]";
    let leave = |mut request: axum::extract::Request, next: axum::middleware::Next| async move {
        let peer = request.headers()["x-peer"].to_str().unwrap().parse().unwrap();
        request.extensions_mut().insert(Peer(peer));
        next.run(request).await
    };
    let router = Router::new().route("/", on_get(|| async {}));
    let router = router.layer(by_policies(limits).build().unwrap()).layer(axum::middleware::from_fn(leave));
    let address = serve(router).await;
    for (peer, left) in [("192.0.2.7:80", 8), ("[::ffff:192.0.2.7]:80", 7), ("[64:ff9b::192.0.2.7]:80", 6)] {
        let answer = send(address, "GET /", &[("x-peer", peer)]).await;
        assert_eq!(answer.header("ratelimit"), Some(&*format!("\"host\";r={left};t=42")), "{peer}");
    }
}

/// With policies, an empty reservation settled nothing, whatever the final cost. Its units were those of the rule, and
/// even uncounted requests had one.
#[tokio::test]
async fn a_reservation_holds_the_charged_units() {
    let limits = "
policies:
  - { name: health, match: { path: /health }, exempt: true }
  - { name: fixed, match: { path: /fixed }, key: global, cost: 3, quotas: [900/1m] }
  - { name: all, match: { path: [/fixed, /late] }, key: global, quotas: [900/1m] }";
    for cost in [0, 10] {
        let commit = |reservation: Option<Extension<Reservation>>| async move {
            let Some(Extension(reservation)) = reservation else { return "none".to_owned() };
            reservation.commit(500).await.unwrap();
            reservation.units().to_string()
        };
        let limiter = policies(limits);
        let rule = Rule::policies(&limiter, AttributeSources::new()).cost(cost).reserve();
        let router =
            Router::new().fallback(any(commit)).layer(RateLimitLayer::builder(rule).build().unwrap());
        let address = serve(router).await;
        assert_eq!(get(address, "/health").await.body, "none");
        assert_eq!(get(address, "/nowhere").await.body, "none");
        assert_eq!(get(address, "/late").await.body, cost.to_string());
        assert_eq!(get(address, "/fixed").await.body, cost.to_string(), "the most of any quota");
        let all = [("path", "/fixed")].into_iter().collect::<tollgate_policy::Attributes<'_>>();
        let used: Vec<u64> =
            limiter.peek(&all, 0).await.unwrap().quotas().map(|standing| standing.state.used()).collect();
        assert_eq!(used, [if cost == 0 { 0 } else { 3 }, 1_000]);

        let rule = Rule::new(crate::support::limiter("all", "900/1m")).key(Global).cost(cost).reserve();
        let router =
            Router::new().fallback(any(commit)).layer(RateLimitLayer::builder(rule).build().unwrap());
        let address = serve(router).await;
        assert_eq!(get(address, "/").await.body, cost.to_string());
        assert_eq!(
            get(address, "/").await.header("ratelimit"),
            Some(&*format!("\"all\";r={};t=42", 400 - cost))
        );
    }
}

/// Scripts could read the headers that the layer would have written, but not those of the policy.
#[tokio::test]
async fn scripts_may_read_the_headers_that_the_policy_writes() {
    let limits = "
policies:
  - { name: old, match: { path: /old }, key: global, quotas: [1/1m], headers: x-ratelimit }
  - { name: new, match: { path: /new }, key: global, quotas: [1/1m] }";
    let router = Router::new().fallback(any(|| async {}));
    let address = serve(router.layer(by_policies(limits).expose_headers().build().unwrap())).await;
    for (path, exposed) in [
        ("/old", Some("X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After")),
        ("/new", Some("RateLimit-Policy, RateLimit, Retry-After")),
        ("/none", None),
    ] {
        for status in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
            let answer = get(address, path).await;
            assert_eq!(answer.header("access-control-expose-headers"), exposed, "{path}");
            assert!(exposed.is_none() || answer.status == status, "{path}");
        }
    }
}

/// Policies choose the key and the headers, so the rule's settings for them had no effect.
#[tokio::test]
async fn a_rule_cannot_set_what_its_policies_choose() {
    let rule = || Rule::policies(&policies("policies: []"), AttributeSources::new());
    let error = |builder: RateLimitLayerBuilder| builder.build().unwrap_err().to_string();
    let idle = |setting| format!("the rule for all other requests: `{setting}` has no effect");
    assert_eq!(error(RateLimitLayer::builder(rule().key(Global))), idle("key"));
    assert_eq!(error(RateLimitLayer::builder(rule().on_missing(OnMissing::Skip))), idle("on_missing"));
    let format = tollgate_tower::headers::HeaderFormat::None;
    assert_eq!(error(RateLimitLayer::builder(rule()).header_format(format)), idle("header_format"));
    let by_key = RateLimitLayer::builder(rule().key(Global)).header_format(format);
    assert!(by_key.route("/a", Rule::new(limiter("a", "1/1m"))).build().is_ok());
}

/// For gRPC, a denial for a missing key was INTERNAL, as if the service had failed.
#[tokio::test]
async fn every_denial_is_a_denial_to_grpc() {
    let limits = "
policies:
  - { name: quota, match: { path: /quota }, key: global, quotas: [0/1m], deny_status: 420 }
  - { name: user, match: { path: /user }, key: [user], on_missing_key: deny, quotas: [9/1m], deny_status: 420 }";
    let router = Router::new().fallback(any(|| async {}));
    let address = serve(router.layer(by_policies(limits).build().unwrap())).await;
    for path in ["/quota", "/user"] {
        let line = format!("POST {path}");
        let answer = send(address, &line, &[("content-type", "application/grpc")]).await;
        assert_eq!((answer.status, answer.header("grpc-status")), (StatusCode::OK, Some("8")), "{path}");
        assert_eq!(send(address, &line, &[]).await.status.as_u16(), 420, "{path}");
    }
}

/// A refund goes to the charged counters, whatever the policies count by then.
#[tokio::test]
async fn a_refund_after_a_reload_goes_to_the_charged_counters() {
    let by = |key: &str| format!("policies: [{{ name: all, key: [{key}], quotas: [9/1m] }}]");
    let limiter = policies(&by("user"));
    let other = Config::parse("limits.yaml", &by("ip")).unwrap().into_policies();
    let other = Arc::new(std::sync::Mutex::new(Some(other)));
    let replacing = Arc::clone(&limiter);
    let handler = move || {
        if let Some(other) = other.lock().unwrap().take() {
            replacing.replace(other, "limits.yaml");
        }
        async {}
    };
    let sources =
        AttributeSources::new().with("user", Header::new(http::HeaderName::from_static("x-user")).plain());
    let rule = Rule::policies(&limiter, sources).refund_if(|response| response.status.is_success());
    let router = Router::new().fallback(any(handler)).layer(RateLimitLayer::builder(rule).build().unwrap());
    let alice = [("x-user", "alice")];
    assert_eq!(
        send(serve(router).await, "GET /", &alice).await.header("ratelimit"),
        Some("\"all\";r=8;t=42")
    );

    let _ =
        limiter.replace(Config::parse("limits.yaml", &by("user")).unwrap().into_policies(), "limits.yaml");
    let asked = [("user", "alice")].into_iter().collect::<tollgate_policy::Attributes<'_>>();
    let decision = limiter.peek(&asked, 0).await.unwrap();
    assert_eq!(decision.state().map(|state| state.used()), Some(0));
}
