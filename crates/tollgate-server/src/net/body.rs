//! Reads request bodies, within bounds of size, time and memory.

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::EXPECT;
use http::{Request, Version};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};

use super::budget::{Budget, HeldBytes};

/// Two thirds of a kilobyte for each request of the largest batch.
pub(crate) const MAX_BODY: usize = 64 * 1024;

/// How much more of an oversized body is read and discarded.
const MAX_DISCARDED: u64 = 16 * 1024 * 1024;

/// From the end of the head to the end of the body.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// The memory of a waiting request in addition to its body: its stream, its task and its timer.
const WAITING: usize = 2 * 1024;

/// A complete body. It holds its share of the budget until it is dropped.
pub(crate) struct Body {
    bytes: Bytes,
    _held: HeldBytes,
}

/// A body that was not read.
#[derive(Debug)]
pub(crate) struct BodyError {
    pub(crate) fault: BodyFault,
    /// Whether more of the body is coming, over a protocol that cannot leave it out.
    pub(crate) is_unread: bool,
}

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFault {
    /// It has more than this many bytes.
    TooLarge(usize),
    /// It did not arrive within this time.
    Slow(Duration),
    CutOff,
    /// The budget has no room to wait for it.
    NoRoom,
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads the whole body of a request.
///
/// # Errors
///
/// If the body is larger than 64 KiB, takes longer than 5 s, or is cut off, or if the budget has no room to wait for
/// it.
pub(crate) async fn read(request: Request<Incoming>, budget: &Budget) -> Result<Body, BodyError> {
    read_up_to(MAX_BODY, request, budget).await
}

/// Reads the whole body of a request that may have this many bytes.
///
/// # Errors
///
/// As [`read`].
pub(crate) async fn read_up_to(
    max: usize,
    mut request: Request<Incoming>,
    budget: &Budget,
) -> Result<Body, BodyError> {
    let version = request.version();
    if request.body().size_hint().lower() > max as u64 {
        let is_unread = Box::pin(leave(&mut request, budget)).await;
        return Err(BodyError { fault: BodyFault::TooLarge(max), is_unread });
    }
    let body = request.into_body();
    let held = budget.none();
    let mut arriving = ArrivingBody { body, max, first: Bytes::new(), whole: BytesMut::new(), held };
    // A small body comes with its head, and hyper returns it on the first poll. It needs neither the budget nor a
    // timer.
    let read = match at_once(arriving.rest()).await {
        Some(read) => read,
        None => match arriving.wait() {
            // Boxed, because this future moves with every request and few of them wait.
            Ok(()) => Box::pin(in_time(arriving.rest())).await,
            no_room => no_room,
        },
    };
    match read {
        Ok(()) => Ok(arriving.into_body()),
        // Nothing more is read.
        Err(fault @ BodyFault::NoRoom) => {
            budget.note_refusal();
            Err(BodyError { fault, is_unread: version < Version::HTTP_2 })
        }
        Err(fault) => {
            let ArrivingBody { mut body, held, .. } = arriving;
            drop(held);
            Err(BodyError { fault, is_unread: Box::pin(discard(version, &mut body, budget)).await })
        }
    }
}

/// Returns the future's output if it need not wait. The future may be dropped and tried again.
async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut asked = false;
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending if asked => Poll::Ready(None),
        Poll::Pending => {
            asked = true;
            // The future may not be polled again otherwise.
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

async fn in_time(rest: impl Future<Output = Result<(), BodyFault>>) -> Result<(), BodyFault> {
    tokio::time::timeout(TIME_LIMIT, rest).await.unwrap_or(Err(BodyFault::Slow(TIME_LIMIT)))
}

/// A body that is being read.
struct ArrivingBody {
    body: Incoming,
    max: usize,
    /// The whole body if it comes in one piece, without a copy.
    first: Bytes,
    /// The whole body otherwise, copied: a small piece may keep a large buffer alive.
    whole: BytesMut,
    held: HeldBytes,
}

impl ArrivingBody {
    /// Reads to the end. If dropped and called again, it continues where it was.
    async fn rest(&mut self) -> Result<(), BodyFault> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|_| BodyFault::CutOff)?;
            let Ok(data) = frame.into_data() else { continue };
            if self.whole.len() + data.len() > self.max {
                return Err(BodyFault::TooLarge(self.max));
            }
            if self.whole.is_empty() && self.body.is_end_stream() {
                self.first = data;
                break;
            }
            let needed = self.whole.len() + data.len();
            if needed > self.whole.capacity() {
                // Reserved before it is allocated, so that memory never exceeds the budget.
                let capacity = needed.next_power_of_two();
                self.hold(WAITING + capacity)?;
                self.whole.reserve(capacity - self.whole.len());
            }
            self.whole.extend_from_slice(&data);
            if self.body.is_end_stream() {
                break;
            }
        }
        Ok(())
    }

    /// Notes that the body has not arrived yet.
    fn wait(&mut self) -> Result<(), BodyFault> {
        self.hold(WAITING + self.whole.capacity())
    }

    fn hold(&mut self, bytes: usize) -> Result<(), BodyFault> {
        if self.held.resize(bytes) { Ok(()) } else { Err(BodyFault::NoRoom) }
    }

    fn into_body(self) -> Body {
        let bytes = if self.whole.is_empty() { self.first } else { self.whole.freeze() };
        Body { bytes, _held: self.held }
    }
}

/// Leaves the body of a request that is answered without it. Returns whether more of it is coming.
pub(crate) async fn leave(request: &mut Request<Incoming>, budget: &Budget) -> bool {
    let version = request.version();
    // To read would ask such a client for its body.
    if version < Version::HTTP_2 && request.headers().contains_key(EXPECT) {
        return !request.body().is_end_stream();
    }
    discard(version, request.body_mut(), budget).await
}

/// Discards the rest of an unwanted body. Returns whether more of it is coming.
///
/// Over HTTP/2 an answer ends its stream, and curl 7 and httpx report an error if their stream ends while they send. So
/// the body is waited for, within bounds of size and time. Over HTTP/1.1, a body that is not there yet ends the
/// connection, which [lingers](super::lingering_close).
async fn discard(version: Version, body: &mut Incoming, budget: &Budget) -> bool {
    if body.is_end_stream() {
        return false;
    }
    let is_too_long = body.size_hint().lower() > MAX_DISCARDED;
    let mut discarded = 0;
    let rest = async {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return true };
            discarded += frame.data_ref().map_or(0, |data| data.len() as u64);
            if discarded > MAX_DISCARDED {
                return true;
            }
        }
        false
    };
    if version < Version::HTTP_2 {
        return is_too_long || at_once(rest).await.unwrap_or(true);
    }
    let mut waiting = budget.none();
    if !is_too_long && waiting.resize(WAITING) {
        // If this takes too long, the answer is the same.
        let _ = tokio::time::timeout(TIME_LIMIT, rest).await;
    }
    false
}
