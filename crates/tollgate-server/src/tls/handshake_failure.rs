//! The reasons of failed handshakes.

use std::io;

/// Why a handshake failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeFailure {
    /// The client closed the connection, or it broke. Load balancers probe listeners in this way.
    Gone,
    /// It took too long.
    Timeout,
    /// The client does not speak TLS.
    Plain,
    /// The client showed no certificate, or an invalid one.
    Certificate,
    /// The client supports none of our versions or ciphers, rejects our certificate, or violates the protocol.
    Protocol,
}

impl HandshakeFailure {
    pub(crate) const ALL: [Self; 5] =
        [Self::Gone, Self::Timeout, Self::Plain, Self::Certificate, Self::Protocol];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Timeout => "timeout",
            Self::Plain => "plain",
            Self::Certificate => "certificate",
            Self::Protocol => "protocol",
        }
    }

    pub(crate) fn of(error: &io::Error) -> Self {
        let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) else {
            return Self::Gone;
        };
        match error {
            rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_) => {
                Self::Certificate
            }
            _ => Self::Protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::CertificateError;

    use super::*;

    #[test]
    fn tells_certificate_errors_from_others() {
        let of =
            |error: rustls::Error| HandshakeFailure::of(&io::Error::new(io::ErrorKind::InvalidData, error));
        assert_eq!(of(CertificateError::Expired.into()), HandshakeFailure::Certificate);
        assert_eq!(of(rustls::Error::NoCertificatesPresented), HandshakeFailure::Certificate);
        assert_eq!(of(rustls::Error::HandshakeNotComplete), HandshakeFailure::Protocol);
        assert_eq!(HandshakeFailure::of(&io::ErrorKind::UnexpectedEof.into()), HandshakeFailure::Gone);
    }
}
