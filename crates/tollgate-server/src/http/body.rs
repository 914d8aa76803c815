//! Reading a request's body, within bounds of size and time.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::rejection::Rejection;

/// Two thirds of a kilobyte for each request of the largest batch.
const MAX_BODY: usize = 64 * 1024;

/// What is read of a body beyond that, to be thrown away.
const MAX_DISCARDED: u64 = 16 * 1024 * 1024;

/// From the end of the head to the end of the body.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// The whole body of a request.
///
/// # Errors
///
/// If it is larger than 64 KiB, slower than 5 s or cut off.
pub(super) async fn read(request: Request<Incoming>) -> Result<Bytes, Rejection> {
    let version = request.version();
    let mut body = request.into_body();
    if body.size_hint().lower() > MAX_BODY as u64 {
        Box::pin(discard(version, body)).await;
        return Err(too_large());
    }
    let collected = in_time(collect(&mut body)).await;
    if collected.as_ref().is_some_and(Result::is_err) {
        Box::pin(discard(version, body)).await;
    }
    collected.unwrap_or_else(|| {
        let detail = format!("the body did not arrive within {TIME_LIMIT:?}");
        Err(Rejection::new(StatusCode::REQUEST_TIMEOUT, detail))
    })
}

/// What the future gives within the time limit.
///
/// A small body has come with its head, and hyper hands it over when it is asked the first time: the timer is
/// not set before the second time, and so seldom at all.
async fn in_time<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut asked = false;
    let at_once = poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending if asked => Poll::Ready(None),
        Poll::Pending => {
            asked = true;
            // Nothing else may ever ask again.
            context.waker().wake_by_ref();
            Poll::Pending
        }
    });
    match at_once.await {
        Some(value) => Some(value),
        None => tokio::time::timeout(TIME_LIMIT, future).await.ok(),
    }
}

/// Takes the rest of a body that is not wanted, within bounds of size and time.
///
/// Over HTTP/2 an answer ends its stream, and curl 7 and httpx report a stream that ends while they send as broken.
/// Over HTTP/1.1 the connection is closed after such an answer, which clients expect.
pub(super) async fn discard(version: Version, mut body: Incoming) {
    if version != Version::HTTP_2 || body.size_hint().lower() > MAX_DISCARDED {
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

async fn collect(body: &mut Incoming) -> Result<Bytes, Rejection> {
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Rejection::new(StatusCode::BAD_REQUEST, "the body was cut off"))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.is_empty() && first.is_empty() {
            // A small body comes in one piece and is not copied.
            first = data;
        } else {
            if whole.is_empty() {
                whole.extend_from_slice(&first);
            }
            whole.extend_from_slice(&data);
        }
        if first.len().max(whole.len()) > MAX_BODY {
            return Err(too_large());
        }
        if body.is_end_stream() {
            break;
        }
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

fn too_large() -> Rejection {
    let detail = format!("the body is larger than {MAX_BODY} bytes");
    Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
}
