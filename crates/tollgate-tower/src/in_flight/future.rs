//! The future of a response.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tollgate::Clock;
use tower_service::Service;

use super::setup::{HoldRuling, InFlightRequest, Setup};
use crate::gate::DenialMark;
use crate::head::Head;
use crate::held_body::HeldBody;
use crate::key::BoxFuture;
use crate::reply::ReplyBody;

pin_project! {
    /// The future of a response of the service, or of a reply in its place.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, its request is not in flight any more, unless the handler has kept the
    /// [`RequestHold`](crate::RequestHold). If a shared store was being asked, the keeper ends the hold that it may have.
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
        /// Waiting for the extractor or the store; holds the service to call.
        Waiting { ruling: BoxFuture<'static, (Parts, HoldRuling)>, body: B, service: S },
        Calling { #[pin] future: F, admitted: InFlightRequest },
        Refused { reply: Box<Response<Bytes>> },
        Done,
    }
}

impl<S, B> HeldResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn calling(future: S::Future, admitted: InFlightRequest) -> Self {
        Self { state: State::Calling { future, admitted } }
    }

    pub(super) fn refused(reply: Box<Response<Bytes>>) -> Self {
        Self { state: State::Refused { reply } }
    }

    /// A request whose extractor or store has to wait. The service is ready.
    pub(super) fn waiting<C: Clock + 'static>(setup: Arc<Setup<C>>, request: Request<B>, service: S) -> Self {
        let (parts, body) = request.into_parts();
        let ruling = Box::pin(async move {
            let request = Request::from_parts(parts, ());
            let ruling = setup.decide(Head::from(&request)).await;
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
                            Ok(admitted) => {
                                admitted.hold.clone().map(|hold| parts.extensions.insert(hold));
                                let future = service.call(Request::from_parts(parts, body));
                                State::Calling { future, admitted }
                            }
                            Err(reply) => State::Refused { reply },
                        });
                    }
                }
                Stage::Calling { future, admitted } => {
                    let mut response = ready!(future.poll(context))?;
                    let InFlightRequest { hold, told } = mem::take(admitted);
                    if let Some((limit_headers, counted)) = told
                        && response.extensions().get::<DenialMark>().is_none()
                    {
                        limit_headers.write(&counted, response.headers_mut());
                    }
                    return Poll::Ready(Ok(response.map(|body| HeldBody::keeping(body, hold))));
                }
                Stage::Refused { .. } => {
                    if let Replaced::Refused { reply } = state.as_mut().project_replace(State::Done) {
                        return Poll::Ready(Ok(
                            (*reply).map(|body| HeldBody::keeping(R::from_bytes(body), None))
                        ));
                    }
                }
                Stage::Done => panic!("`HeldResponseFuture` polled after it was done"),
            }
        }
    }
}
