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

use crate::gate::Gate;
use crate::key::BoxFuture;
use crate::reply::ReplyBody;
use crate::response_work::ResponseWork;
use crate::ruling::FirstRuling;

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

/// The work for the response to an admitted request, or the reply to another.
type FullRuling = Result<ResponseWork, Box<Response<Bytes>>>;

pin_project! {
    #[project = Stage]
    #[project_replace = Replaced]
    enum State<S, B, F, R> {
        /// Waiting for the store or the extractor; holds the service to call.
        Waiting { ruling: BoxFuture<'static, (Parts, FullRuling)>, body: B, service: S },
        Calling { #[pin] future: F, after: ResponseWork },
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
    pub(crate) fn calling(future: S::Future, after: ResponseWork) -> Self {
        Self { state: State::Calling { future, after } }
    }

    /// A request that does not.
    pub(crate) fn refused(reply: Box<Response<Bytes>>) -> Self {
        Self { state: State::Refused { reply } }
    }

    /// A request that has to wait, or that another gate decides as well. The service is ready.
    pub(crate) fn waiting(
        gate: Arc<Gate>,
        begun: FirstRuling,
        other: Option<Arc<Gate>>,
        request: Request<B>,
        service: S,
    ) -> Self {
        let (parts, body) = request.into_parts();
        let ruling = Box::pin(async move {
            let mut request = Request::from_parts(parts, ());
            let ruling = match (gate.finish(begun, &mut request).await, other) {
                (Ok(after), Some(other)) => other.decide_inside(after, &mut request).await,
                (ruling, _) => ruling,
            };
            (request.into_parts().0, ruling)
        });
        Self { state: State::Waiting { ruling, body, service } }
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
                    if let Replaced::Waiting { body, mut service, .. } =
                        state.as_mut().project_replace(State::Done)
                    {
                        state.set(match ruling {
                            Ok(after) => {
                                let future = service.call(Request::from_parts(parts, body));
                                State::Calling { future, after }
                            }
                            Err(reply) => State::Refused { reply },
                        });
                    }
                }
                Stage::Calling { future, after } => {
                    // Responses are large, so one without a refund is passed on without being stored here.
                    if !after.may_give_back() {
                        return after.with_headers(future.poll(context));
                    }
                    let response = ready!(after.with_headers(future.poll(context)))?;
                    let (parts, body) = response.into_parts();
                    let refund = after.refund(&parts);
                    let response = Response::from_parts(parts, body);
                    let Some(refund) = refund else { return Poll::Ready(Ok(response)) };
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
