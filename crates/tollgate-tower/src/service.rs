//! The service: decides, then calls the inner service or replies.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use crate::future::ResponseFuture;
use crate::head::Head;
use crate::limits::Limits;
use crate::reply::ReplyBody;
use crate::response_work::ResponseWork;
use crate::ruling::FirstRuling;

/// A service with limits in front, made by [`RateLimitLayer`](crate::RateLimitLayer).
///
/// Readiness is the inner service's; the instance polled ready is the one called. The error type does not change: a
/// denial is a response, not an error.
///
/// `call` decides a request that is counted in this process, without allocating a future. If the store or an extractor
/// has to wait, or two rules apply, the future takes the inner service and leaves a clone, which must become ready
/// again.
#[derive(Debug, Clone)]
pub struct RateLimit<S> {
    inner: S,
    limits: Arc<Limits>,
}

impl<S> RateLimit<S> {
    pub(crate) const fn new(inner: S, limits: Arc<Limits>) -> Self {
        Self { inner, limits }
    }

    /// Returns the service behind the limits.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the service behind the limits.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: ReplyBody,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Some((gate, other)) = self.limits.gates(Head::from(&request)) else {
            return ResponseFuture::calling(self.inner.call(request), ResponseWork::Nothing);
        };
        let begun = match gate.at_once(&mut request) {
            FirstRuling::GoesOn(after) if other.is_none() => {
                return ResponseFuture::calling(self.inner.call(request), after);
            }
            FirstRuling::Refused(reply) => return ResponseFuture::refused(reply),
            begun => begun,
        };
        // The clone is not ready and stays here; the ready one moves into the future.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        ResponseFuture::waiting(Arc::clone(gate), begun, other.cloned(), request, ready)
    }
}
