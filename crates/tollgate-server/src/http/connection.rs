//! HTTP on one connection: its versions, and their limits.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::Version;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tracing::debug;

use super::Edge;
use crate::caller::Peer;
use crate::listener::Listener;
use crate::phase::Phase;
use crate::protocol::{Protocol, Stream};
use crate::store::ServedStore;
use crate::watchdog::{self, Activity, Order, Watched};

/// What one connection may make us keep of heads that are not whole yet. A longer head is answered 431.
const MAX_HEAD: usize = 32 * 1024;

/// Requests at once on one HTTP/2 connection: as many as clients begin with before they are told, who would see
/// some refused if it were less. Each may make us keep a whole body.
const MAX_STREAMS: u32 = 100;

/// HTTP/1.1 and HTTP/2 on one listener.
pub(crate) struct Http<S> {
    edge: Arc<Edge<S>>,
    listener: Listener,
}

impl<S> Http<S> {
    pub(crate) fn new(edge: Arc<Edge<S>>, listener: Listener) -> Self {
        Self { edge, listener }
    }
}

impl<S: ServedStore + 'static> Protocol for Http<S> {
    async fn serve<I: Stream>(self: Arc<Self>, stream: I, peer: Peer, phase: Phase) {
        let (activity, http) = (Activity::default(), Arc::new((self, peer)));
        let io = TokioIo::new(Watched::new(stream, activity.clone()));
        let service = service_fn(|request| {
            let answering = activity.begin(match request.version() {
                Version::HTTP_2 => Order::Interleaved,
                _ => Order::OneByOne,
            });
            let http = Arc::clone(&http);
            async move {
                let (Self { edge, listener }, peer) = (&*http.0, &http.1);
                let reply = edge.answer(listener, peer, request).await;
                drop(answering);
                Ok::<_, Infallible>(reply)
            }
        });
        let builder = versions();
        let connection = builder.serve_connection(io, service);
        let served = watchdog::watch(connection, |it| it.graceful_shutdown(), &activity, &phase).await;
        if let Some(Err(error)) = served {
            debug!(error, "connection failed");
        }
    }
}

/// With limits that keep one connection small.
fn versions() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // Slow heads are the watchdog's matter.
        .header_read_timeout(None)
        // A client may close its half once it has asked.
        .half_close(true)
        .max_buf_size(MAX_HEAD)
        // Head and body together are small: copied into one piece they cost less than a vectored write.
        .writev(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD as u32)
        .initial_stream_window_size(64 * 1024)
        .initial_connection_window_size(256 * 1024)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10));
    builder
}
