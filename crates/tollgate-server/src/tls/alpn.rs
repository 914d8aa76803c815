//! The choice of a protocol in the handshake.

/// The protocols that a client can choose in the handshake of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alpn {
    /// HTTP/1.1, HTTP/2, or none.
    Http,
    /// HTTP/2 alone.
    Http2,
}
