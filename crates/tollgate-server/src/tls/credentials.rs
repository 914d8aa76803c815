//! The credentials of listeners: the certificate of the service, and the authorities of its clients.

use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, RootCertStore};
use thiserror::Error;
use tollgate::Timestamp;

use super::alpn::Alpn;
use super::certificate;
use super::files::{PemFile, TlsReading};
use super::named_client_verifier::NamedClientVerifier;

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// See the [module](self).
pub(crate) struct Credentials {
    /// For listeners that need no client certificate.
    pub(super) open: Configs,
    /// For all others: demands a certificate from each client, if authorities are configured.
    pub(super) demanding: Configs,
    /// When the service's certificate expires.
    pub(super) expiry: Timestamp,
}

/// The configurations for connections, one for each choice of protocols. They share their sessions.
#[derive(Clone)]
pub(super) struct Configs {
    http: Arc<ServerConfig>,
    http2: Arc<ServerConfig>,
}

/// An error in a file of certificates or keys. The fault of its author.
#[derive(Debug, Error)]
#[error("{}: {fault}", path.display())]
pub struct TlsFileError {
    /// The flag that names the file.
    pub(crate) flag: &'static str,
    path: Box<Path>,
    fault: PemFault,
}

#[derive(Debug)]
enum PemFault {
    Unreadable(io::Error),
    /// The file contains nothing of this kind.
    Missing(&'static str),
    Encrypted,
    BadPem,
    /// The key belongs to another certificate than the one in the file.
    OtherKey(Box<Path>),
    Unfit(rustls::Error),
    UnfitAuthorities(rustls::client::VerifierBuilderError),
}

impl Credentials {
    /// Builds the credentials from these files.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, does not contain the expected data, or does not match another.
    pub(super) fn new(reading: &TlsReading) -> Result<Self, TlsFileError> {
        // Passed explicitly, because a library must not set the process-wide default.
        let provider = Arc::new(ring::default_provider());
        let TlsReading { certificate, key, client_authorities, client_name } = reading;
        let bad_certificate = |fault| TlsFileError::new("--tls-cert", certificate, fault);
        let chain = certificates(certificate).map_err(bad_certificate)?;
        let expiry = chain.first().and_then(certificate::expiry);
        let expiry = expiry
            .ok_or_else(|| bad_certificate(PemFault::Unfit(rustls::CertificateError::BadEncoding.into())))?;
        let bad_key = |fault| TlsFileError::new("--tls-key", key, fault);
        let private_key = private_key(key).map_err(bad_key)?;
        let identity =
            CertifiedKey::from_der(chain, private_key, &provider).map_err(|error| match error {
                rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    bad_key(PemFault::OtherKey(certificate.path.clone()))
                }
                error @ rustls::Error::InvalidCertificate(_) => bad_certificate(PemFault::Unfit(error)),
                error => bad_key(PemFault::Unfit(error)),
            })?;
        let verifier = match client_authorities {
            Some(authorities) => verifier(authorities, client_name.clone(), &provider)
                .map(Some)
                .map_err(|fault| TlsFileError::new("--tls-client-ca", authorities, fault))?,
            None => None,
        };
        let identity = Arc::new(SingleCertAndKey::from(identity));
        let config = |verifier| config(Arc::clone(&identity), verifier, Arc::clone(&provider));
        let configs = config(None).and_then(|open| {
            let open = Configs::new(&open);
            let demanding = verifier.map(|verifier| config(Some(verifier))).transpose()?;
            Ok((open.clone(), demanding.as_ref().map_or(open, Configs::new)))
        });
        let (open, demanding) = configs.map_err(|error| bad_certificate(PemFault::Unfit(error)))?;
        Ok(Self { open, demanding, expiry })
    }
}

impl Configs {
    fn new(config: &ServerConfig) -> Self {
        let with = |protocols: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            Arc::new(config)
        };
        Self { http: with(&[HTTP2, HTTP1]), http2: with(&[HTTP2]) }
    }

    pub(super) fn of(&self, alpn: Alpn) -> Arc<ServerConfig> {
        Arc::clone(match alpn {
            Alpn::Http => &self.http,
            Alpn::Http2 => &self.http2,
        })
    }
}

fn config(
    identity: Arc<SingleCertAndKey>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let is_mutual = verifier.is_some();
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(identity);
    if is_mutual {
        // A resumed session would rely on what was verified when it began. Every connection must show its certificate.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(config)
}

fn certificates(file: &PemFile) -> Result<Vec<CertificateDer<'static>>, PemFault> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(file.bytes()?).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(PemFault::Missing("certificate")),
        certificates => certificates.map_err(|_| PemFault::BadPem),
    }
}

fn private_key(file: &PemFile) -> Result<PrivateKeyDer<'static>, PemFault> {
    let bytes = file.bytes()?;
    let is_encrypted = || bytes.windows(9).any(|window| window == b"ENCRYPTED");
    PrivateKeyDer::from_pem_slice(bytes).map_err(|error| match error {
        pem::Error::NoItemsFound if is_encrypted() => PemFault::Encrypted,
        pem::Error::NoItemsFound => PemFault::Missing("private key"),
        // The error may quote text that is part of the key.
        _ => PemFault::BadPem,
    })
}

fn verifier(
    file: &PemFile,
    name: Option<ServerName<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, PemFault> {
    let mut authorities = RootCertStore::empty();
    for authority in certificates(file)? {
        authorities.add(authority).map_err(PemFault::Unfit)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(provider))
        .build()
        .map_err(PemFault::UnfitAuthorities)?;
    Ok(match name {
        None => verifier,
        Some(name) => Arc::new(NamedClientVerifier::new(verifier, name)),
    })
}

impl PemFile {
    fn bytes(&self) -> Result<&[u8], PemFault> {
        // `io::Error` is not `Clone`; its kind and its text are.
        self.bytes
            .as_deref()
            .map_err(|error| PemFault::Unreadable(io::Error::new(error.kind(), error.to_string())))
    }
}

impl TlsFileError {
    fn new(flag: &'static str, file: &PemFile, fault: PemFault) -> Self {
        Self { flag, path: file.path.clone(), fault }
    }
}

impl fmt::Display for PemFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::Missing(what) => write!(f, "it contains no {what} in PEM format"),
            Self::Encrypted => f.write_str(
                "its private key is encrypted: remove the password, for example with `openssl pkey`",
            ),
            Self::BadPem => f.write_str("its PEM is damaged, or ends too early"),
            Self::OtherKey(certificate) => {
                write!(f, "it is not the key of the first certificate in {}", certificate.display())
            }
            Self::Unfit(error) => error.fmt(f),
            Self::UnfitAuthorities(error) => error.fmt(f),
        }
    }
}
