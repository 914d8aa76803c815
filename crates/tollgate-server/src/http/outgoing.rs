//! The body of an answer that is being sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::net::budget::PIECE;
use crate::net::until_sent::until_sent;

/// The rest of a body.
pub(super) struct OutgoingBody(Bytes);

impl OutgoingBody {
    pub(super) fn new(body: Bytes) -> Self {
        Self(body)
    }

    /// Drops `held` when the body is sent or given up.
    pub(super) fn holding(body: Bytes, held: impl Send + 'static) -> Self {
        Self(until_sent(body, held))
    }
}

impl Body for OutgoingBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.0.len().min(PIECE);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(self.0.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}
