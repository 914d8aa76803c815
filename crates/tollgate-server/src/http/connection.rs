//! HTTP on one connection: the protocol versions and their limits.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::Version;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tracing::{debug, trace};

use super::Edge;
use super::outgoing::OutgoingBody;
use super::reply::Reply;
use crate::access::listener::Listener;
use crate::access::peer::ConnectionPeer;
use crate::metrics::{Cut, Metrics};
use crate::net::budget::NoRoom;
use crate::net::drain::Phase;
use crate::net::protocol::{ByteStream, Protocol};
use crate::net::timeouts::{self, Activity, Lifetime, Order, WatchedStream};

/// The maximum memory for incomplete heads on one connection. A longer head is answered 431.
pub(crate) const MAX_HEAD: usize = 32 * 1024;

/// The maximum number of concurrent requests on one HTTP/2 connection: the number that clients open before they learn
/// of a limit. With a lower one, they would see some refused.
const MAX_STREAMS: u32 = 100;

/// The maximum number of unread bytes on one HTTP/2 connection. They are read at once, so this bounds what a connection
/// can hold outside the [budget](crate::net::budget::Budget).
pub(crate) const WINDOW: u32 = 64 * 1024;

/// HTTP/1.1 and HTTP/2 on one listener.
pub(crate) struct Http {
    edge: Arc<Edge>,
    listener: Listener,
}

impl Http {
    pub(crate) fn new(edge: Arc<Edge>, listener: Listener) -> Self {
        Self { edge, listener }
    }
}

impl Protocol for Http {
    async fn serve<I: ByteStream>(self: Arc<Self>, stream: I, peer: ConnectionPeer, phase: Phase) {
        peer.names
            .iter()
            .for_each(|name| trace!(listener = self.listener.name, name, "certificate of a client"));
        let (activity, http) = (Activity::default(), Arc::new((self, peer)));
        let io = TokioIo::new(WatchedStream::new(stream, activity.clone()));
        let service = service_fn(|request| {
            let order = match request.version() {
                Version::HTTP_2 => Order::Interleaved,
                _ => Order::OneByOne,
            };
            let others = activity.pending();
            let answering = activity.begin(order);
            let http = Arc::clone(&http);
            async move {
                let (Self { edge, listener }, peer) = (&*http.0, &http.1);
                // Over HTTP/1.1 the next request is read only when the answer is written, or its last piece is copied.
                let stream_memory = (order == Order::Interleaved).then(|| edge.budget.for_stream(others));
                let stream_memory = stream_memory.transpose();
                let Reply { response, held, is_unread } = match &stream_memory {
                    Ok(_) => edge.answer(listener, peer, request).await,
                    Err(NoRoom) => edge.no_room(),
                };
                if is_unread {
                    answering.note_unread();
                }
                Ok::<_, Infallible>(response.map(|body| match (stream_memory, held) {
                    (Ok(Some(mut held)), _) => {
                        held.note_answer(body.len());
                        OutgoingBody::holding(body, (answering, held))
                    }
                    (_, Some(held)) => OutgoingBody::holding(body, held),
                    (_, None) => OutgoingBody::new(body),
                }))
            }
        });
        let builder = versions();
        let connection = builder.serve_connection(io, service);
        let served =
            timeouts::watch(connection, |it| it.graceful_shutdown(), &activity, &phase, Lifetime::UNLIMITED)
                .await;
        count_cut(served, &http.0.edge.metrics);
    }
}

/// Counts why a connection ended, if it was cut.
pub(crate) fn count_cut(served: Result<Result<(), Box<dyn Error + Send + Sync>>, Cut>, metrics: &Metrics) {
    let cut = match served {
        Ok(Ok(())) => return,
        Ok(Err(error)) => {
            debug!(error, "connection failed");
            cut_by(&*error)
        }
        Err(cut) => cut,
    };
    metrics.cuts().count(cut);
}

/// Returns why HTTP ended a connection.
fn cut_by(error: &(dyn Error + 'static)) -> Cut {
    match error.downcast_ref::<hyper::Error>() {
        Some(error) if error.is_parse_too_large() => Cut::HeadTooLarge,
        Some(error)
            if error.is_incomplete_message()
                || error.is_canceled()
                || error.is_closed()
                // A ping without an answer: the client is gone.
                || error.is_timeout() =>
        {
            Cut::Broken
        }
        Some(error) if error.source().is_some_and(|source| source.is::<std::io::Error>()) => Cut::Broken,
        Some(_) => Cut::Malformed,
        // The connection ended before its version was known.
        None => Cut::Broken,
    }
}

/// Sets limits that keep each connection small.
fn versions() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // The watchdog cuts slow heads.
        .header_read_timeout(None)
        // A client may close its half after its request.
        .half_close(true)
        .max_buf_size(MAX_HEAD)
        // Head and body are small: one copied piece costs less than a vectored write.
        .writev(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD as u32)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(WINDOW as usize)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10));
    builder
}
