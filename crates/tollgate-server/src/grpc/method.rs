//! What a path means, who may call it, and the answer.

use std::convert::Infallible;
use std::pin::Pin;

use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::outgoing::{Outgoing, Until};
use super::{Service, deadline, status, unary};
use crate::caller::Peer;
use crate::http::{NoRoom, Rejection, authorize};
use crate::listener::Listener;
use crate::phase::Phase;
use crate::scope::Scope;
use crate::store::ServedStore;
use crate::watchdog::Answering;

/// The method of Envoy's service.
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Bytes of a message to tonic's services, which hold names.
pub(super) const MAX_MESSAGE: usize = 4 * 1024;

/// A service of tonic's, with what its paths begin with.
pub(super) struct Tonic {
    prefix: &'static str,
    /// What its callers need; `None` if everybody may call it.
    scope: Option<Scope>,
    call: Box<dyn Fn(Request<Incoming>) -> Called + Send + Sync>,
}

type Called = Pin<Box<dyn Future<Output = Response<tonic::body::Body>> + Send>>;

impl Tonic {
    pub(super) fn new<T>(prefix: &'static str, scope: Option<Scope>, service: T) -> Self
    where
        T: tower_service::Service<
                Request<Incoming>,
                Response = Response<tonic::body::Body>,
                Error = Infallible,
                Future: Send + 'static,
            >,
        T: Clone + Send + Sync + 'static,
    {
        let call = move |request| -> Called {
            // Always ready, as all that tonic generates.
            let called = service.clone().call(request);
            Box::pin(async move { called.await.unwrap_or_else(|never| match never {}) })
        };
        Self { prefix, scope, call: Box::new(call) }
    }
}

impl<S: ServedStore + 'static> Service<S> {
    /// Answers a call on a connection that has so many others.
    pub(super) async fn answer(
        &self,
        listener: &Listener,
        peer: &Peer,
        phase: &Phase,
        others: u32,
        answering: Answering,
        request: Request<Incoming>,
    ) -> Response<Outgoing> {
        let mut held = match self.budget.for_stream(others) {
            Ok(held) => held,
            Err(NoRoom) => return self.reject(&Rejection::no_room()),
        };
        let reply = match request.uri().path() {
            SHOULD_RATE_LIMIT => self.should_rate_limit(listener, peer, request).await.map(|reply| {
                held.note_answer(reply.body().len());
                reply.map(|body| body.holding((answering, held)))
            }),
            // In a box, so that the usual call takes no room for it.
            _ => Box::pin(self.ask_tonic(listener, peer, request)).await.map(|reply| {
                // A stream of health may last as long as its connection, and is not what the client waits for.
                drop(answering);
                reply.map(|body| Outgoing::Stream(body, Until::new(phase.clone(), held)))
            }),
        };
        reply.unwrap_or_else(|rejection| self.reject(&rejection))
    }

    /// Calls the service of tonic's that is at this path.
    async fn ask_tonic(
        &self,
        listener: &Listener,
        peer: &Peer,
        request: Request<Incoming>,
    ) -> Result<Response<tonic::body::Body>, Rejection> {
        let path = request.uri().path();
        let tonic = self.tonic.iter().find(|tonic| path.starts_with(tonic.prefix));
        let tonic = tonic.ok_or_else(|| unknown(path))?;
        check_form(&request)?;
        if let Some(scope) = tonic.scope {
            authorize(scope, listener, peer, request.headers())?;
        }
        Ok((tonic.call)(request).await)
    }

    async fn should_rate_limit(
        &self,
        listener: &Listener,
        peer: &Peer,
        request: Request<Incoming>,
    ) -> Result<Response<Outgoing>, Rejection> {
        check_form(&request)?;
        let caller = authorize(Scope::Check, listener, peer, request.headers())?;
        let limit = deadline::of(request.headers())?;
        let call = async {
            let request = unary::read(request, &self.budget).await?;
            let response = self.rate_limit(&caller, &request).await?;
            Ok(unary::reply(&response))
        };
        deadline::within(limit, call).await
    }

    fn reject(&self, rejection: &Rejection) -> Response<Outgoing> {
        self.metrics.rejections().count(rejection.status());
        status::reply(rejection)
    }
}

/// That the request is a call.
fn check_form<B>(request: &Request<B>) -> Result<(), Rejection> {
    let kind = request.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes()).unwrap_or_default();
    if request.method() == Method::POST && kind.starts_with(b"application/grpc") {
        return Ok(());
    }
    let detail = "this listener speaks gRPC: POST with a `content-type` of `application/grpc`";
    Err(Rejection::new(StatusCode::BAD_REQUEST, detail))
}

#[cold]
fn unknown(path: &str) -> Rejection {
    let known = "`envoy.service.ratelimit.v3.RateLimitService`, `grpc.health.v1.Health` and `grpc.reflection.v1.ServerReflection`";
    let shown: String = path.chars().take(100).collect();
    Rejection::new(StatusCode::NOT_FOUND, format!("no method is at `{shown}`; the services are {known}"))
}
