//! The body of a response that holds a unit in flight.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::request_hold::RequestHold;

pin_project! {
    /// The body of a response whose request is in flight until it has ended, failed or been dropped.
    #[derive(Debug)]
    pub struct HeldBody<B> {
        #[pin]
        inner: B,
        hold: Option<RequestHold>,
    }
}

impl<B> HeldBody<B> {
    /// Keeps the request in flight until this body has ended.
    pub const fn new(inner: B, hold: RequestHold) -> Self {
        Self::keeping(inner, Some(hold))
    }

    pub(crate) const fn keeping(inner: B, hold: Option<RequestHold>) -> Self {
        Self { inner, hold }
    }
}

impl<B: Body> Body for HeldBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.inner.poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            *this.hold = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
