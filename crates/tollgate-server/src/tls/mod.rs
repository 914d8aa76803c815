//! TLS on the listeners: whom they are, whom they let in, and how that stays so while certificates are renewed.
//!
//! `files` says where certificates and keys are, `credentials` is what is made of them, `live` keeps it in step with
//! the files, and `handshake` is the start of a connection. What a certificate says is read in `certificate`. Protocols
//! know nothing of it: they are given a stream and its peer.

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
