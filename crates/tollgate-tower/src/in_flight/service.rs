//! The service: holds a unit, then calls the inner service or replies.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, mem};

use http::{Request, Response};
use tollgate::{Clock, SystemClock};
use tower_service::Service;

use super::future::HeldResponseFuture;
use super::setup::Setup;
use crate::head::Head;
use crate::held_body::HeldBody;
use crate::reply::ReplyBody;

/// A service whose requests in flight are limited, made by [`InFlightLayer`](crate::InFlightLayer).
///
/// Readiness is the inner service's; the instance polled ready is the one called. If the extractor or the store has to
/// wait, the future takes the inner service and leaves a clone, which must become ready again.
pub struct LimitInFlight<S, C = SystemClock> {
    inner: S,
    setup: Arc<Setup<C>>,
}

impl<S, C> LimitInFlight<S, C> {
    pub(super) const fn new(inner: S, setup: Arc<Setup<C>>) -> Self {
        Self { inner, setup }
    }

    /// Returns the service behind the limit.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the service behind the limit.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R, C> Service<Request<B>> for LimitInFlight<S, C>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: ReplyBody,
    C: Clock + 'static,
{
    type Response = Response<HeldBody<R>>;
    type Error = S::Error;
    type Future = HeldResponseFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        match self.setup.decide_at_once(Head::from(&request)) {
            Some(Ok(admitted)) => {
                admitted.hold.clone().map(|hold| request.extensions_mut().insert(hold));
                HeldResponseFuture::calling(self.inner.call(request), admitted)
            }
            Some(Err(reply)) => HeldResponseFuture::refused(reply),
            None => {
                // The clone is not ready and stays here; the ready one moves into the future.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                HeldResponseFuture::waiting(Arc::clone(&self.setup), request, ready)
            }
        }
    }
}

impl<S: Clone, C> Clone for LimitInFlight<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), setup: Arc::clone(&self.setup) }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for LimitInFlight<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitInFlight").field("inner", &self.inner).finish_non_exhaustive()
    }
}
