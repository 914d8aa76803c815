//! The protocols of connections.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::access::peer::ConnectionPeer;
use crate::net::drain::Phase;
use crate::tls::Alpn;

/// A protocol, and the service behind it.
///
/// It is independent of sockets and the number of connections. So TLS, the cap on connections and the drain work in the
/// same way for every protocol.
pub(crate) trait Protocol: Send + Sync + 'static {
    /// The protocols that TLS may agree on.
    const ALPN: Alpn = Alpn::Http;

    /// Serves one connection with this peer until it ends. During a drain, the connection ends after the answers to the
    /// requests that have arrived; [`watch`](crate::net::timeouts::watch) does that, and cuts inactive connections.
    fn serve<I: ByteStream>(
        self: Arc<Self>,
        stream: I,
        peer: ConnectionPeer,
        phase: Phase,
    ) -> impl Future<Output = ()> + Send;
}

/// The bytes of a connection.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> ByteStream for I {}
