//! TLS on the listeners: the service's identity, its clients' identities, and the renewal of certificates.
//!
//! `files` names the certificates and keys, `credentials` is built from them, and `live` keeps it in step with the
//! files. `certificate` reads the contents of a certificate. `net::handshake` starts a connection. Protocols are
//! independent of TLS: they receive a stream and its peer.

mod alpn;
mod certificate;
mod credentials;
mod files;
mod handshake_failure;
mod live;
mod named_client_verifier;
mod security;

pub(crate) use self::alpn::Alpn;
pub(crate) use self::certificate::{names as certificate_names, shown as shown_name};
pub use self::credentials::TlsFileError;
pub(crate) use self::files::{TlsFiles, TlsReading};
pub(crate) use self::handshake_failure::HandshakeFailure;
pub(crate) use self::live::ServerTls;
pub(crate) use self::security::Security;
