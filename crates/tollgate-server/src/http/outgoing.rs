//! The body of an answer on its way to the client.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};

use super::budget::Held;
use crate::watchdog::Answering;

/// A body, and what ends once it is sent.
pub(super) struct Outgoing {
    body: Full<Bytes>,
    until_sent: Option<UntilSent>,
}

/// The request is being answered, and memory is held, until this is dropped.
pub(super) struct UntilSent {
    pub(super) _answering: Answering,
    pub(super) _held: Held,
}

/// Bytes that a protocol may keep for as long as its client does not read them.
struct Sending {
    bytes: Bytes,
    _until_sent: UntilSent,
}

impl Outgoing {
    pub(super) fn new(body: Full<Bytes>, until_sent: Option<UntilSent>) -> Self {
        Self { body, until_sent }
    }
}

impl AsRef<[u8]> for Sending {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let Some(_until_sent) = self.until_sent.take() else { return Poll::Ready(frame) };
        let owned = |bytes| Bytes::from_owner(Sending { bytes, _until_sent });
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(owned))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
