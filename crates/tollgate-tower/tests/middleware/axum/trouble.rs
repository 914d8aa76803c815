//! A store that fails, one that is full, and one that can never count a request.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::get as on_get;
use http::{HeaderValue, StatusCode};
use tollgate::{
    AnswerError, FallbackStore, Key, Limiter, LocalShare, MemoryStore, OnStoreFailure, SharedLimiter, Store,
    StoreError,
};
use tollgate_testkit::{FaultyStore, StoreFault};
use tollgate_tower::key::{self, Global, InvalidIdentity, MissingIdentity};
use tollgate_tower::{Head, OnInvalid, OnMissing, OnStoreError, RateLimitLayer, Rule, SetupWarning};

use crate::support::{Runs, a_day, get, send, serve};

type Shared = FaultyStore<MemoryStore>;

fn shared() -> Shared {
    FaultyStore::new(MemoryStore::new())
}

fn limiter<S: Store>(store: S) -> SharedLimiter<S> {
    Limiter::builder("search").quota(a_day(4)).build_shared(store).unwrap()
}

fn app(rule: Rule) -> (Router, Runs) {
    let runs = Runs::default();
    let counting = runs.clone();
    let layer = RateLimitLayer::builder(rule).build().unwrap();
    (Router::new().route("/", on_get(move || async move { counting.add() })).layer(layer), runs)
}

#[tokio::test]
async fn trouble_is_503_and_not_a_denial() {
    let store = shared();
    let (app, runs) = app(Rule::new(limiter(store.clone())).key(Global));
    let address = serve(app).await;
    for (fault, reason) in [
        (StoreFault::unreachable(), "store_unavailable"),
        (StoreFault::Fails(AnswerError::Late.into()), "outcome_unknown"),
        (StoreFault::Fails(StoreError::Full), "store_full"),
    ] {
        store.begin(fault);
        let answer = get(address, "/").await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.header("ratelimit"), None, "nothing is known of the limit");
        assert_eq!(answer.json()["reason"], reason);
        assert_eq!(answer.json()["status"], 503);
    }
    store.begin(StoreFault::unreachable());
    assert_eq!(get(address, "/").await.json()["type"], "urn:problem-type:tollgate:store-unavailable");
    assert_eq!(runs.count(), 0);
    store.end();
    assert_eq!(get(address, "/").await.status, StatusCode::OK);
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_rule_may_admit_instead() {
    let store = shared();
    let (app, runs) = app(Rule::new(limiter(store.clone())).key(Global).on_store_error(OnStoreError::Admit));
    let address = serve(app).await;
    store.begin(StoreFault::unreachable());
    for _ in 0..6 {
        let answer = get(address, "/").await;
        assert_eq!((answer.status, answer.header("ratelimit")), (StatusCode::OK, None));
    }
    assert_eq!(runs.count(), 6);
    store.begin(StoreFault::Fails(StoreError::Full));
    assert_eq!(get(address, "/").await.status, StatusCode::SERVICE_UNAVAILABLE, "a choice of its own");
}

/// This was handled like an outage: clients were told to return, and a rule that admits during outages never counted.
#[tokio::test]
async fn an_uncountable_request_is_refused_under_every_rule() {
    let store = shared();
    let (given, told) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (give, tell) = (Arc::clone(&given), Arc::clone(&told));
    let fallback = FallbackStore::new(store.clone(), OnStoreFailure::Open);
    let rule = Rule::new(limiter(fallback)).key(Global);
    let rule = rule.on_store_error(OnStoreError::Admit).when_full(OnStoreError::Admit);
    let layer = RateLimitLayer::builder(rule)
        .on_warning(move |warning| give.lock().unwrap().push(warning))
        .on_trouble(move |error, response| {
            tell.lock().unwrap().push(error.to_string());
            response
        });
    let runs = Runs::default();
    let counting = runs.clone();
    let router = Router::new().route("/", on_get(move || async move { counting.add() }));
    let address = serve(router.layer(layer.build().unwrap())).await;
    store.begin(StoreFault::Fails(StoreError::Uncountable("its quotas lie in several slots")));
    for _ in 0..2 {
        let answer = get(address, "/").await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(answer.header("retry-after"), None, "it never helps");
        let problem = answer.json();
        assert_eq!(problem["type"], "urn:problem-type:tollgate:uncountable");
        assert_eq!(
            (problem["status"].as_u64(), problem["reason"].as_str()),
            (Some(500), Some("uncountable"))
        );
    }
    assert_eq!(runs.count(), 0);
    assert_eq!(*given.lock().unwrap(), [SetupWarning::Uncountable], "once");
    let why = "the store can never count this request: its quotas lie in several slots";
    assert_eq!(*told.lock().unwrap(), [why, why]);
    store.end();
    assert_eq!(get(address, "/").await.status, StatusCode::OK);
}

/// An answer that lacks a quota says nothing about its usage, so no request is admitted by it.
#[tokio::test]
async fn an_incomplete_answer_is_a_store_error() {
    let store = shared();
    let (app, runs) = app(Rule::new(limiter(store.clone())).key(Global));
    let address = serve(app).await;
    store.begin(StoreFault::ForgetsQuotas);
    let answer = get(address, "/").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.json()["reason"], "outcome_unknown");
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn a_store_below_may_count_locally() {
    let store = shared();
    let share = LocalShare::new(1, 2).unwrap();
    let fallback = FallbackStore::new(store.clone(), OnStoreFailure::Local(share));
    let (app, runs) = app(Rule::new(limiter(fallback)).key(Global));
    let address = serve(app).await;
    store.begin(StoreFault::unreachable());
    for left in [1, 0] {
        let answer = get(address, "/").await;
        assert_eq!(answer.header("tollgate-source"), Some("fallback"));
        assert!(answer.header("ratelimit").unwrap().starts_with(&format!("\"search\";r={left};")));
    }
    assert_eq!(get(address, "/").await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_full_memory_refuses_unseen_keys_alone() {
    let by = || {
        key::from_fn("header `x-user`", |head| {
            head.headers().get("x-user").and_then(|user| user.to_str().ok()).map(Into::into)
        })
    };
    for (when_full, status) in
        [(OnStoreError::Refuse, StatusCode::SERVICE_UNAVAILABLE), (OnStoreError::Admit, StatusCode::OK)]
    {
        let store = MemoryStore::builder().max_counters(1).build();
        let (app, _) = app(Rule::new(limiter(store)).key(by()).when_full(when_full));
        let address = serve(app).await;
        let (alice, bob) = ([("x-user", "alice")], [("x-user", "bob")]);
        assert_eq!(send(address, "GET /", &alice).await.status, StatusCode::OK);
        assert_eq!(send(address, "GET /", &bob).await.status, status);
        assert_eq!(send(address, "GET /", &alice).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_route_inherits_settings_from_the_rule_for_all_others() {
    fn by_token<'r>(head: Head<'r>) -> key::ExtractedIdentity<'r> {
        match head.headers().get("authorization").map(|token| token.as_bytes()) {
            None => Ok(MissingIdentity::by_caller("header `authorization`").into()),
            Some(b"good") => Ok(Key::from("alice").into()),
            Some(_) => Err(InvalidIdentity::malformed("the token is not valid")),
        }
    }

    let store = shared();
    let limiter = |policy| Limiter::builder(policy).quota(a_day(100)).build_shared(store.clone()).unwrap();
    let challenge = || HeaderValue::from_static("Bearer");
    let lenient = Rule::new(limiter("others"))
        .key(key::try_from_fn(by_token))
        .on_missing(OnMissing::Skip)
        .on_invalid(OnInvalid::Unauthorized(challenge()))
        .on_store_error(OnStoreError::Admit)
        .when_full(OnStoreError::Admit);
    let strict = Rule::new(limiter("strict"))
        .on_missing(OnMissing::BadRequest)
        .on_invalid(OnInvalid::BadRequest)
        .on_store_error(OnStoreError::Refuse)
        .when_full(OnStoreError::Refuse);
    let layer = RateLimitLayer::builder(lenient)
        .route("/inherits", Rule::new(limiter("inherits")))
        .route("/strict", strict)
        .build()
        .unwrap();
    let router = Router::new().route("/inherits", on_get(|| async {})).route("/strict", on_get(|| async {}));
    let address = serve(router.layer(layer)).await;
    let (ok, trouble) = (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE);
    for (fault, token, inherited, own) in [
        (None, &[][..], ok, StatusCode::BAD_REQUEST),
        (None, &[("authorization", "bad")], StatusCode::UNAUTHORIZED, StatusCode::BAD_REQUEST),
        (Some(StoreFault::unreachable()), &[("authorization", "good")], ok, trouble),
        (Some(StoreFault::Fails(StoreError::Full)), &[("authorization", "good")], ok, trouble),
    ] {
        match &fault {
            Some(fault) => store.begin(fault.clone()),
            None => store.end(),
        }
        assert_eq!(send(address, "GET /inherits", token).await.status, inherited, "{fault:?}");
        assert_eq!(send(address, "GET /strict", token).await.status, own, "{fault:?}");
    }
}
