//! The certificates of TLS connections.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::{ClientConfig, RootCertStore, crypto};
use thiserror::Error;

use crate::server_verifier::ServerVerifier;
use crate::small_file::SmallFile;

/// The certificates of TLS connections. By default, connections trust the system's certificates and show none.
///
/// Each new connection of a store reads the files again, so that certificates can be replaced while it is used. While
/// files cannot be read, or do not match each other, their last contents are used.
///
/// # Examples
///
/// ```no_run
/// use tollgate_redis::Tls;
///
/// let tls = Tls::new().with_ca_file("ca.pem")?.with_client_files("client.pem", "client.key")?;
/// # Ok::<(), tollgate_redis::TlsError>(())
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct Tls {
    ca: Option<Authorities>,
    client: Option<ClientFiles>,
}

#[derive(Clone, PartialEq)]
struct Authorities {
    file: Box<Path>,
    certificates: Vec<CertificateDer<'static>>,
}

#[derive(Clone, PartialEq)]
struct ClientFiles {
    certificate_file: Box<Path>,
    key_file: Box<Path>,
    certificates: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
}

/// An invalid certificate or key. The fault of the configuration.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file's name.
        path: Box<Path>,
        /// The system's error.
        source: io::Error,
    },
    /// A file does not hold the expected PEM.
    #[error("{path} holds no {what} in PEM")]
    Pem {
        /// The file's name.
        path: Box<Path>,
        /// The expected contents.
        what: &'static str,
        /// The error in the text.
        source: pem::Error,
    },
    /// The system has no trusted certificates, and none was given.
    #[error("the system has no trusted certificates: configure the one that signed the server's")]
    NobodyTrusted,
    /// The certificates to trust cannot be used.
    #[error("the certificates to trust cannot be used")]
    Trusted(#[from] VerifierBuilderError),
    /// A certificate or key cannot be used for TLS.
    #[error("a certificate or key cannot be used")]
    Unfit(#[from] rustls::Error),
}

impl Tls {
    /// Trusts the system's certificates and shows none.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the certificates in this PEM file, and none of the system's: servers that they have signed, and a server
    /// whose own certificate is among them, such as one of `openssl req -x509`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or holds no certificate.
    pub fn with_ca_file(self, path: impl AsRef<Path>) -> Result<Self, TlsError> {
        let file = path.as_ref();
        let ca = Authorities { file: file.into(), certificates: certificates(file)? };
        Ok(Self { ca: Some(ca), ..self })
    }

    /// Shows the certificate chain in the first PEM file, with the key in the second.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or does not contain the expected data.
    pub fn with_client_files(
        self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, TlsError> {
        let (certificate_file, key_file) = (certificate.as_ref(), key.as_ref());
        let certificates = certificates(certificate_file)?;
        let key = PrivateKeyDer::from_pem_slice(&read(key_file)?).map_err(|source| TlsError::Pem {
            path: key_file.into(),
            what: "private key",
            source,
        })?;
        let client = ClientFiles {
            certificate_file: certificate_file.into(),
            key_file: key_file.into(),
            certificates,
            key: Arc::new(key),
        };
        Ok(Self { client: Some(client), ..self })
    }

    /// The same with the certificates to trust that their file holds now.
    ///
    /// # Errors
    ///
    /// The same as [`with_ca_file`](Self::with_ca_file).
    pub(crate) fn with_ca_again(self) -> Result<Self, TlsError> {
        match self.ca.as_ref().map(|ca| ca.file.clone()) {
            Some(file) => self.with_ca_file(file),
            None => Ok(self),
        }
    }

    /// The same with the certificate and the key that their files hold now.
    ///
    /// # Errors
    ///
    /// The same as [`with_client_files`](Self::with_client_files).
    pub(crate) fn with_client_again(self) -> Result<Self, TlsError> {
        match self.client.as_ref().map(|client| (client.certificate_file.clone(), client.key_file.clone())) {
            Some((certificate, key)) => self.with_client_files(certificate, key),
            None => Ok(self),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ca.is_none() && self.client.is_none()
    }

    /// Returns the configuration of TLS connections.
    ///
    /// # Errors
    ///
    /// If there is no trusted certificate, or a certificate or key cannot be used.
    pub fn config(&self) -> Result<ClientConfig, TlsError> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(ca) => ca.certificates.iter().try_for_each(|certificate| roots.add(certificate.clone()))?,
            None => {
                // Some of the system's certificates are malformed; the others suffice.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            return Err(TlsError::NobodyTrusted);
        }
        // Explicit, because a library must not set the process-wide default.
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let config = match &self.ca {
            Some(ca) => {
                let authorities =
                    WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build()?;
                let verifier = ServerVerifier::new(authorities, ca.certificates.clone());
                config.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
            None => config.with_root_certificates(roots),
        };
        Ok(match &self.client {
            Some(client) => {
                config.with_client_auth_cert(client.certificates.clone(), client.key.clone_key())?
            }
            None => config.with_no_client_auth(),
        })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unfit = |source| TlsError::Pem { path: path.into(), what: "certificate", source };
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(&read(path)?).collect::<Result<_, _>>().map_err(unfit)?;
    if certificates.is_empty() { Err(unfit(pem::Error::NoItemsFound)) } else { Ok(certificates) }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let file = SmallFile::read(path, SmallFile::MOST_PEM_BYTES);
    file.map(|file| file.bytes).map_err(|source| TlsError::File { path: path.into(), source })
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ca =
            self.ca.as_ref().map_or("the system's".into(), |ca| format!("{} given", ca.certificates.len()));
        let client = if self.client.is_some() { "shown" } else { "none" };
        write!(f, "Tls(certificates trusted: {ca}, our own: {client})")
    }
}
