//! The bare service, and limits in front of it: a billion a day for each address, which is never reached.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use axum::body::Body;
use http::{Request, Response};
use tollgate::{Limiter, MemoryStore, Quota};
use tollgate_tower::headers::HeaderFormat;
use tollgate_tower::key::PeerAddress;
use tollgate_tower::{RateLimitLayer, Rule};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_layer::Layer;
use tower_service::Service;

use crate::subject::{Named, Subject};

pub(crate) const NO_HEADERS: &str = "no-headers";
pub(crate) const DRAFT_11: &str = "draft-11";
pub(crate) const X_RATELIMIT: &str = "x-ratelimit";
pub(crate) const GOVERNOR: &str = "tower_governor";
pub(crate) const GOVERNOR_HEADERS: &str = "tower_governor, headers";

const LIMIT: u32 = 1_000_000_000;

/// Answers at once, with nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bare;

impl Bare {
    pub(crate) fn subject() -> Box<dyn Subject> {
        Named::boxed("bare", Self)
    }
}

impl Service<Request<Body>> for Bare {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        drop(request);
        ready(Ok(Response::new(Body::empty())))
    }
}

pub(crate) fn subjects() -> Result<Vec<Box<dyn Subject>>> {
    let ours = |name, format| -> Result<Box<dyn Subject>> {
        // Room for a million clients is what it has by default; a little more, so that none is refused.
        let store = MemoryStore::builder().max_keys(2_000_000).build();
        let limiter = Limiter::with_store(Quota::per_day(LIMIT), store);
        let rule = Rule::new(limiter).key(PeerAddress::new());
        let layer = RateLimitLayer::builder(rule).header_format(format).build()?;
        Ok(Named::boxed(name, layer.layer(Bare)))
    };
    let silent = GovernorConfigBuilder::default()
        .per_nanosecond(1)
        .burst_size(LIMIT)
        .finish()
        .context("a limit of tower_governor")?;
    let telling = GovernorConfigBuilder::default()
        .per_nanosecond(1)
        .burst_size(LIMIT)
        .use_headers()
        .finish()
        .context("a limit of tower_governor")?;
    Ok(vec![
        ours(NO_HEADERS, HeaderFormat::None)?,
        Named::boxed(GOVERNOR, GovernorLayer::new(silent).layer(Bare)),
        ours(DRAFT_11, HeaderFormat::Draft11)?,
        ours(X_RATELIMIT, HeaderFormat::XRateLimit)?,
        Named::boxed(GOVERNOR_HEADERS, GovernorLayer::new(telling).layer(Bare)),
    ])
}
