//! HTTP on one connection: the protocol versions and their limits.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::Version;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tracing::trace;

use super::Edge;
use super::outgoing::OutgoingBody;
use super::reply::Reply;
use crate::access::listener::Listener;
use crate::access::peer::ConnectionPeer;
use crate::net::budget::NoRoom;
use crate::net::connection::{MAX_HEAD, WINDOW, count_cut};
use crate::net::drain::Phase;
use crate::net::protocol::{ByteStream, Protocol};
use crate::net::timeouts::{self, Activity, Lifetime, Order, WatchedStream};

/// The maximum number of concurrent requests on one HTTP/2 connection: the number that clients open before they learn
/// of a limit. With a lower one, they would see some refused.
const MAX_STREAMS: u32 = 100;

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
