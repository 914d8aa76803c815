//! The body of an answer that is being sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use hyper::body::{Body, Frame, SizeHint};
use tonic::Status;

use super::streams::Stay;
use crate::net::until_sent::until_sent;

/// The rest of an answer.
#[derive(Default)]
pub(super) enum OutgoingMessage {
    /// Nothing.
    #[default]
    Empty,
    /// A message, and the status that follows it.
    Message(Bytes),
    /// The status after a message, which is OK.
    Status,
    /// A stream of tonic's, which ends early when its stay is over.
    Stream(tonic::body::Body, Stay),
}

impl OutgoingMessage {
    /// Bytes of its message.
    pub(super) fn len(&self) -> usize {
        if let Self::Message(message) = self { message.len() } else { 0 }
    }

    /// The same, which drops `held` when the message is sent, or given up.
    pub(super) fn holding(self, held: impl Send + 'static) -> Self {
        match self {
            Self::Message(message) => Self::Message(until_sent(message, held)),
            rest => rest,
        }
    }
}

impl Body for OutgoingMessage {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Self::Stream(stream, stay) = &mut *self {
            let Poll::Ready(reason) = stay.over().poll(context) else {
                return Pin::new(stream).poll_frame(context);
            };
            *self = Self::Empty;
            return Poll::Ready(Some(Ok(Frame::trailers(ended(reason)))));
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

/// The trailers of a stream that ends early.
fn ended(reason: &str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    // Its message is plain text, which any header can have.
    let _ = Status::unavailable(reason).add_header(&mut trailers);
    trailers
}
