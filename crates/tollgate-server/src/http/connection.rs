//! HTTP on one connection: its versions, and their limits.

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
use super::budget::{Held, NoRoom};
use super::outgoing::Outgoing;
use crate::caller::Peer;
use crate::listener::Listener;
use crate::metrics::Cut;
use crate::phase::Phase;
use crate::protocol::{Protocol, Stream};
use crate::store::ServedStore;
use crate::watchdog::{self, Activity, Order, Watched};

/// What one connection may make us keep of heads that are not whole yet. A longer head is answered 431.
const MAX_HEAD: usize = 32 * 1024;

/// Requests at once on one HTTP/2 connection: as many as clients begin with before they are told, who would see
/// some refused if it were less.
const MAX_STREAMS: u32 = 100;

/// What one HTTP/2 connection may send before it is read. It is read at once, so this is what a connection can make us
/// keep beside the [budget](super::Budget).
const WINDOW: u32 = 64 * 1024;

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
        peer.names
            .iter()
            .for_each(|name| trace!(listener = self.listener.name, name, "certificate of a client"));
        let (activity, http) = (Activity::default(), Arc::new((self, peer)));
        let io = TokioIo::new(Watched::new(stream, activity.clone()));
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
                // Over HTTP/1.1 the next request is read when the answer is written, or its last piece is copied.
                let of_stream = (order == Order::Interleaved).then(|| edge.budget.for_stream(others));
                let of_stream = of_stream.transpose();
                let mut reply = match &of_stream {
                    Ok(_) => edge.answer(listener, peer, request).await,
                    Err(NoRoom) => edge.no_room(),
                };
                let of_answer = reply.extensions_mut().remove::<Arc<Held>>();
                Ok::<_, Infallible>(reply.map(|body| match (of_stream, of_answer) {
                    (Ok(Some(mut held)), _) => {
                        held.note_answer(body.len());
                        Outgoing::holding(body, (answering, held))
                    }
                    (_, Some(held)) => Outgoing::holding(body, held),
                    (_, None) => Outgoing::new(body),
                }))
            }
        });
        let builder = versions();
        let connection = builder.serve_connection(io, service);
        let served = watchdog::watch(connection, |it| it.graceful_shutdown(), &activity, &phase).await;
        let cut = match served {
            Ok(Ok(())) => return,
            Ok(Err(error)) => {
                debug!(error, "connection failed");
                cut_by(&*error)
            }
            Err(cut) => cut,
        };
        http.0.edge.metrics.cuts().count(cut);
    }
}

/// Why HTTP ended a connection by itself.
fn cut_by(error: &(dyn Error + 'static)) -> Cut {
    match error.downcast_ref::<hyper::Error>() {
        Some(error) if error.is_parse_too_large() => Cut::HeadTooLarge,
        Some(error) if error.is_incomplete_message() || error.is_canceled() || error.is_closed() => {
            Cut::Broken
        }
        Some(error) if error.source().is_some_and(|source| source.is::<std::io::Error>()) => Cut::Broken,
        Some(_) => Cut::Malformed,
        // Before it was known which version it is.
        None => Cut::Broken,
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
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(WINDOW as usize)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10));
    builder
}
