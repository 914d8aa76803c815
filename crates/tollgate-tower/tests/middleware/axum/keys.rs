//! Extractors in front of axum, with the input of proxies, routers and issuers.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::MockConnectInfo;
use axum::routing::get as on_get;
use http::{Request, StatusCode};
use tollgate_tower::key::{ClientAddress, ForwardedHeader, KeyExtractor, PeerAddress, Route, TrustedProxies};
use tollgate_tower::{RateLimitLayer, Rule};
use tower_service::Service;

use crate::support::{Runs, get, limiter, send, serve};

fn behind(proxies: &[&'static str]) -> ClientAddress {
    let proxies = TrustedProxies::parse(proxies.iter().copied()).unwrap();
    ClientAddress::behind(proxies, ForwardedHeader::XForwardedFor)
}

fn app(key: impl KeyExtractor + 'static) -> (Router, Runs) {
    let runs = Runs::default();
    let counting = runs.clone();
    let handler = on_get(move || async move { counting.add() });
    let router = Router::new().route("/users/{id}", handler.clone()).route("/search", handler);
    (router.layer(RateLimitLayer::new(limiter("keys", "1/1m"), key)), runs)
}

/// These connections come from the loopback address, once as a proxy's and once as a client's.
#[tokio::test]
async fn a_client_is_believed_only_if_it_is_a_trusted_proxy() {
    let (router, runs) = app(behind(&["127.0.0.0/8"]));
    let address = serve(router).await;
    let from = |header: &'static str| async move {
        send(address, "GET /search", &[("x-forwarded-for", header)]).await.status
    };
    assert_eq!(from("192.0.2.1").await, StatusCode::OK);
    assert_eq!(from("198.51.100.9, 192.0.2.1").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(from("198.51.100.8, [::ffff:192.0.2.1]:443").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(from("192.0.2.1, 192.0.2.2").await, StatusCode::OK);
    assert_eq!(runs.count(), 2);

    let (router, runs) = app(behind(&["10.0.0.1"]));
    let address = serve(router).await;
    let from = |header: &'static str| async move {
        send(address, "GET /search", &[("x-forwarded-for", header)]).await.status
    };
    assert_eq!(from("192.0.2.1").await, StatusCode::OK);
    for spoofed in ["192.0.2.2", "10.0.0.1", "127.0.0.2", "", "for=192.0.2.3"] {
        assert_eq!(from(spoofed).await, StatusCode::TOO_MANY_REQUESTS, "{spoofed}");
    }
    assert_eq!(runs.count(), 1);
}

/// A request of a test has no connection. It was answered 500, so tests of handlers had to leave the layer out.
#[tokio::test]
async fn a_test_without_connections_can_set_the_address() {
    let (router, runs) = app(PeerAddress::new());
    let ask = async |address: [u8; 4]| {
        let mut router = router.clone().layer(MockConnectInfo(SocketAddr::from((address, 49152))));
        Service::<Request<Body>>::call(&mut router, Request::get("/search").body(Body::empty()).unwrap())
            .await
            .unwrap()
            .status()
    };
    assert_eq!(ask([192, 0, 2, 1]).await, StatusCode::OK);
    assert_eq!(ask([192, 0, 2, 1]).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(ask([192, 0, 2, 2]).await, StatusCode::OK);
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn paths_of_one_route_are_one() {
    let (router, runs) = app(Route::new());
    let address = serve(router).await;
    assert_eq!(get(address, "/users/1").await.status, StatusCode::OK);
    assert_eq!(get(address, "/users/2?page=1").await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(send(address, "HEAD /users/3", &[]).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(get(address, "/search").await.status, StatusCode::OK);
    assert_eq!(runs.count(), 2);
    // Paths without a route share a counter as well.
    assert_eq!(get(address, "/a").await.status, StatusCode::NOT_FOUND);
    assert_eq!(get(address, "/b").await.status, StatusCode::TOO_MANY_REQUESTS);
}

#[cfg(all(feature = "jwt", feature = "policy"))]
#[tokio::test]
async fn policies_get_values_of_extractors_unless_they_are_invalid() {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use tollgate::MemoryStore;
    use tollgate_policy::{Config, PolicyLimiter};
    use tollgate_tower::key::jwt::{Algorithm, Claim, Keys, Verifier};
    use tollgate_tower::{AttributeSources, OnInvalid, SetupWarning};

    let file = "policies: [{ name: all, key: { first_of: [user, ip] }, quotas: [1/1m] }]";
    let config = Config::parse("limits.yaml", file).unwrap();
    let store = MemoryStore::builder().clock(crate::support::clock()).build();
    let limiter = Arc::new(PolicyLimiter::new(store, config.into_policies(), "limits.yaml"));
    let sources = || {
        let keys = Keys::from_secret(Algorithm::Hs256, &[7; 32]).unwrap();
        let user = Claim::new(Verifier::new(keys, ["api"]), "sub");
        AttributeSources::new().with_claim("user", user).with("ip", behind(&["127.0.0.0/8"]))
    };
    let (router, runs) = (Router::new(), Runs::default());
    let counting = runs.clone();
    let router = router.route("/search", on_get(move || async move { counting.add() }));

    let layer = RateLimitLayer::builder(Rule::policies(&limiter, sources())).build().unwrap();
    let address = serve(router.clone().layer(layer)).await;
    let by = |headers: &'static [(&'static str, &'static str)]| send(address, "GET /search", headers);
    assert_eq!(by(&[("x-forwarded-for", "192.0.2.1")]).await.status, StatusCode::OK);
    assert_eq!(by(&[("x-forwarded-for", "192.0.2.1")]).await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(by(&[("x-forwarded-for", "192.0.2.2")]).await.status, StatusCode::OK);
    // It does not count as a client without a token, who would have a limit left.
    let forged = by(&[("x-forwarded-for", "192.0.2.3"), ("authorization", "Bearer e30.e30.")]).await;
    assert_eq!(forged.status, StatusCode::UNAUTHORIZED);
    assert_eq!(forged.header("www-authenticate"), Some("Bearer error=\"invalid_token\""));
    assert_eq!(runs.count(), 2);

    let rule = Rule::policies(&limiter, sources()).on_invalid(OnInvalid::BadRequest);
    let address = serve(router.clone().layer(RateLimitLayer::builder(rule).build().unwrap())).await;
    let forged = send(address, "GET /search", &[("authorization", "Bearer x")]).await;
    assert_eq!(forged.status, StatusCode::BAD_REQUEST);

    // Without the address of the connection no request passes, whatever the policies.
    let (give, warnings) = channel();
    let layer = RateLimitLayer::builder(Rule::policies(&limiter, sources()))
        .on_warning(move |warning| give.send(warning).unwrap())
        .build()
        .unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router.layer(layer)).await.unwrap() });
    assert_eq!(get(address, "/search").await.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(warnings.try_recv(), Ok(SetupWarning::NoPeerAddress));
    assert_eq!(runs.count(), 2);
}
