//! Finds the method at a path, checks the caller's scope, and answers.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request, Response};
use hyper::body::Incoming;
use prost::Message;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tracing::warn;

use super::connection::Connection;
use super::deadline::Late;
use super::kuadrant::KuadrantMethod;
use super::outgoing::OutgoingMessage;
use super::streams::Room;
use super::{Service, deadline, status, unary};
use crate::access::authorization::authorize;
use crate::access::listener::Listener;
use crate::access::peer::ConnectionPeer;
use crate::access::scope::Scope;
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;
use crate::net::budget::{HeldBytes, NoRoom};
use crate::net::timeouts::PendingAnswer;

/// The method of Envoy's service.
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The method for a single health check.
const CHECK_HEALTH: &str = "/grpc.health.v1.Health/Check";

/// The pause in the log after a line about a call that is refused.
const LOG_GAP: Duration = Duration::from_secs(60);

/// The time for a message to tonic's services, as for every body.
const MESSAGE_TIME: Duration = Duration::from_secs(5);

/// Bytes of a message to tonic's services, which hold names.
pub(super) const MAX_MESSAGE: usize = 4 * 1024;

/// A service of tonic's, with the prefix of its paths.
pub(super) struct Tonic {
    prefix: &'static str,
    /// The scope that its callers need; `None` if everyone may call it.
    scope: Option<Scope>,
    call: Box<dyn Fn(Request<Incoming>) -> CalledMethod + Send + Sync>,
}

type CalledMethod = Pin<Box<dyn Future<Output = Response<tonic::body::Body>> + Send>>;

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
        let call = move |request| -> CalledMethod {
            // Always ready, as all that tonic generates.
            let called = service.clone().call(request);
            Box::pin(async move { called.await.unwrap_or_else(|never| match never {}) })
        };
        Self { prefix, scope, call: Box::new(call) }
    }
}

impl Service {
    /// Answers a call on a connection that has this many others.
    pub(super) async fn answer(
        &self,
        listener: &Listener,
        connection: &Connection,
        others: u32,
        answering: PendingAnswer,
        request: Request<Incoming>,
    ) -> Response<OutgoingMessage> {
        if let Err(kind) = check_form(&request) {
            self.resources.metrics.rejections().count(kind.status());
            return status::not_a_call(kind);
        }
        let Ok(mut held) = self.resources.budget.for_stream(others) else {
            return self.reject(&Rejection::no_room());
        };
        let peer = &connection.peer;
        let reply = match request.uri().path() {
            SHOULD_RATE_LIMIT => match self.should_rate_limit(listener, peer, &mut held, request).await {
                Err(rejection) => return self.reject_check(&rejection),
                reply => reply,
            },
            CHECK_HEALTH => Box::pin(self.check_health(request)).await,
            path => match KuadrantMethod::at(path) {
                Some(method) => {
                    match Box::pin(self.kuadrant(method, listener, peer, &mut held, request)).await {
                        Err(rejection) if method.decides() => return self.reject_check(&rejection),
                        reply => reply,
                    }
                }
                // In a box, so that the usual call takes no room for it.
                None => {
                    drop(held);
                    let streamed = self.stream(listener, connection, answering, request);
                    return Box::pin(streamed).await.unwrap_or_else(|rejection| self.reject(&rejection));
                }
            },
        };
        match reply {
            Ok(reply) => {
                held.note_answer(reply.body().len());
                reply.map(|body| body.holding((answering, held)))
            }
            Err(rejection) => self.reject(&rejection),
        }
    }

    async fn check_health(&self, request: Request<Incoming>) -> Result<Response<OutgoingMessage>, Rejection> {
        let limit = deadline::of(request.headers())?;
        let call = async {
            let of = |bytes: &[u8]| HealthCheckRequest::decode(bytes).map(|asked| (asked, bytes.len()));
            let (asked, _) = unary::read(request, &self.resources.budget, of).await?;
            Ok(unary::reply(&self.health.answer(asked).await?))
        };
        deadline::within(limit, Late::Uncounted, pin!(call)).await
    }

    /// Calls the service of tonic's that is at this path.
    async fn stream(
        &self,
        listener: &Listener,
        connection: &Connection,
        answering: PendingAnswer,
        request: Request<Incoming>,
    ) -> Result<Response<OutgoingMessage>, Rejection> {
        let path = request.uri().path();
        let tonic = self.tonic.iter().find(|tonic| path.starts_with(tonic.prefix));
        let tonic = tonic.ok_or_else(|| unknown(path))?;
        if let Some(scope) = tonic.scope {
            authorize(scope, listener, &connection.peer, request.headers())?;
        }
        let limit = deadline::of(request.headers())?.unwrap_or(MESSAGE_TIME).min(MESSAGE_TIME);
        let room = Room::take(&connection.streams, &self.streams, &self.resources.budget);
        let room = room.map_err(|NoRoom| Rejection::no_stream())?;
        let late = |_| Rejection::new(RejectionKind::SlowRequest, "the message did not arrive in time");
        let reply = tokio::time::timeout(limit, (tonic.call)(request)).await.map_err(late)?;
        if let Some(code) = refused(reply.headers()) {
            self.resources.metrics.rejections().count(status::kind(code).status());
        }
        let Connection { phase, activity, .. } = connection;
        Ok(reply
            .map(|body| OutgoingMessage::Stream(body, room.stay(phase.clone(), activity.clone(), answering))))
    }

    async fn should_rate_limit(
        &self,
        listener: &Listener,
        peer: &ConnectionPeer,
        held: &mut HeldBytes,
        request: Request<Incoming>,
    ) -> Result<Response<OutgoingMessage>, Rejection> {
        let call = self.receive(listener, peer, held, request).await?;
        // In a box, so that no layer above copies it.
        let decided = Box::pin(self.rate_limit(&call.caller, &call.message, call.caller_until));
        Ok(unary::reply(&deadline::within(call.left, Late::Unknown, pin!(decided)).await?))
    }

    /// Rejects a call and logs this, because Envoy lets the request through by default, which nobody would notice.
    fn reject_check(&self, rejection: &Rejection) -> Response<OutgoingMessage> {
        if rejection.kind().is_of_caller() && self.refusal_logged.passes(LOG_GAP) {
            let (code, field) = (status::code(rejection.kind()), rejection.field());
            let reason = rejection.detail();
            warn!(
                ?code,
                field,
                reason,
                "a call was refused, and Envoy lets its request through unless `failure_mode_deny` is set"
            );
        }
        self.reject(rejection)
    }

    fn reject(&self, rejection: &Rejection) -> Response<OutgoingMessage> {
        self.resources.metrics.rejections().count(rejection.kind().status());
        status::reply(rejection)
    }
}

/// Checks that the request is a call.
///
/// # Errors
///
/// If it is not, which gRPC answers with a status of HTTP.
fn check_form<B>(request: &Request<B>) -> Result<(), RejectionKind> {
    if request.method() != Method::POST {
        return Err(RejectionKind::MethodNotAllowed);
    }
    let kind = request.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes()).unwrap_or_default();
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let known = [&b"application/grpc"[..], b"application/grpc+proto"];
    if known.iter().any(|known| kind.eq_ignore_ascii_case(known)) {
        Ok(())
    } else {
        Err(RejectionKind::WrongMediaType)
    }
}

/// Returns the code of an answer of tonic's that is only an error.
fn refused(headers: &HeaderMap) -> Option<Code> {
    Status::from_header_map(headers).map(|status| status.code()).filter(|code| *code != Code::Ok)
}

#[cold]
fn unknown(path: &str) -> Rejection {
    let known = "`envoy.service.ratelimit.v3.RateLimitService`, `kuadrant.service.ratelimit.v1.RateLimitService`, `grpc.health.v1.Health` and `grpc.reflection.v1.ServerReflection`";
    let shown: String = path.chars().take(100).collect();
    Rejection::new(
        RejectionKind::Unimplemented,
        format!("there is no method at `{shown}`; the services are {known}"),
    )
}
