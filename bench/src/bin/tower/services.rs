//! The bare service, and limits in front of it: a billion a day for each address, which is never reached.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use axum::body::Body;
use http::{Request, Response};
use tollgate::{Limiter, MemoryStore, Quota};
use tollgate_policy::{Config, PolicyLimiter};
use tollgate_tower::headers::HeaderFormat;
use tollgate_tower::key::PeerAddress;
use tollgate_tower::{AttributeSources, RateLimitLayer, Rule};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_layer::Layer;
use tower_service::Service;

use crate::subject::{Named, Subject};

pub(crate) const NO_HEADERS: &str = "no-headers";
pub(crate) const DRAFT_11: &str = "draft-11";
pub(crate) const X_RATELIMIT: &str = "x-ratelimit";
pub(crate) const NO_HEADERS_NO_DECISION: &str = "no-headers, no decision";
pub(crate) const DRAFT_11_NO_DECISION: &str = "draft-11, no decision";
pub(crate) const POLICIES: &str = "policies";
pub(crate) const GOVERNOR: &str = "tower_governor";
pub(crate) const GOVERNOR_HEADERS: &str = "tower_governor, headers";

const LIMIT: u32 = 1_000_000_000;

/// Answers at once with an empty response.
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

/// Whether handlers find the decision.
#[derive(Debug, Clone, Copy)]
enum Handlers {
    Find,
    FindNot,
}

fn ours(name: &'static str, format: HeaderFormat, handlers: Handlers) -> Result<Box<dyn Subject>> {
    // The default is room for a million clients; with a little more, none is refused.
    let store = MemoryStore::builder().max_counters(2_000_000).build();
    let limiter = Limiter::with_store(Quota::per_day(LIMIT), store);
    let rule = Rule::new(limiter).key(PeerAddress::new());
    let builder = RateLimitLayer::builder(rule).header_format(format);
    let layer = match handlers {
        Handlers::Find => builder.build()?,
        Handlers::FindNot => builder.without_decisions().build()?,
    };
    Ok(Named::boxed(name, layer.layer(Bare)))
}

/// Like the limits without headers, but with a policy from a file.
fn by_policies() -> Result<Box<dyn Subject>> {
    let limits = format!("policies: [{{ name: default, key: [ip], quotas: [{LIMIT}/1d], headers: none }}]");
    let policies = Config::parse("limits.yaml", &limits).map_err(anyhow::Error::msg)?.into_policies();
    let store = MemoryStore::builder().max_counters(2_000_000).build();
    let limiter = Arc::new(PolicyLimiter::new(store, policies, "limits.yaml"));
    let layer = RateLimitLayer::builder(Rule::policies(&limiter, AttributeSources::new())).build()?;
    Ok(Named::boxed(POLICIES, layer.layer(Bare)))
}

pub(crate) fn subjects() -> Result<Vec<Box<dyn Subject>>> {
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
        ours(NO_HEADERS, HeaderFormat::None, Handlers::Find)?,
        ours(NO_HEADERS_NO_DECISION, HeaderFormat::None, Handlers::FindNot)?,
        Named::boxed(GOVERNOR, GovernorLayer::new(silent).layer(Bare)),
        by_policies()?,
        ours(DRAFT_11, HeaderFormat::Draft11, Handlers::Find)?,
        ours(DRAFT_11_NO_DECISION, HeaderFormat::Draft11, Handlers::FindNot)?,
        ours(X_RATELIMIT, HeaderFormat::XRateLimit, Handlers::Find)?,
        Named::boxed(GOVERNOR_HEADERS, GovernorLayer::new(telling).layer(Bare)),
    ])
}
