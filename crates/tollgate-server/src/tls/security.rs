//! The protection of the connections of a listener.

/// The protection of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Security {
    /// Plain TCP.
    Plain,
    /// TLS: the service shows a certificate.
    Tls,
    /// TLS, and each client shows a certificate of a trusted authority.
    Mutual,
}
