//! A connection to a management server: TCP, TLS if wanted, HTTP/2.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tonic::body::Body;
use tower_service::Service;

use super::settings::XdsServer;
use crate::net::protocol::ByteStream;

/// The time for a connection to open.
const OPEN_TIME: Duration = Duration::from_secs(10);

/// The time between two pings. Servers in Go close a connection that sends more than one ping in five minutes; TCP's
/// own probes notice a dead server sooner.
const PING_INTERVAL: Duration = Duration::from_secs(330);

/// The time for the answer to a ping.
const PING_TIME: Duration = Duration::from_secs(20);

/// The pause before and between TCP's probes of a silent server.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);

/// An open connection, which ends when it is dropped.
pub(super) struct XdsConnection {
    requests: SendRequest<Body>,
    driver: JoinHandle<()>,
}

/// A connection that did not open.
#[derive(Debug, Error)]
pub(super) enum ConnectError {
    #[error("no connection opened within {OPEN_TIME:?}")]
    Late,
    #[error("the server cannot be reached")]
    Unreachable(#[source] io::Error),
    #[error("the TLS handshake failed")]
    Handshake(#[source] io::Error),
    #[error("the server does not speak HTTP/2")]
    NotHttp2(#[source] hyper::Error),
    #[error("the server has closed the connection")]
    Closed,
}

/// A call without an answer of gRPC.
#[derive(Debug, Error)]
pub(super) enum CallError {
    #[error("the connection has failed")]
    Connection(#[source] hyper::Error),
    #[error("the server answers with {0}, not by gRPC")]
    NotGrpc(StatusCode),
}

/// A connection that notes when the server has sent something.
struct NotedStream<S> {
    stream: S,
    /// Dropped when the stream ends.
    first_bytes: Option<oneshot::Sender<()>>,
}

/// Opens a connection.
///
/// # Errors
///
/// If the server cannot be reached, cannot prove its name, does not speak HTTP/2, or takes too long.
pub(super) async fn open(server: &XdsServer) -> Result<XdsConnection, ConnectError> {
    tokio::time::timeout(OPEN_TIME, open_some_time(server)).await.unwrap_or(Err(ConnectError::Late))
}

async fn open_some_time(server: &XdsServer) -> Result<XdsConnection, ConnectError> {
    let stream = TcpStream::connect(server.authority.as_str()).await.map_err(ConnectError::Unreachable)?;
    stream.set_nodelay(true).map_err(ConnectError::Unreachable)?;
    let probes = TcpKeepalive::new().with_time(PROBE_INTERVAL).with_interval(PROBE_INTERVAL);
    SockRef::from(&stream).set_tcp_keepalive(&probes).map_err(ConnectError::Unreachable)?;
    let Some(certificates) = &server.certificates else { return speak_http2(stream).await };
    let connector = TlsConnector::from(Arc::clone(certificates).config().await);
    let stream = connector.connect(certificates.server_name(), stream).await;
    speak_http2(stream.map_err(ConnectError::Handshake)?).await
}

async fn speak_http2(stream: impl ByteStream) -> Result<XdsConnection, ConnectError> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIME);
    let (first_bytes, answered) = oneshot::channel();
    let stream = NotedStream { stream, first_bytes: Some(first_bytes) };
    let (requests, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(ConnectError::NotHttp2)?;
    let (ended, end) = oneshot::channel();
    // Its error reaches the call as well.
    let driver = tokio::spawn(async move { drop(ended.send(connection.await)) });
    let connection = XdsConnection { requests, driver };
    // hyper does not wait for the settings that each server sends first, and whatever listens accepts a connection. In
    // TLS 1.3, a server that refuses our certificate says so here.
    if answered.await.is_ok() {
        return Ok(connection);
    }
    Err(match end.await {
        Ok(Err(error)) => ConnectError::NotHttp2(error),
        Ok(Ok(())) | Err(_) => ConnectError::Closed,
    })
}

impl<S: AsyncRead + Unpin> AsyncRead for NotedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if buffer.filled().len() > before
            && let Some(first_bytes) = this.first_bytes.take()
        {
            let _ = first_bytes.send(());
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for NotedStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl Drop for XdsConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Service<Request<Body>> for XdsConnection {
    type Response = Response<Incoming>;

    type Error = CallError;

    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, CallError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        self.requests.poll_ready(context).map_err(CallError::Connection)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answered = self.requests.send_request(request);
        Box::pin(async move {
            let response = answered.await.map_err(CallError::Connection)?;
            let content_type = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
            // Other servers' pages would be read as messages.
            if !content_type.is_some_and(|value| value.starts_with(b"application/grpc")) {
                return Err(CallError::NotGrpc(response.status()));
            }
            Ok(response)
        })
    }
}
