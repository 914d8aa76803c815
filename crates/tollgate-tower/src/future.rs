//! The future of a request.
//!
//! ```text
//! Waiting ──▶ Calling ──▶ Settling ──▶ response
//!        ╰──▶ Refused ───────────────────╯
//! ```
//!
//! A request that is decided immediately begins with `Calling` or `Refused`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::after::After;
use crate::boxed::BoxFuture;
use crate::engine::{Allowed, Later};
use crate::gate::Gate;
use crate::{Head, ReplyBody};

pin_project! {
    /// The future of a response of the service, or of a reply in its place.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped during the call to the store, the units may or may not have been charged; after that, they are
    /// charged. If a rule [reserves](crate::Rule::reserve), they are given back in both cases. During the call, a task
    /// does that, which needs a Tokio runtime and the feature `tokio`.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, S::Future, S::Response>,
    }
}

/// An admitted request, or the reply to another.
type Ruling = Result<Allowed, Box<Response<Bytes>>>;

pin_project! {
    #[project = Stage]
    #[project_replace = Replaced]
    enum State<S, B, F, R> {
        /// Waiting for the store or the extractor; holds the service to call.
        Waiting { ruling: BoxFuture<'static, (Parts, Ruling)>, gate: Arc<Gate>, body: B, service: S },
        Calling { #[pin] future: F, after: After },
        /// Waiting for a refund.
        Settling { refund: BoxFuture<'static, ()>, response: R },
        Refused { reply: Box<Response<Bytes>> },
        Done,
    }
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    /// A request that continues to the service.
    #[inline]
    pub(crate) fn calling(future: S::Future, after: After) -> Self {
        Self { state: State::Calling { future, after } }
    }

    /// A request that does not.
    pub(crate) fn refused(reply: Box<Response<Bytes>>) -> Self {
        Self { state: State::Refused { reply } }
    }

    /// A request that has to wait. The service is ready.
    pub(crate) fn waiting(gate: Arc<Gate>, later: Later, request: Request<B>, service: S) -> Self {
        let (parts, body) = request.into_parts();
        let asking = Arc::clone(&gate);
        let ruling = Box::pin(async move {
            let head = Head::from(&parts);
            let ruling = asking.ruled(head, later(head).await);
            (parts, ruling)
        });
        Self { state: State::Waiting { ruling, gate, body, service } }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: ReplyBody,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                Stage::Waiting { ruling, .. } => {
                    let (parts, ruling) = ready!(ruling.as_mut().poll(context));
                    if let Replaced::Waiting { gate, body, mut service, .. } =
                        state.as_mut().project_replace(State::Done)
                    {
                        let mut request = Request::from_parts(parts, body);
                        state.set(match ruling {
                            Ok(allowed) => {
                                let after = After::admitting(&gate, allowed, request.extensions_mut());
                                State::Calling { future: service.call(request), after }
                            }
                            Err(reply) => State::Refused { reply },
                        });
                    }
                }
                Stage::Calling { future, after } => {
                    // Responses are large, so one without a refund is passed on without being stored here.
                    if !after.may_give_back() {
                        return after.told(future.poll(context));
                    }
                    let response = ready!(after.told(future.poll(context)))?;
                    let Some((taken, refund_if)) = after.refundable() else {
                        return Poll::Ready(Ok(response));
                    };
                    let (parts, body) = response.into_parts();
                    let is_refunded = refund_if(&parts);
                    let response = Response::from_parts(parts, body);
                    if !is_refunded {
                        return Poll::Ready(Ok(response));
                    }
                    let refund = Box::pin(async move {
                        // The response does not depend on the store: units that are not given back count until their
                        // window ends.
                        let _ = taken.cancel().await;
                    });
                    state.set(State::Settling { refund, response });
                }
                Stage::Settling { refund, .. } => {
                    ready!(refund.as_mut().poll(context));
                    if let Replaced::Settling { response, .. } = state.as_mut().project_replace(State::Done) {
                        return Poll::Ready(Ok(response));
                    }
                }
                Stage::Refused { .. } => {
                    if let Replaced::Refused { reply } = state.as_mut().project_replace(State::Done) {
                        return Poll::Ready(Ok((*reply).map(R::from_bytes)));
                    }
                }
                Stage::Done => panic!("`ResponseFuture` polled after it was done"),
            }
        }
    }
}
