//! Rules by route inside one layer, and layers around layers.

use axum::Router;
use axum::routing::{get as on_get, post as on_post};
use http::StatusCode;
use tollgate::{Limiter, MemoryStore, Quota};
use tollgate_tower::key::{Global, PeerAddress};
use tollgate_tower::{BuildError, OnInvalid, OnMissing, OnStoreError, RateLimitLayer, Rule, SetupWarning};

use crate::support::{Runs, clock, get, limiter, limiter_at, send, serve};

/// `/login` for GET and POST, users with a parameter and below a prefix, `/health`.
fn router() -> Router {
    let users = Router::new().route("/{id}", on_get(|| async {})).route("/{id}/keys", on_get(|| async {}));
    Router::new()
        .route("/login", on_post(|| async {}).get(|| async {}))
        .route("/health", on_get(|| async {}))
        .nest("/users", users)
}

#[tokio::test]
async fn the_most_specific_route_holds_and_it_alone() {
    let layer = RateLimitLayer::builder(Rule::new(limiter("others", "9/1m")).key(PeerAddress::new()))
        .route("POST /login", Rule::new(limiter("login", "2/1m")))
        .route("/users/{id}", Rule::new(limiter("user", "3/1m")))
        .route("/health", Rule::unlimited())
        .build()
        .unwrap();
    let address = serve(router().layer(layer)).await;
    for (line, told) in [
        ("POST /login", Some("\"login\";r=1;t=42")),
        ("POST /login", Some("\"login\";r=0;t=42")),
        ("POST /login", Some("\"login\";r=0;t=42")),
        ("GET /login", Some("\"others\";r=8;t=42")),
        // Requests for another user are on the same route, in any spelling.
        ("GET /users/7", Some("\"user\";r=2;t=42")),
        ("GET /users/8", Some("\"user\";r=1;t=42")),
        ("GET /users/%38?x=y", Some("\"user\";r=0;t=42")),
        ("GET /users/7/keys", Some("\"others\";r=7;t=42")),
        ("GET /nowhere", Some("\"others\";r=6;t=42")),
        ("GET /health", None),
    ] {
        assert_eq!(send(address, line, &[]).await.header("ratelimit"), told, "{line}");
    }
    assert_eq!(send(address, "POST /login", &[]).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(get(address, "/users/9").await.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn the_outer_layer_decides_before_the_inner_one() {
    let (outer, inner) = (limiter("outer", "3/1m"), limiter("inner", "2/1m"));
    let runs = Runs::default();
    let counting = runs.clone();
    let router = Router::new()
        .route("/", on_get(move || async move { counting.add() }))
        .layer(RateLimitLayer::new(inner.clone(), Global))
        .layer(RateLimitLayer::new(outer.clone(), Global));
    let address = serve(router).await;
    let used = || {
        let key = tollgate::Key::parts(std::iter::empty::<tollgate::Key<'_>>());
        (outer.peek(&key).unwrap().used(), inner.peek(&key).unwrap().used())
    };
    get(address, "/").await;
    get(address, "/").await;
    assert_eq!((used(), runs.count()), ((2, 2), 2));
    assert_eq!(get(address, "/").await.json()["policy"], "inner", "the outer one was charged before");
    assert_eq!((used(), runs.count()), ((3, 2), 2));
    assert_eq!(get(address, "/").await.json()["policy"], "outer");
    assert_eq!(
        (used(), runs.count()),
        ((3, 2), 2),
        "a denial of the outer one takes nothing of the inner one"
    );
}

/// In front of the router the route is not known yet, and a path can be spelt in other ways.
#[tokio::test]
async fn a_layer_in_front_of_the_router_warns_once() {
    let (give, warnings) = std::sync::mpsc::channel();
    let layer = RateLimitLayer::builder(Rule::new(limiter("others", "9/1m")).key(Global))
        .route("/users/{id}", Rule::new(limiter("user", "3/1m")))
        .on_warning(move |warning| give.send(warning).unwrap())
        .build()
        .unwrap();
    let service = tower::ServiceBuilder::new().layer(layer).service(router());
    let address = serve(Router::new().fallback_service(service)).await;
    assert_eq!(get(address, "/users/7").await.header("ratelimit"), Some("\"user\";r=2;t=42"));
    assert_eq!(get(address, "/users/7").await.header("ratelimit"), Some("\"user\";r=1;t=42"));
    assert_eq!(warnings.try_iter().collect::<Vec<_>>(), [SetupWarning::NoMatchedRoute]);
}

#[tokio::test]
async fn invalid_rules_do_not_build() {
    let error = |builder: tollgate_tower::RateLimitLayerBuilder| builder.build().unwrap_err().to_string();
    let others = || RateLimitLayer::builder(Rule::new(limiter("others", "9/1m")).key(Global));
    assert_eq!(
        error(others().route("login", Rule::unlimited())),
        "the route `login`: expected a path that begins with `/`"
    );
    assert_eq!(
        error(others().route("/a/{b}", Rule::unlimited()).route("/a/{c}", Rule::unlimited())),
        "the routes `/a/{b}` and `/a/{c}` match the same requests"
    );
    let no_key = RateLimitLayer::builder(Rule::unlimited()).route("/a", Rule::new(limiter("a", "1/1m")));
    assert_eq!(
        error(no_key),
        "the rule for `/a` has no key, and neither does the rule for all other requests"
    );
    assert!(matches!(
        RateLimitLayer::builder(Rule::new(limiter("a", "1/1m"))).build(),
        Err(BuildError::NoKey { .. })
    ));
    // Two limiters of one name were refused even if each had a store of its own, as `Limiter::new` makes it.
    assert!(others().route("/a", Rule::new(limiter("others", "5/1m"))).build().is_ok());
    let store = MemoryStore::new();
    let shared = |name, quota| {
        Rule::new(Limiter::builder(name).quota(quota).build(store.clone()).unwrap()).key(Global)
    };
    let more = || RateLimitLayer::builder(shared("others", Quota::per_minute(9)));
    assert!(more().route("/a", shared("a", Quota::per_minute(5))).build().is_ok());
    assert_eq!(
        error(more().route("/a", shared("others", Quota::per_minute(5)))),
        "the rules for `/a` and for all other requests use the same counters with different limits: \
         policy `others`, window 1m"
    );
    let idle = RateLimitLayer::builder(Rule::unlimited().key(Global));
    assert_eq!(error(idle), "the rule for all other requests: `key` has no effect");
    let reserving = Rule::new(limiter("a", "1/1m")).reserve().refund_if(|_| true);
    assert_eq!(error(others().route("/a", reserving)), "the rule for `/a`: `refund_if` has no effect");
    let missing = Rule::unlimited().on_missing(OnMissing::Skip);
    assert_eq!(error(others().route("/a", missing)), "the rule for `/a`: `on_missing` has no effect");
    // A rule without a limit silently accepted a cost and a condition.
    let idle = |rule: Rule, setting| {
        let told = error(others().route("/a", rule));
        assert_eq!(told, format!("the rule for `/a`: `{setting}` has no effect"));
    };
    idle(Rule::unlimited().cost(2), "cost");
    idle(Rule::unlimited().cost_of(|_| 2), "cost");
    idle(Rule::unlimited().reserve(), "reserve");
    idle(Rule::unlimited().skip(|_| true), "skip");
    idle(Rule::unlimited().refund_if(|_| true), "refund_if");
    idle(Rule::unlimited().on_invalid(OnInvalid::BadRequest), "on_invalid");
    idle(Rule::unlimited().on_store_error(OnStoreError::Admit), "on_store_error");
    idle(Rule::unlimited().when_full(OnStoreError::Admit), "when_full");
    let said = Rule::unlimited().on_invalid(OnInvalid::BadRequest).on_store_error(OnStoreError::Admit);
    let said = RateLimitLayer::builder(said.key(Global));
    assert!(said.route("/a", Rule::new(limiter("a", "1/1m"))).build().is_ok());
    let for_routes = RateLimitLayer::builder(Rule::unlimited().key(Global).on_missing(OnMissing::Skip));
    assert!(for_routes.route("/a", Rule::new(limiter("a", "1/1m"))).build().is_ok());
    // One limiter on two routes is one limit for both.
    let clock = clock();
    let shared = limiter_at("others", "9/1m", &clock);
    assert!(others().route("/a", Rule::new(shared)).build().is_ok());
}
