//! The body of an answer on its way to the client.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use hyper::body::{Body, Frame, SizeHint};
use tonic::Status;

use crate::http::{Held, until_sent};
use crate::phase::Phase;

/// What is left of an answer.
#[derive(Default)]
pub(super) enum Outgoing {
    /// Nothing.
    #[default]
    Empty,
    /// A message, and the status that follows it.
    Message(Bytes),
    /// The status after a message, which is OK.
    Status,
    /// A stream of tonic's, which ends early when the service drains.
    Stream(tonic::body::Body, Until),
}

/// Until when a stream may last, and what it holds as long.
pub(super) struct Until {
    draining: Pin<Box<dyn Future<Output = ()> + Send>>,
    _held: Held,
}

impl Until {
    pub(super) fn new(phase: Phase, held: Held) -> Self {
        Self { draining: Box::pin(async move { phase.draining().await }), _held: held }
    }
}

impl Outgoing {
    /// Bytes of its message.
    pub(super) fn len(&self) -> usize {
        if let Self::Message(message) = self { message.len() } else { 0 }
    }

    /// The same, which drops `until_sent` when the message is sent, or given up.
    pub(super) fn holding(self, held: impl Send + 'static) -> Self {
        match self {
            Self::Message(message) => Self::Message(until_sent(message, held)),
            rest => rest,
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Self::Stream(stream, until) = &mut *self {
            if until.draining.as_mut().poll(context).is_pending() {
                return Pin::new(stream).poll_frame(context);
            }
            *self = Self::Empty;
            return Poll::Ready(Some(Ok(Frame::trailers(stopping()))));
        }
        Poll::Ready(match std::mem::take(&mut *self) {
            Self::Message(message) => {
                *self = Self::Status;
                Some(Ok(Frame::data(message)))
            }
            Self::Status => Some(Ok(Frame::trailers(ok()))),
            Self::Empty | Self::Stream(..) => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Message(_) | Self::Status => false,
            Self::Stream(stream, _) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty | Self::Status => SizeHint::with_exact(0),
            Self::Message(message) => SizeHint::with_exact(message.len() as u64),
            Self::Stream(stream, _) => stream.size_hint(),
        }
    }
}

/// The trailers of an answer.
fn ok() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
    trailers
}

/// The trailers of a stream that the drain ends.
fn stopping() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    // Its message is plain text, which any header can have.
    let _ = Status::unavailable("the service is about to stop").add_header(&mut trailers);
    trailers
}
