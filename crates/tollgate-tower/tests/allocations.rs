//! How much memory a request allocates.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tollgate::{Limiter, Quota, QuotaStates};
use tollgate_tower::headers::HeaderFormat;
use tollgate_tower::key::{Peer, PeerAddress};
use tollgate_tower::{RateLimitLayer, RateLimitLayerBuilder, Rule};
use tower_layer::Layer;
use tower_service::Service;

#[derive(Clone)]
struct Bare;

impl Service<Request<()>> for Bare {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Full<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        drop(request);
        ready(Ok(Response::new(Full::default())))
    }
}

fn request() -> Request<()> {
    let mut request = Request::new(());
    request.extensions_mut().insert(Peer(([192, 0, 2, 7], 49_152).into()));
    request
}

/// Polls once: nothing here waits.
fn answer<S: Service<Request<()>>>(service: &mut S, request: Request<()>) -> S::Response {
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok(())) = service.poll_ready(&mut context) else { panic!("not ready") };
    match pin!(service.call(request)).poll(&mut context) {
        Poll::Ready(Ok(response)) => response,
        _ => panic!("no response at once"),
    }
}

fn builder(format: HeaderFormat) -> RateLimitLayerBuilder {
    let rule = Rule::new(Limiter::new(Quota::per_day(1_000_000))).key(PeerAddress::new());
    RateLimitLayer::builder(rule).header_format(format)
}

fn allocations(builder: RateLimitLayerBuilder) -> u64 {
    let mut service = builder.build().unwrap().layer(Bare);
    // The first request of a key and of a layer allocates what later ones share.
    drop(answer(&mut service, request()));
    let request = request();
    measure(move || drop(answer(&mut service, request))).count_total
}

#[test]
fn allocates_only_for_the_extensions() {
    let counted = Limiter::new(Quota::per_day(1)).check("alice").unwrap().quotas().clone();
    let mut bare = request();
    let inserting = measure(|| drop::<Option<QuotaStates>>(bare.extensions_mut().insert(counted)));
    assert_eq!(allocations(builder(HeaderFormat::None)), inserting.count_total);
    // The map of the headers is two allocations, and each value is one; all answers share the policy.
    assert!(allocations(builder(HeaderFormat::Draft11)) <= inserting.count_total + 3);
    assert_eq!(allocations(builder(HeaderFormat::None).without_decisions()), 0);
}
