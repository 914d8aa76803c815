//! What is spoken on connections.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::caller::Peer;
use crate::phase::Phase;

/// A protocol, and what it answers with.
///
/// It knows neither sockets nor how many connections there are, so that it makes no difference to it whether they are
/// encrypted, and the cap on them and the drain hold for every protocol.
pub(crate) trait Protocol: Send + Sync + 'static {
    /// The only protocol that TLS may agree on, if there is one alone.
    const ALPN: Option<&'static [u8]> = None;

    /// Serves one connection with this peer until it ends. When the service drains, it ends as soon as what was asked is answered;
    /// [`watch`](crate::watchdog::watch) sees to that, and cuts those that hold a place and do nothing.
    fn serve<I: Stream>(
        self: Arc<Self>,
        stream: I,
        peer: Peer,
        phase: Phase,
    ) -> impl Future<Output = ()> + Send;
}

/// The bytes of a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for I {}
