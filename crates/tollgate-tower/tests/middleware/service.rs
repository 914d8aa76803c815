//! The contract of tower: readiness, the called instance, and that nothing else changes.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tollgate::{Anchor, Limiter, MemoryStore, Quota, SharedLimiter};
use tollgate_testkit::{FaultyStore, block_on};
use tollgate_tower::key::{self, Global};
use tollgate_tower::{RateLimit, RateLimitLayer, ReplyBody, Rule};
use tower_layer::Layer;
use tower_service::Service;

/// Panics if it is called without being polled ready; a clone is not ready.
#[derive(Debug, Default)]
struct Strict {
    is_ready: bool,
    calls: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { is_ready: false, calls: Arc::clone(&self.calls) }
    }
}

/// An error of the inner service.
#[derive(Debug, PartialEq, Eq)]
struct Broken;

/// A body type of the user.
#[derive(Debug, PartialEq, Eq)]
struct Own(Bytes);

impl ReplyBody for Own {
    fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl Service<Request<u8>> for Strict {
    type Response = Response<Own>;
    type Error = Broken;
    type Future = Ready<Result<Response<Own>, Broken>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<u8>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "called without having been ready");
        self.calls.fetch_add(1, Ordering::SeqCst);
        ready(if *request.body() == 0 { Err(Broken) } else { Ok(Response::new(Own("ok".into()))) })
    }
}

/// The types can be named, for the memory store and for others.
struct Server {
    service: RateLimit<Strict>,
    calls: Arc<AtomicUsize>,
}

impl Server {
    fn new(layer: &RateLimitLayer) -> Self {
        let service = Strict::default();
        let calls = Arc::clone(&service.calls);
        Self { service: layer.layer(service), calls }
    }

    fn ask(&mut self, body: u8) -> Result<Response<Own>, Broken> {
        block_on(async {
            std::future::poll_fn(|context| self.service.poll_ready(context)).await?;
            self.service.call(Request::new(body)).await
        })
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

fn layers() -> [RateLimitLayer; 3] {
    // Windows start with the first request, because a day of the clock may end during a test.
    let quota = || Quota::per_day(3).with_anchor(Anchor::FirstHit).unwrap();
    let later = key::from_async_fn(|_| async { Ok(tollgate::Key::from(1_u64).into()) });
    [
        RateLimitLayer::new(Limiter::new(quota()), Global),
        RateLimitLayer::new(SharedLimiter::new(quota(), FaultyStore::new(MemoryStore::new())), Global),
        RateLimitLayer::builder(Rule::new(Limiter::new(quota())).key(later)).build().unwrap(),
    ]
}

#[test]
fn only_the_service_that_was_ready_is_called() {
    for layer in layers() {
        let mut server = Server::new(&layer);
        for calls in 1..=3 {
            assert_eq!(server.ask(1).unwrap().into_body(), Own("ok".into()));
            assert_eq!(server.calls(), calls);
        }
        for _ in 0..2 {
            assert_eq!(server.ask(1).unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(server.calls(), 3, "a denied request reaches nobody");
        }
    }
}

/// If no future has to wait, no service is stored that would need a clone.
#[test]
fn over_a_store_in_this_process_no_service_is_cloned() {
    #[derive(Debug)]
    struct Sole;

    impl Clone for Sole {
        fn clone(&self) -> Self {
            panic!("cloned");
        }
    }

    impl Service<Request<u8>> for Sole {
        type Response = Response<Own>;
        type Error = Broken;
        type Future = Ready<Result<Response<Own>, Broken>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<u8>) -> Self::Future {
            ready(Ok(Response::new(Own("ok".into()))))
        }
    }

    let mut rules = vec![Rule::new(Limiter::new(Quota::per_day(2))).key(Global)];
    #[cfg(feature = "policy")]
    {
        let limits = "policies: [{ name: all, key: global, quotas: [2/day] }]";
        let policies = tollgate_policy::Config::parse("limits.yaml", limits).unwrap().into_policies();
        let limiter = tollgate_policy::PolicyLimiter::new(MemoryStore::new(), policies, "limits.yaml");
        rules.push(Rule::policies(&Arc::new(limiter), tollgate_tower::AttributeSources::new()));
    }
    for rule in rules.iter().flat_map(|rule| [rule.clone(), rule.clone().reserve()]) {
        let mut service = RateLimitLayer::builder(rule).build().unwrap().layer(Sole);
        let mut ask = || block_on(service.call(Request::new(1))).unwrap().status();
        assert_eq!(ask(), StatusCode::OK);
    }
}

#[test]
fn errors_of_the_service_are_passed_on_and_counted() {
    for layer in layers() {
        let mut server = Server::new(&layer);
        for _ in 0..3 {
            assert_eq!(server.ask(0).unwrap_err(), Broken);
        }
        assert_eq!(server.ask(0).unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    }
}

#[test]
fn clones_count_together() {
    for layer in layers() {
        let mut servers = [Server::new(&layer), Server::new(&layer.clone())];
        let statuses: Vec<StatusCode> =
            (0..4).map(|number| servers[number % 2].ask(1).unwrap().status()).collect();
        assert_eq!(statuses, [StatusCode::OK, StatusCode::OK, StatusCode::OK, StatusCode::TOO_MANY_REQUESTS]);
    }
}

#[test]
fn usual_bodies_can_be_replies() {
    fn whole<B: ReplyBody + http_body::Body<Data = Bytes>>() -> Bytes
    where
        B::Error: std::fmt::Debug,
    {
        block_on(B::from_bytes("denied".into()).collect()).unwrap().to_bytes()
    }
    type Error = std::io::Error;
    assert_eq!(whole::<Full<Bytes>>(), "denied");
    assert_eq!(whole::<http_body_util::combinators::BoxBody<Bytes, Error>>(), "denied");
    assert_eq!(whole::<http_body_util::combinators::UnsyncBoxBody<Bytes, Error>>(), "denied");
    #[cfg(feature = "axum")]
    assert_eq!(whole::<axum::body::Body>(), "denied");
    #[cfg(feature = "tonic")]
    assert_eq!(whole::<tonic::body::Body>(), "denied");
}
