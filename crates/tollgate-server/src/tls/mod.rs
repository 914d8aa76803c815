//! TLS on the listeners: the service's identity, its clients' identities, and the renewal of certificates.
//!
//! `files` names the certificates and keys, `credentials` is built from them, `live` keeps it in step with the files,
//! and `handshake` starts a connection. `certificate` reads the contents of a certificate. Protocols are independent of
//! TLS: they receive a stream and its peer.

mod certificate;
mod credentials;
mod files;
mod handshake;
mod live;

pub(crate) use self::certificate::shown as shown_name;
pub use self::credentials::TlsFileError;
pub(crate) use self::files::TlsFiles;
pub(crate) use self::handshake::{ListenerTls, Refusal};
pub(crate) use self::live::ServerTls;
