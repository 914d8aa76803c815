//! Servers that show a self-signed certificate.
//!
//! `openssl req -x509` makes an authority that is its own server. With this file as `--store-ca`, redis-cli connected,
//! and the store refused: `CaUsedAsEndEntity`.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ProtocolVersion, ServerConfig, crypto, version};
use tokio::io::duplex;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tollgate_redis::Tls;
use tollgate_testkit::servers::{CertificateFiles, ClientCertificates, Settings, Software};

use crate::support::{Caller, patient_builder};

/// Shows this certificate, and signs with this key, which need not fit it.
#[derive(Debug)]
struct Shows(Arc<CertifiedKey>);

impl ResolvesServerCert for Shows {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// What a client that trusts this file says of a server named `localhost` that shows this certificate.
async fn verdict(
    trusted: &Path,
    certificate: &Path,
    key: &Path,
    version: ProtocolVersion,
) -> Option<rustls::Error> {
    let client = Tls::new().with_ca_file(trusted).unwrap().config().unwrap();
    let provider = Arc::new(crypto::ring::default_provider());
    let key = provider.key_provider.load_private_key(PrivateKeyDer::from_pem_file(key).unwrap()).unwrap();
    let shown = vec![CertificateDer::from_pem_file(certificate).unwrap()];
    let versions = match version {
        ProtocolVersion::TLSv1_2 => &version::TLS12,
        _ => &version::TLS13,
    };
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[versions])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Shows(Arc::new(CertifiedKey::new(shown, key)))));
    let (near, far) = duplex(1 << 16);
    let accepted = tokio::spawn(async move { TlsAcceptor::from(Arc::new(server)).accept(far).await });
    let name = ServerName::try_from("localhost").unwrap();
    let connected = TlsConnector::from(Arc::new(client)).connect(name, near).await;
    accepted.abort();
    connected.err().map(|error| error.get_ref().unwrap().downcast_ref::<rustls::Error>().unwrap().clone())
}

#[tokio::test]
async fn a_self_signed_certificate_is_trusted_if_it_is_given_and_its_name_dates_and_key_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, host: &str, last_year| {
        CertificateFiles::self_signed(folder.path(), name, host, last_year)
    };
    let (right, same_name) = (make("right", "localhost", 2500), make("same-name", "localhost", 2500));
    let (other_host, expired) =
        (make("other-host", "other.example", 2500), make("expired", "localhost", 2020));
    for version in [ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3] {
        let shows = async |trusted: &CertificateFiles, shown: &CertificateFiles, key: &CertificateFiles| {
            verdict(&trusted.certificate, &shown.certificate, &key.key, version).await
        };
        assert_eq!(shows(&right, &right, &right).await, None);
        let refused =
            async |trusted: &CertificateFiles, shown: &CertificateFiles, key: &CertificateFiles| match shows(
                trusted, shown, key,
            )
            .await
            {
                Some(rustls::Error::InvalidCertificate(error)) => error,
                other => panic!("{other:?}"),
            };
        let other_host_error = refused(&other_host, &other_host, &other_host).await;
        assert!(
            matches!(other_host_error, CertificateError::NotValidForNameContext { .. }),
            "{other_host_error:?}"
        );
        let expiry_error = refused(&expired, &expired, &expired).await;
        assert!(matches!(expiry_error, CertificateError::ExpiredContext { .. }), "{expiry_error:?}");
        let same_name_error = refused(&right, &same_name, &same_name).await;
        assert!(format!("{same_name_error:?}").contains("CaUsedAsEndEntity"), "{same_name_error:?}");
        assert_eq!(refused(&right, &right, &same_name).await, CertificateError::BadSignature);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_counts_with_its_self_signed_certificate() {
    let server = Settings::new(Software::Redis).tls(ClientCertificates::Ignored).start();
    let folder = tempfile::tempdir().unwrap();
    let own = CertificateFiles::self_signed(folder.path(), "own", "127.0.0.1", 2500);
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (certificate, key) = (path(&own.certificate), path(&own.key));
    server.command::<()>(["CONFIG", "SET", "tls-cert-file", &certificate, "tls-key-file", &key]);
    let tls = Tls::new().with_ca_file(&own.certificate).unwrap();
    let caller = Caller::new(patient_builder(&format!("rediss://{}", server.tls_address())).tls(tls));
    caller.until_served("alice").await;
}
