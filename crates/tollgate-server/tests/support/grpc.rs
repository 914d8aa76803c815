//! A gRPC client on one connection.

#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(clippy::expect_used, reason = "this is a test")]

/// The generated messages. `cargo xtask prove gateway` tests the service with a client of others.
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "they are generated")]
#[path = "../../src/grpc/messages/mod.rs"]
pub(crate) mod messages;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::CompressionEncoding;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use self::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use self::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
pub(crate) use self::messages::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use crate::support::Server;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

pub(crate) const OK: i32 = 1;
pub(crate) const OVER_LIMIT: i32 = 2;

/// One connection, as tonic's clients use it.
#[derive(Clone)]
pub(crate) struct Wire(SendRequest<Body>);

impl Wire {
    pub(crate) async fn open(server: &Server) -> Self {
        let stream = TcpStream::connect(address(server)).await.expect("the server listens");
        stream.set_nodelay(true).expect("an option of TCP");
        Self::of(stream).await
    }

    pub(crate) async fn open_tls(server: &Server, tls: &Arc<ClientConfig>) -> std::io::Result<Self> {
        let mut config = (**tls).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(address(server)).await?;
        let name = ServerName::from(address(server).ip());
        Ok(Self::of(tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await?).await)
    }

    async fn of(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (requests, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("it speaks HTTP/2");
        tokio::spawn(connection);
        Self(requests)
    }

    pub(crate) fn origin() -> Uri {
        Uri::from_static("http://localhost")
    }

    pub(crate) async fn call(&self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.call_with(request, &[]).await
    }

    /// Calls with these headers.
    pub(crate) async fn call_with(
        &self,
        request: RateLimitRequest,
        headers: &[(&'static str, &str)],
    ) -> Result<RateLimitResponse, Status> {
        self.call_by(Grpc::with_origin(self.clone(), Self::origin()), SHOULD_RATE_LIMIT, request, headers)
            .await
    }

    /// Calls with a message that is, on the wire, that of a request.
    pub(crate) async fn call_any<M: Message + Default + 'static>(
        &self,
        message: M,
    ) -> Result<RateLimitResponse, Status> {
        self.call_by(Grpc::with_origin(self.clone(), Self::origin()), SHOULD_RATE_LIMIT, message, &[]).await
    }

    pub(crate) async fn call_compressed(
        &self,
        request: RateLimitRequest,
    ) -> Result<RateLimitResponse, Status> {
        let grpc = Grpc::with_origin(self.clone(), Self::origin());
        let grpc = grpc.send_compressed(CompressionEncoding::Gzip);
        self.call_by(grpc.accept_compressed(CompressionEncoding::Gzip), SHOULD_RATE_LIMIT, request, &[]).await
    }

    /// Calls another path.
    pub(crate) async fn call_at(&self, path: &'static str) -> Code {
        let grpc = Grpc::with_origin(self.clone(), Self::origin());
        let called = self.call_by(grpc, path, RateLimitRequest::default(), &[]).await;
        called.map_or_else(|status| status.code(), |RateLimitResponse { .. }| Code::Ok)
    }

    /// Sends these bytes as the body of a call.
    pub(crate) async fn call_raw(&self, body: Vec<u8>) -> Code {
        self.call_raw_at(SHOULD_RATE_LIMIT, body).await
    }

    /// Sends these bytes as the body of a call of another path.
    pub(crate) async fn call_raw_at(&self, path: &str, body: Vec<u8>) -> Code {
        let request = Request::post(format!("http://localhost{path}"));
        let request = request.header("content-type", "application/grpc");
        let body = Body::new(Full::from(body));
        let mut requests = self.0.clone();
        let reply = requests.send_request(request.body(body).expect("a request")).await.expect("an answer");
        let (head, body) = reply.into_parts();
        let body = body.collect().await.expect("a whole answer");
        let statuses = [Some(&head.headers), body.trailers()].map(|headers| headers?.get("grpc-status"));
        let ([Some(status), None] | [None, Some(status)]) = statuses else {
            panic!("not one status: {statuses:?}")
        };
        Code::from_bytes(status.as_bytes())
    }

    /// Sends a request that is not a gRPC call. Returns the HTTP status, and whether there is a gRPC status.
    pub(crate) async fn ask(&self, request: Request<Body>) -> (u16, bool) {
        let reply = self.0.clone().send_request(request).await.expect("an answer");
        (reply.status().as_u16(), reply.headers().contains_key("grpc-status"))
    }

    /// Calls a method of Kuadrant's service with these headers.
    pub(crate) async fn call_kuadrant<M: Message + Default + 'static, R: Message + Default + 'static>(
        &self,
        path: &'static str,
        message: M,
        headers: &[(&'static str, &str)],
    ) -> Result<R, Status> {
        self.call_by(Grpc::with_origin(self.clone(), Self::origin()), path, message, headers).await
    }

    async fn call_by<M: Message + Default + 'static, R: Message + Default + 'static>(
        &self,
        mut grpc: Grpc<Self>,
        path: &'static str,
        message: M,
        headers: &[(&'static str, &str)],
    ) -> Result<R, Status> {
        let mut request = tonic::Request::new(message);
        for (name, value) in headers {
            request.metadata_mut().insert(*name, value.parse().expect("a value"));
        }
        let closed = |error| Status::unavailable(format!("the connection is closed: {error}"));
        grpc.ready().await.map_err(closed)?;
        let codec: ProstCodec<M, R> = ProstCodec::default();
        Ok(grpc.unary(request, PathAndQuery::from_static(path), codec).await?.into_inner())
    }
}

impl tower_service::Service<Request<Body>> for Wire {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

pub(crate) fn address(server: &Server) -> SocketAddr {
    server.grpc.expect("it was started with `--grpc`")
}

pub(crate) fn start(arguments: &[&str]) -> Server {
    Server::start(&[&["--grpc", "127.0.0.1:0"], arguments].concat())
}

/// The protocol that a client and the service agree on over TLS.
pub(crate) async fn spoken(
    server: &Server,
    tls: &Arc<ClientConfig>,
    offered: &[&[u8]],
) -> std::io::Result<Option<Vec<u8>>> {
    let mut config = (**tls).clone();
    config.alpn_protocols = offered.iter().map(|protocol| protocol.to_vec()).collect();
    let stream = TcpStream::connect(address(server)).await?;
    let name = ServerName::from(address(server).ip());
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    Ok(stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec))
}

/// Returns a request of the domain `shop` with these descriptors.
pub(crate) fn request(descriptors: &[&[(&str, &str)]]) -> RateLimitRequest {
    let descriptors = descriptors.iter().map(|entries| descriptor(entries)).collect();
    RateLimitRequest { domain: "shop".to_owned(), descriptors, hits_addend: 0 }
}

pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).to_owned(), value: (*value).to_owned() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() }
}

/// Returns the code and the remaining units of each status.
pub(crate) fn statuses(response: &RateLimitResponse) -> Vec<(i32, u32)> {
    response.statuses.iter().map(|status| (status.code, status.limit_remaining)).collect()
}
