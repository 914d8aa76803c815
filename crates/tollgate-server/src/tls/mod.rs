//! TLS on the listeners: who the service is, whom it lets in, and how certificates are renewed.
//!
//! `files` names the certificates and keys, `credentials` is built from them, `live` keeps it in step with the files,
//! and `handshake` starts a connection. `certificate` reads what a certificate says. Protocols do not know about TLS:
//! they get a stream and its peer.

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
