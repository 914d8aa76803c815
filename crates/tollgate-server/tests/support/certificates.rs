//! Certificates for a test: authorities, servers and clients.

#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(clippy::expect_used, reason = "this is a test")]

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tollgate_redis::Tls;

use crate::support::HANG;

/// An authority, and the PEM file of its certificate.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub(crate) file: PathBuf,
}

/// A certificate and its key, as PEM files.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, key()).expect("an authority");
        let file = write(folder, &format!("{name}.crt"), &issuer.pem());
        Self { issuer, file }
    }

    /// Issues a certificate for this machine.
    pub(crate) fn server(&self, folder: &Path, name: &str) -> Identity {
        self.issue(folder, name, |params| {
            let localhost = SanType::DnsName("localhost".try_into().expect("a name"));
            params.subject_alt_names =
                vec![localhost, SanType::IpAddress("127.0.0.1".parse().expect("an address"))];
        })
    }

    pub(crate) fn issue(
        &self,
        folder: &Path,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let mut params = params(name);
        change(&mut params);
        let key = key();
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let certificate = write(folder, &format!("{name}.crt"), &certificate.pem());
        Identity { certificate, key: write(folder, &format!("{name}.key"), &key.serialize_pem()) }
    }
}

/// A client that trusts one authority.
#[derive(Clone)]
pub(crate) struct Client(pub(crate) Arc<ClientConfig>);

pub(crate) type TlsConnection = StreamOwned<ClientConnection, TcpStream>;

impl Client {
    pub(crate) fn new(authority: &Authority, shows: Option<&Identity>) -> Self {
        let mut tls = Tls::new().with_ca_file(&authority.file).expect("an authority");
        if let Some(Identity { certificate, key }) = shows {
            tls = tls.with_client_files(certificate, key).expect("a certificate");
        }
        Self(Arc::new(tls.config().expect("they fit")))
    }

    pub(crate) fn open(&self, address: SocketAddr) -> io::Result<TlsConnection> {
        let name = ServerName::from(address.ip());
        let session = ClientConnection::new(Arc::clone(&self.0), name).map_err(io::Error::other)?;
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(HANG))?;
        Ok(StreamOwned::new(session, stream))
    }

    /// Sends one request on a new connection. Returns the status and the whole answer. The request has to announce that
    /// it is the last.
    pub(crate) fn ask(&self, address: SocketAddr, request: &[u8]) -> io::Result<(u16, String)> {
        let mut stream = self.open(address)?;
        stream.write_all(request)?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        let status = reply.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok((status.ok_or_else(|| io::Error::other(reply.clone()))?, reply))
    }

    pub(crate) fn get(&self, address: SocketAddr, path: &str) -> io::Result<(u16, String)> {
        let head = "Host: localhost\r\nConnection: close";
        self.ask(address, format!("GET {path} HTTP/1.1\r\n{head}\r\n\r\n").as_bytes())
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([]).expect("no names");
    // OpenSSL takes a certificate that is named like its issuer for its own issuer.
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("a file");
    path
}
