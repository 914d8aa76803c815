//! Keys: the default one, and mistakes in how the service is assembled.

use std::sync::mpsc::{Receiver, channel};

use axum::Router;
use axum::routing::get as on_get;
use http::{HeaderValue, StatusCode};
use tokio::net::TcpListener;
use tollgate::Key;
use tollgate_tower::key::{
    self, ClientAddress, ForwardedHeader, Global, Identity, InvalidIdentity, KeyExtractor, MissingIdentity,
    PeerAddress, TrustedProxies,
};
use tollgate_tower::{Head, OnInvalid, OnMissing, RateLimitLayer, Rule, SetupWarning};

use crate::support::{Runs, get, limiter, send, serve};

fn app(rule: Rule) -> (Router, Runs, Receiver<SetupWarning>) {
    let (give, warnings) = channel();
    let layer =
        RateLimitLayer::builder(rule).on_warning(move |warning| give.send(warning).unwrap()).build().unwrap();
    let runs = Runs::default();
    let counting = runs.clone();
    let router = Router::new().route("/", on_get(move || async move { counting.add() })).layer(layer);
    (router, runs, warnings)
}

/// A valid token is `good:NAME`.
fn by_token<'r>(head: Head<'r>) -> key::ExtractedIdentity<'r> {
    let Some(token) = head.headers().get("authorization") else {
        return Ok(MissingIdentity::by_caller("header `authorization`").into());
    };
    match token.to_str().ok().and_then(|token| token.strip_prefix("good:")) {
        Some(name) => Ok(Identity::Known(Key::from(name))),
        None => {
            Err(InvalidIdentity::unauthorized("the token is not valid", HeaderValue::from_static("Bearer")))
        }
    }
}

#[tokio::test]
async fn a_missing_identity_is_answered_as_the_rule_says() {
    let rule = || Rule::new(limiter("search", "1/1m")).key(key::try_from_fn(by_token));
    let (router, runs, _) = app(rule());
    let address = serve(router).await;
    let missing = get(address, "/").await;
    assert_eq!(missing.status, StatusCode::BAD_REQUEST);
    assert_eq!(missing.json()["detail"], "header `authorization` is missing");
    assert_eq!(missing.header("content-type"), Some("application/problem+json"));

    let challenge = HeaderValue::from_static("Bearer");
    let (router, _, _) = app(rule().on_missing(OnMissing::Unauthorized(challenge)));
    let missing = get(serve(router).await, "/").await;
    assert_eq!(missing.status, StatusCode::UNAUTHORIZED);
    assert_eq!(missing.header("www-authenticate"), Some("Bearer"));
    assert_eq!(runs.count(), 0);

    let (router, runs, _) = app(rule().on_missing(OnMissing::Skip));
    let address = serve(router).await;
    for _ in 0..3 {
        assert_eq!(get(address, "/").await.status, StatusCode::OK);
    }
    assert_eq!(runs.count(), 3);
    // A known client is still counted.
    let alice = [("authorization", "good:alice")];
    assert_eq!(send(address, "GET /", &alice).await.status, StatusCode::OK);
    assert_eq!(send(address, "GET /", &alice).await.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn a_wrong_identity_is_refused_and_not_counted_for_anybody_else() {
    let rule = || Rule::new(limiter("search", "1/1m")).key(key::try_from_fn(by_token).or_else(Global));
    let bad = [("authorization", "bad:alice")];
    let (router, runs, _) = app(rule());
    let address = serve(router).await;
    let refused = send(address, "GET /", &bad).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    assert_eq!(refused.json()["detail"], "the token is not valid");
    assert_eq!(runs.count(), 0);
    assert_eq!(get(address, "/").await.status, StatusCode::OK, "the others have all of their limit");

    let (router, _, _) = app(rule().on_invalid(OnInvalid::BadRequest).on_missing(OnMissing::Skip));
    let refused = send(serve(router).await, "GET /", &bad).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "wrong is not missing: it is never skipped");
    assert_eq!(refused.header("www-authenticate"), None);
}

#[tokio::test]
async fn an_extractor_may_wait() {
    let by = key::from_async_fn(|head| {
        let session = head.headers().get("x-session").cloned();
        async move {
            tokio::task::yield_now().await;
            match session {
                Some(session) => Ok(Identity::Known(Key::from(session.as_bytes().to_vec()))),
                None => Ok(MissingIdentity::by_caller("header `x-session`").into()),
            }
        }
    });
    let (router, runs, _) = app(Rule::new(limiter("search", "1/1m")).key(by));
    let address = serve(router).await;
    let (alice, bob) = ([("x-session", "a")], [("x-session", "b")]);
    assert_eq!(get(address, "/").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(send(address, "GET /", &alice).await.header("ratelimit"), Some("\"search\";r=0;t=42"));
    assert_eq!(send(address, "GET /", &alice).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(send(address, "GET /", &bob).await.status, StatusCode::OK);
    assert_eq!(runs.count(), 2);
}

/// Seen in another limiter: served as its documentation says, it found no address and limited nobody.
#[tokio::test]
async fn without_the_address_of_the_peer_no_request_passes() {
    let rule = || Rule::new(limiter("search", "1/1m")).on_missing(OnMissing::Skip);
    let client =
        ClientAddress::behind(TrustedProxies::parse(["10.0.0.1"]).unwrap(), ForwardedHeader::Forwarded);
    for rule in [rule().key(PeerAddress::new()), rule().key(client)] {
        let (router, runs, warnings) = app(rule);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        for _ in 0..2 {
            let answer = get(address, "/").await;
            assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
            let body = answer.json();
            let detail = body["detail"].as_str().unwrap();
            assert!(detail.ends_with("; the log has the code TG1002"), "{detail}");
        }
        assert_eq!(runs.count(), 0);
        assert_eq!(warnings.try_iter().collect::<Vec<_>>(), [SetupWarning::NoPeerAddress]);
    }
}

#[tokio::test]
async fn a_proxy_in_front_is_reported_once() {
    let (router, _, warnings) = app(Rule::new(limiter("search", "9/1m")).key(PeerAddress::new()));
    let address = serve(router).await;
    get(address, "/").await;
    assert_eq!(warnings.try_iter().count(), 0);
    for _ in 0..2 {
        send(address, "GET /", &[("x-forwarded-for", "192.0.2.7")]).await;
    }
    assert_eq!(warnings.try_iter().collect::<Vec<_>>(), [SetupWarning::PeerIsProxy]);

    let (router, _, warnings) = app(Rule::new(limiter("search", "9/1m")).key(Global));
    send(serve(router).await, "GET /", &[("x-forwarded-for", "192.0.2.7")]).await;
    assert_eq!(warnings.try_iter().count(), 0, "nobody is counted for an address");
}

/// A warning reports a proxy in front only if the policies use the address of the connection, not if another source
/// provides it.
#[cfg(feature = "policy")]
#[tokio::test]
async fn a_proxy_in_front_shows_where_policies_go_by_the_address_of_the_connection() {
    use tollgate_tower::AttributeSources;

    let by_header = || {
        AttributeSources::new()
            .with_fn("ip", |head| Some(head.headers().get("x-forwarded-for")?.to_str().ok()?.into()))
    };
    for (key, sources, expected) in [
        ("ip", &AttributeSources::new as &dyn Fn() -> AttributeSources, &[SetupWarning::PeerIsProxy][..]),
        ("ip", &by_header, &[]),
        // The attribute exists, but no policy uses it.
        ("path", &AttributeSources::new, &[]),
    ] {
        let limits =
            format!("policies: [{{ name: all, key: [{key}], quotas: [9/1m], on_missing_key: skip }}]");
        let policies = || tollgate_policy::Config::parse("limits.yaml", &limits).unwrap().into_policies();
        for waits in [false, true] {
            let memory = tollgate::MemoryStore::new();
            let rule = if waits {
                let store = tollgate_testkit::FaultyStore::new(memory);
                let limiter = tollgate_policy::PolicyLimiter::new(store, policies(), "limits.yaml");
                Rule::policies(&std::sync::Arc::new(limiter), sources())
            } else {
                let limiter = tollgate_policy::PolicyLimiter::new(memory, policies(), "limits.yaml");
                Rule::policies(&std::sync::Arc::new(limiter), sources())
            };
            let (router, runs, warnings) = app(rule);
            let address = serve(router).await;
            get(address, "/").await;
            assert_eq!(warnings.try_iter().count(), 0, "no proxy shows yet");
            for _ in 0..2 {
                send(address, "GET /", &[("x-forwarded-for", "192.0.2.7")]).await;
            }
            assert_eq!(warnings.try_iter().collect::<Vec<_>>(), expected, "{key}");
            assert_eq!(runs.count(), 3);
        }
    }
}
