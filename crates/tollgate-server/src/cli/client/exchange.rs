//! One request to the service, and its answer.

use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig};
use serde::Serialize;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tollgate_redis::{SmallFile, Tls};

use super::error::{ClientError, TIME_LIMIT};
use crate::args::{ClientTlsArgs, ServiceAddress};
use crate::cli::output;
use crate::net::protocol::ByteStream;
use crate::observe::secret_file::public_mode;

/// Far more than any decision.
const MAX_ANSWER: usize = 1024 * 1024;

/// A service that requests are sent to.
#[derive(Debug, Clone)]
pub(in crate::cli) struct ServiceClient {
    server: ServiceAddress,
    /// The address to connect to, if it was looked up before.
    address: Option<SocketAddr>,
    /// The trusted authorities and our certificate; `None` for a service without TLS.
    tls: Option<Arc<ClientConfig>>,
    /// The time for an exchange.
    limit: Duration,
}

impl ServiceClient {
    /// Reads the certificates, if the service has TLS.
    ///
    /// # Errors
    ///
    /// If a certificate cannot be used, or needs none.
    pub(in crate::cli) fn new(server: &ServiceAddress, args: &ClientTlsArgs) -> Result<Self, ClientError> {
        Ok(Self { server: server.clone(), address: None, tls: tls(args, server)?, limit: TIME_LIMIT })
    }

    /// Returns the same service at one of the addresses of its name.
    pub(in crate::cli) fn at(&self, address: SocketAddr) -> Self {
        Self { address: Some(address), ..self.clone() }
    }

    /// Returns the same service, with at most this time for an exchange.
    pub(in crate::cli) fn within(self, limit: Duration) -> Self {
        Self { limit: limit.min(self.limit), ..self }
    }

    /// Sends a body to this path of the service, with the token in this file.
    pub(in crate::cli) async fn post(
        &self,
        path: &'static str,
        token_file: Option<&Path>,
        body: &impl Serialize,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let mut request = json_request(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static(path);
        self.send(request, token_file).await
    }

    /// Sends a request with the token in this file.
    pub(in crate::cli) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        token_file: Option<&Path>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let authorization = token_file.map(authorization).transpose()?;
        request.headers_mut().extend(authorization.map(|value| (AUTHORIZATION, value)));
        self.ask(request).await
    }

    /// Gets what is at this path of the service, without a token.
    pub(in crate::cli) async fn get(&self, path: &'static str) -> Result<(StatusCode, Bytes), ClientError> {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = Uri::from_static(path);
        self.ask(request).await
    }

    async fn ask(&self, mut request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), ClientError> {
        // The admin listener answers under addresses, and only under some names.
        let (host, server) = match (&self.server, self.address) {
            (ServiceAddress::Url(url), None) => (url.authority.to_string(), url.to_string()),
            (ServiceAddress::Url(url), Some(address)) => {
                (address.to_string(), format!("{}://{address}", url.scheme()))
            }
            (ServiceAddress::Unix(path), _) => ("localhost".to_owned(), path.to_string()),
        };
        if let Ok(host) = host.parse() {
            request.headers_mut().insert(HOST, host);
        }
        let exchanged = tokio::time::timeout(self.limit, self.exchange(request, &server)).await;
        exchanged.map_err(|_| ClientError::Timeout { server, limit: self.limit }).flatten()
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        server: &str,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let unreachable = |source| ClientError::Unreachable { server: server.to_owned(), source };
        let authority = match &self.server {
            ServiceAddress::Url(url) => &url.authority,
            ServiceAddress::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(unreachable)?;
                return converse(request, server, stream).await;
            }
        };
        let connected = match self.address {
            None => TcpStream::connect(authority.as_str()).await,
            Some(address) => TcpStream::connect(address).await,
        };
        let stream = connected.map_err(unreachable)?;
        let Some(tls) = self.tls.clone() else { return converse(request, server, stream).await };
        let insecure = |source: io::Error| {
            let server = server.to_owned();
            match tls_error(&source) {
                Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                    ClientError::UnknownAuthority { server }
                }
                _ => ClientError::Insecure { server, source },
            }
        };
        let name = ServerName::try_from(authority.host().trim_matches(['[', ']']).to_owned())
            .map_err(|error| insecure(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
        let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(insecure)?;
        converse(request, server, stream).await
    }
}

/// Returns a request with this body.
pub(in crate::cli) fn json_request(body: &impl Serialize) -> Request<Full<Bytes>> {
    // This cannot fail: all keys are texts.
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut request = Request::new(Full::new(Bytes::from(body)));
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request
}

/// Returns the trusted authorities and our certificate; `None` for a service without TLS.
fn tls(args: &ClientTlsArgs, server: &ServiceAddress) -> Result<Option<Arc<ClientConfig>>, ClientError> {
    let ClientTlsArgs { ca, client_cert, client_key } = args;
    if !server.has_tls() {
        return match (ca, client_cert) {
            (None, None) => Ok(None),
            _ => Err(ClientError::NeedlessCertificate { server: server.to_string() }),
        };
    }
    let mut tls = Tls::new();
    if let Some(ca) = ca {
        tls = tls.with_ca_file(ca)?;
    }
    if let (Some(certificate), Some(key)) = (client_cert, client_key) {
        tls = tls.with_client_files(certificate, key)?;
    }
    Ok(Some(Arc::new(tls.config()?)))
}

/// Returns the error of TLS, if that failed.
fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Sends the request over an open connection.
async fn converse(
    request: Request<Full<Bytes>>,
    server: &str,
    stream: impl ByteStream,
) -> Result<(StatusCode, Bytes), ClientError> {
    let broken = |source: hyper::Error| {
        let server = server.to_owned();
        // With TLS 1.3, the service only reports this after the client takes the connection for open.
        let tls = source.source().and_then(|source| source.downcast_ref()).and_then(tls_error);
        if source.is_parse() {
            ClientError::NotHttp { server, source }
        } else if let Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)) = tls {
            ClientError::NoCertificate { server }
        } else {
            ClientError::Broken { server, source }
        }
    };

    let (mut requests, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // It drives the exchange; its errors reach the request as well.
    let driver = tokio::spawn(connection);
    let response = requests.send_request(request).await.map_err(broken)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|error| {
        let detail = format!("the answer was cut off or too long: {error}");
        ClientError::Unexpected { server: server.to_owned(), status, detail }
    })?;
    driver.abort();
    Ok((status, body.to_bytes()))
}

/// Returns the header with the token in this file.
fn authorization(path: &Path) -> Result<HeaderValue, ClientError> {
    let unreadable = |source| ClientError::TokenFile { path: path.into(), source };
    let SmallFile { bytes, metadata, .. } =
        SmallFile::read(path, SmallFile::MOST_SECRET_BYTES).map_err(unreadable)?;
    if let Some(mode) = public_mode(&metadata) {
        let file = path.display();
        output::complain(format_args!(
            "warning: every user of this machine can read the token in {file} (its mode is {mode:o}): run `chmod 600 {file}`"
        ));
    }
    let token = bytes.trim_ascii();
    let is_token = !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
    let value = HeaderValue::from_bytes(&[b"Bearer ", token].concat()).ok().filter(|_| is_token);
    let mut value = value.ok_or_else(|| ClientError::NoToken { path: path.into() })?;
    value.set_sensitive(true);
    Ok(value)
}
