//! The floors of `http`: a bare hyper server that reads the body and answers `hello`, or with an answer of the service.
//! It has the service's allocator and its settings of hyper and rustls, so the difference is the service's own work.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<()> {
    let usage = "usage: hello ADDRESS ANSWER [CERTIFICATE KEY]";
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().context(usage)?.parse()?;
    let answer = answer(&arguments.next().context(usage)?)?;
    let tls = match arguments.next() {
        Some(certificate) => Some(tls(&certificate, &arguments.next().context(usage)?)?),
        None => None,
    };
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        match tls.clone() {
            None => drop(tokio::spawn(serve(stream, answer.clone()))),
            Some(tls) => {
                let answer = answer.clone();
                tokio::spawn(async move {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, answer).await;
                    }
                });
            }
        }
    }
}

async fn serve<I: AsyncRead + AsyncWrite + Unpin>(stream: I, answer: Response<Full<Bytes>>) {
    let mut builder = http1::Builder::new();
    // As in the service's `http/connection.rs`.
    builder.header_read_timeout(None).half_close(true).max_buf_size(32 * 1024).writev(false);
    // An error is a client that has gone.
    let service = service_fn(|request: Request<Incoming>| {
        let answer = answer.clone();
        async {
            let _body = request.into_body().collect().await;
            Ok::<_, Infallible>(answer)
        }
    });
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn tls(certificate: &str, key: &str) -> Result<TlsAcceptor> {
    let certificate = CertificateDer::from_pem_file(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    Ok(Arc::new(builder.with_single_cert(vec![certificate], key)?).into())
}

/// Returns the answer with this text: lines of headers, an empty line and the body, or the body alone.
fn answer(text: &str) -> Result<Response<Full<Bytes>>> {
    let (headers, body) = text.split_once("\r\n\r\n").unwrap_or(("", text));
    let mut answer = Response::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    for header in headers.lines() {
        let (name, value) = header.split_once(": ").with_context(|| format!("no header: {header}"))?;
        answer.headers_mut().insert(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
    }
    Ok(answer)
}
