//! One connection from its first byte to its last: protocols, limits, the watchdog.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tracing::debug;

use crate::http::{Edge, Listener};
use crate::metrics::Metrics;
use crate::phase::Phase;
use crate::store::ServedStore;
use crate::watchdog::{Activity, Judgement, TICK, Watchdog, Watched};

/// What one connection may make us keep of heads that are not whole yet. A longer head is answered 431.
const MAX_HEAD: usize = 32 * 1024;

/// Requests at once on one HTTP/2 connection: as many as clients begin with before they are told, who would see
/// some refused if it were less. Each may make us keep a whole body.
const MAX_STREAMS: u32 = 100;

/// What the connections of one listener have in common.
pub(crate) struct Connections<S> {
    listener: Listener,
    edge: Arc<Edge<S>>,
    metrics: Arc<Metrics>,
    phase: Phase,
}

impl<S: ServedStore + 'static> Connections<S> {
    pub(crate) fn new(listener: Listener, edge: Arc<Edge<S>>, metrics: Arc<Metrics>, phase: Phase) -> Self {
        Self { listener, edge, metrics, phase }
    }

    pub(crate) fn listener(&self) -> Listener {
        self.listener
    }

    /// Serves a connection in a task of its own and gives the permit back when it has ended.
    pub(crate) fn spawn(&self, stream: TcpStream, permit: OwnedSemaphorePermit) {
        // Answers are small and each is wanted at once.
        let _ = stream.set_nodelay(true);
        let (edge, listener, phase) = (Arc::clone(&self.edge), self.listener, self.phase.clone());
        let open = self.metrics.connection(listener);
        tokio::spawn(async move {
            serve(stream, edge, listener, phase).await;
            drop((open, permit));
        });
    }
}

async fn serve<S: ServedStore + 'static>(
    stream: TcpStream,
    edge: Arc<Edge<S>>,
    listener: Listener,
    phase: Phase,
) {
    let activity = Activity::default();
    let io = Watched::new(TokioIo::new(stream), activity.clone());
    let service = service_fn(|request| {
        let answering = activity.begin(request.version());
        let edge = Arc::clone(&edge);
        async move {
            let reply = edge.answer(listener, request).await;
            drop(answering);
            Ok::<_, Infallible>(reply)
        }
    });
    let builder = protocols();
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut tick = pin!(tokio::time::sleep(TICK));
    let mut watchdog = Watchdog::default();
    loop {
        tokio::select! {
            biased;
            served = connection.as_mut() => {
                if let Err(error) = served {
                    debug!(error, "connection failed");
                }
                return;
            }
            () = tick.as_mut() => match watchdog.tick(&activity, phase.is_draining()) {
                Judgement::Keep => {}
                Judgement::Close => connection.as_mut().graceful_shutdown(),
                Judgement::Cut => return,
            }
        }
        if tick.is_elapsed() {
            #[expect(clippy::disallowed_methods, reason = "a timer is set again; no decision depends on it")]
            tick.as_mut().reset(tokio::time::Instant::now() + TICK);
        }
    }
}

/// HTTP/1.1 and HTTP/2 with limits that keep one connection small.
fn protocols() -> auto::Builder<TokioExecutor> {
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
