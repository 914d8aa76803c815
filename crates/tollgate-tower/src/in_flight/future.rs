//! The future of a response.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tollgate::Clock;
use tower_service::Service;

use super::body::HeldBody;
use super::setup::{HoldRuling, RequestHold, Setup};
use crate::head::Head;
use crate::key::BoxFuture;
use crate::reply::ReplyBody;

pin_project! {
    /// The future of a response of the service, or of a reply in its place.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, its request is not in flight any more, unless the handler has kept the
    /// [`RequestHold`](crate::RequestHold).
    #[must_use = "futures do nothing unless polled"]
    pub struct HeldResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, S::Future>,
    }
}

pin_project! {
    #[project = Stage]
    #[project_replace = Replaced]
    enum State<S, B, F> {
        /// Waiting for the extractor; holds the service to call.
        Waiting { ruling: BoxFuture<'static, (Parts, HoldRuling)>, body: B, service: S },
        Calling { #[pin] future: F, hold: Option<RequestHold> },
        Refused { reply: Box<Response<Bytes>> },
        Done,
    }
}

impl<S, B> HeldResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn calling(future: S::Future, hold: Option<RequestHold>) -> Self {
        Self { state: State::Calling { future, hold } }
    }

    pub(super) fn refused(reply: Box<Response<Bytes>>) -> Self {
        Self { state: State::Refused { reply } }
    }

    /// A request whose extractor has to wait. The service is ready.
    pub(super) fn waiting<C: Clock + 'static>(setup: Arc<Setup<C>>, request: Request<B>, service: S) -> Self {
        let (parts, body) = request.into_parts();
        let ruling = Box::pin(async move {
            let request = Request::from_parts(parts, ());
            let head = Head::from(&request);
            let identity = setup.extractor.extract(head).await;
            let ruling = setup.decide(head, &identity);
            drop(identity);
            (request.into_parts().0, ruling)
        });
        Self { state: State::Waiting { ruling, body, service } }
    }
}

impl<S, B, R> Future for HeldResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: ReplyBody,
{
    type Output = Result<Response<HeldBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                Stage::Waiting { ruling, .. } => {
                    let (mut parts, ruling) = ready!(ruling.as_mut().poll(context));
                    if let Replaced::Waiting { body, mut service, .. } =
                        state.as_mut().project_replace(State::Done)
                    {
                        state.set(match ruling {
                            Ok(hold) => {
                                hold.clone().map(|hold| parts.extensions.insert(hold));
                                let future = service.call(Request::from_parts(parts, body));
                                State::Calling { future, hold }
                            }
                            Err(reply) => State::Refused { reply },
                        });
                    }
                }
                Stage::Calling { future, hold } => {
                    let response = ready!(future.poll(context))?;
                    let hold = hold.take();
                    return Poll::Ready(Ok(response.map(|body| HeldBody::new(body, hold))));
                }
                Stage::Refused { .. } => {
                    if let Replaced::Refused { reply } = state.as_mut().project_replace(State::Done) {
                        return Poll::Ready(
                            Ok((*reply).map(|body| HeldBody::new(R::from_bytes(body), None))),
                        );
                    }
                }
                Stage::Done => panic!("`HeldResponseFuture` polled after it was done"),
            }
        }
    }
}
