//! gRPC on one connection: HTTP/2, and its limits.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tracing::trace;

use super::Service;
use super::streams::Streams;
use crate::access::listener::Listener;
use crate::access::peer::ConnectionPeer;
use crate::net::connection::{MAX_HEAD, WINDOW, count_cut};
use crate::net::drain::Phase;
use crate::net::protocol::{ByteStream, Protocol};
use crate::net::timeouts::{self, Activity, Lifetime, Order, WatchedStream};
use crate::tls::Alpn;

/// The maximum number of concurrent calls on one connection, as over HTTP: the heads of answers that a client does not
/// read are outside the budget. Proxies that need more open another connection.
const MAX_STREAMS: u32 = 100;

/// A client that does not answer a ping within this time is considered disconnected.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// The shared state of the calls on one connection.
pub(super) struct Connection {
    pub(super) peer: ConnectionPeer,
    pub(super) phase: Phase,
    pub(super) activity: Activity,
    pub(super) streams: Streams,
}

/// gRPC on one listener.
pub(crate) struct Grpc {
    service: Service,
    listener: Listener,
    keep_alive: Duration,
    lifetime: Lifetime,
}

impl Grpc {
    /// Pings idle clients this often.
    pub(crate) fn new(
        service: Service,
        listener: Listener,
        keep_alive: Duration,
        lifetime: Lifetime,
    ) -> Self {
        Self { service, listener, keep_alive, lifetime }
    }

    fn http2(&self) -> http2::Builder<TokioExecutor> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEAD as u32)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_send_buf_size(WINDOW as usize)
            .keep_alive_interval(self.keep_alive)
            .keep_alive_timeout(PING_TIMEOUT);
        builder
    }
}

impl Protocol for Grpc {
    const ALPN: Alpn = Alpn::Http2;

    async fn serve<I: ByteStream>(self: Arc<Self>, stream: I, peer: ConnectionPeer, phase: Phase) {
        peer.names
            .iter()
            .for_each(|name| trace!(listener = self.listener.name, name, "certificate of a client"));
        let activity = Activity::interleaved();
        let builder = self.http2();
        let streams = Streams::of_connection();
        let shared = Connection { peer, phase: phase.clone(), activity: activity.clone(), streams };
        let grpc = Arc::new((self, shared));
        let io = TokioIo::new(WatchedStream::new(stream, activity.clone()));
        let service = service_fn(|request| {
            let others = activity.pending();
            let answering = activity.begin(Order::Interleaved);
            let grpc = Arc::clone(&grpc);
            async move {
                let (Self { service, listener, .. }, connection) = (&*grpc.0, &grpc.1);
                Ok::<_, Infallible>(service.answer(listener, connection, others, answering, request).await)
            }
        });
        let connection = builder.serve_connection(io, service);
        let lifetime = grpc.0.lifetime;
        let close = |it: std::pin::Pin<&mut _>| http2::Connection::graceful_shutdown(it);
        let served = timeouts::watch(connection, close, &activity, &phase, lifetime).await;
        count_cut(served.map(|ended| ended.map_err(Into::into)), &grpc.0.service.resources.metrics);
    }
}
