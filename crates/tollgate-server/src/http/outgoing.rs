//! The body of an answer that is being sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::net::budget::PIECE;

/// The rest of a body.
pub(super) struct OutgoingBody(Bytes);

/// Bytes that a protocol may keep until its client reads them, and a value that is dropped with them.
struct SendingBytes<T> {
    bytes: Bytes,
    _until_sent: T,
}

impl OutgoingBody {
    pub(super) fn new(body: Bytes) -> Self {
        Self(body)
    }

    /// Drops `until_sent` when the body is sent or given up.
    pub(super) fn holding(body: Bytes, until_sent: impl Send + 'static) -> Self {
        Self(self::until_sent(body, until_sent))
    }
}

/// The same bytes, which drop `held` when they are sent, or given up; at once if there are none.
pub(crate) fn until_sent(bytes: Bytes, held: impl Send + 'static) -> Bytes {
    match bytes.is_empty() {
        true => bytes,
        false => Bytes::from_owner(SendingBytes { bytes, _until_sent: held }),
    }
}

impl<T> AsRef<[u8]> for SendingBytes<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
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
