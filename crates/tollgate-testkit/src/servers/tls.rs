//! Certificates for one test: an authority, a server, a client.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};

/// A certificate and its key, as PEM files.
#[derive(Debug, Clone)]
pub struct CertificateFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// An authority, and the certificates that it signed.
#[derive(Debug, Clone)]
pub struct Certificates {
    /// The authority's certificate, a PEM file.
    pub authority: PathBuf,
    /// The server, as `localhost` and `127.0.0.1`.
    pub server: CertificateFiles,
    /// A client that the server trusts.
    pub client: CertificateFiles,
}

impl CertificateFiles {
    /// Makes a certificate that is an authority and its own server, as `openssl req -x509` does, for this host and
    /// until the end of this year.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    #[must_use]
    pub fn self_signed(folder: &Path, name: &str, host: &str, last_year: i32) -> Self {
        let mut params = named("self-signed", &[host]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = date_time_ymd(last_year, 12, 31);
        let key = key();
        let certificate = params.self_signed(&key).expect("a certificate");
        Self {
            certificate: write(folder, &format!("{name}.crt"), &certificate.pem()),
            key: write(folder, &format!("{name}.key"), &key.serialize_pem()),
        }
    }
}

impl Certificates {
    /// Makes them and writes them into the folder.
    ///
    /// # Panics
    ///
    /// If they cannot be written.
    #[must_use]
    pub fn make(folder: &Path) -> Self {
        let mut params = named("authority", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, key()).expect("an authority");
        let issue = |name: &str, hosts: &[&str], purpose| {
            let mut params = named(name, hosts);
            params.extended_key_usages = vec![purpose];
            let key = key();
            let certificate = params.signed_by(&key, &issuer).expect("a certificate");
            CertificateFiles {
                certificate: write(folder, &format!("{name}.crt"), &certificate.pem()),
                key: write(folder, &format!("{name}.key"), &key.serialize_pem()),
            }
        };
        Self {
            authority: write(folder, "authority.crt", &issuer.pem()),
            server: issue("server", &["localhost", "127.0.0.1"], ExtendedKeyUsagePurpose::ServerAuth),
            client: issue("client", &["client"], ExtendedKeyUsagePurpose::ClientAuth),
        }
    }
}

/// For these hosts. OpenSSL takes a certificate that is named like its issuer for its own issuer.
fn named(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("names of hosts");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    path
}
