//! Reading a request's body, within bounds of size, time and memory.

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};

use super::budget::{Budget, Held};
use super::rejection::Rejection;

/// Two thirds of a kilobyte for each request of the largest batch.
const MAX_BODY: usize = 64 * 1024;

/// What is read of a body beyond that, to be thrown away.
const MAX_DISCARDED: u64 = 16 * 1024 * 1024;

/// From the end of the head to the end of the body.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// What a request takes besides its body while that is waited for: its stream, its task and its timer.
const WAITING: usize = 2 * 1024;

/// A whole body. It holds its memory until it is dropped.
pub(super) struct Body {
    bytes: Bytes,
    _held: Held,
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The whole body of a request.
///
/// # Errors
///
/// If it is larger than 64 KiB, slower than 5 s or cut off, or if it has to be waited for and the budget has no room.
pub(super) async fn read(request: Request<Incoming>, budget: &Budget) -> Result<Body, Rejection> {
    let version = request.version();
    let body = request.into_body();
    if body.size_hint().lower() > MAX_BODY as u64 {
        Box::pin(discard(version, body, budget)).await;
        return Err(too_large());
    }
    let mut arriving = Arriving { body, first: Bytes::new(), whole: BytesMut::new(), held: budget.none() };
    // A small body has come with its head, and hyper hands it over when it is asked the first time: it needs neither
    // the budget nor a timer.
    let read = match at_once(arriving.rest()).await {
        Some(read) => read,
        None => match arriving.wait() {
            // In a box, so that a body that is there makes no future larger, which is moved with every request.
            Ok(()) => Box::pin(in_time(arriving.rest())).await,
            no_room => no_room,
        },
    };
    match read {
        Ok(()) => Ok(arriving.into_body()),
        Err(rejection) => {
            if rejection.status() == StatusCode::SERVICE_UNAVAILABLE {
                // There is no room for it, so nothing more is read.
                budget.note_refusal();
            } else {
                let Arriving { body, held, .. } = arriving;
                drop(held);
                Box::pin(discard(version, body, budget)).await;
            }
            Err(rejection)
        }
    }
}

/// What the future gives if it need not wait. It may be dropped between, and asked for again.
async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut asked = false;
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending if asked => Poll::Ready(None),
        Poll::Pending => {
            asked = true;
            // Nothing else may ever ask again.
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

async fn in_time(rest: impl Future<Output = Result<(), Rejection>>) -> Result<(), Rejection> {
    tokio::time::timeout(TIME_LIMIT, rest).await.unwrap_or_else(|_| {
        let detail = format!("the body did not arrive within {TIME_LIMIT:?}");
        Err(Rejection::new(StatusCode::REQUEST_TIMEOUT, detail))
    })
}

/// A body, and what has come of it.
struct Arriving {
    body: Incoming,
    /// All of it, if it comes in one piece, which is not copied.
    first: Bytes,
    /// All of it otherwise. A piece of it may be a small part of a large buffer, so none is kept.
    whole: BytesMut,
    held: Held,
}

impl Arriving {
    /// Reads to the end. Dropped and called again, it goes on where it was.
    async fn rest(&mut self) -> Result<(), Rejection> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|_| Rejection::new(StatusCode::BAD_REQUEST, "the body was cut off"))?;
            let Ok(data) = frame.into_data() else { continue };
            if self.whole.len() + data.len() > MAX_BODY {
                return Err(too_large());
            }
            if self.whole.is_empty() && self.body.is_end_stream() {
                self.first = data;
                break;
            }
            let needed = self.whole.len() + data.len();
            if needed > self.whole.capacity() {
                // Before it is taken, so that it is never more than what the budget has.
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

    /// Notes that it has to be waited for.
    fn wait(&mut self) -> Result<(), Rejection> {
        self.hold(WAITING + self.whole.capacity())
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Rejection> {
        if self.held.resize(bytes) {
            return Ok(());
        }
        let detail = "there is no memory for a body that is on its way: too many are";
        Err(Rejection::new(StatusCode::SERVICE_UNAVAILABLE, detail))
    }

    fn into_body(self) -> Body {
        let bytes = if self.whole.is_empty() { self.first } else { self.whole.freeze() };
        Body { bytes, _held: self.held }
    }
}

/// Takes the rest of a body that is not wanted, within bounds of size and time.
///
/// Over HTTP/2 an answer ends its stream, and curl 7 and httpx report a stream that ends while they send as broken.
/// Over HTTP/1.1 the connection is closed after such an answer, which clients expect.
pub(super) async fn discard(version: Version, mut body: Incoming, budget: &Budget) {
    if version != Version::HTTP_2 || body.is_end_stream() || body.size_hint().lower() > MAX_DISCARDED {
        return;
    }
    let mut waiting = budget.none();
    if !waiting.resize(WAITING) {
        return;
    }
    let rest = async {
        let mut discarded = 0;
        while let Some(Ok(frame)) = body.frame().await {
            discarded += frame.data_ref().map_or(0, |data| data.len() as u64);
            if discarded > MAX_DISCARDED {
                break;
            }
        }
    };
    // The answer is the same if it takes too long.
    let _ = tokio::time::timeout(TIME_LIMIT, rest).await;
}

fn too_large() -> Rejection {
    let detail = format!("the body is larger than {MAX_BODY} bytes");
    Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
}
