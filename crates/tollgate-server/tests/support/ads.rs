//! A management server that a test drives: it sends what the test says, and keeps what the client answers.
//!
//! It writes and reads the frames of gRPC itself. The messages are the generated ones of the client.

#![allow(dead_code, unused_imports, reason = "every test file uses a part of it")]
#![allow(clippy::expect_used, reason = "this is a test")]

/// The generated messages.
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "they are generated")]
#[path = "../../src/xds/messages/mod.rs"]
pub(crate) mod messages;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use prost_types::Any;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{mpsc as channel, watch};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::UnboundedReceiverStream;

pub(crate) use self::messages::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
pub(crate) use self::messages::ratelimit::config::ratelimit::v3::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitReplace,
};
use crate::certificates::{Authority, Identity};
use crate::support::HANG;

pub(crate) const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// The path that clients call.
const METHOD: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

/// A server that stops when it is dropped.
pub(crate) struct Ads {
    pub(crate) address: SocketAddr,
    shared: Arc<SharedState>,
    heard: mpsc::Receiver<HeardRequest>,
    /// Counts how often all connections were cut.
    cuts: watch::Sender<u32>,
    worker: Option<thread::JoinHandle<()>>,
}

/// An address on which nobody else listens, so that servers can come and go there.
pub(crate) struct Port {
    pub(crate) address: SocketAddr,
    /// Bound, but it does not listen.
    _holder: Socket,
}

/// A request, and the headers of its call.
pub(crate) struct HeardRequest {
    pub(crate) request: DiscoveryRequest,
    pub(crate) headers: HeaderMap,
}

/// What is sent over a stream.
type SentFrame = Result<Frame<Bytes>, Infallible>;

struct SharedState {
    /// The open stream.
    open: Mutex<Option<channel::UnboundedSender<SentFrame>>>,
    heard: mpsc::Sender<HeardRequest>,
}

impl Ads {
    pub(crate) fn start() -> Self {
        Self::start_on(&Port::reserve(), None)
    }

    /// Starts a server whose clients must show a certificate of the authority.
    pub(crate) fn start_tls(identity: &Identity, clients: &Authority) -> Self {
        Self::start_on(&Port::reserve(), Some(tls(identity, clients)))
    }

    pub(crate) fn start_on(port: &Port, tls: Option<ServerConfig>) -> Self {
        let (heard_sender, heard) = mpsc::channel();
        let shared = Arc::new(SharedState { open: Mutex::new(None), heard: heard_sender });
        let (cuts, cut) = watch::channel(0);
        let (address, listener) = (port.address, port.listen());
        let state = Arc::clone(&shared);
        let worker = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("a listener");
                accept(listener, tls.map(|tls| TlsAcceptor::from(Arc::new(tls))), state, cut).await;
            });
        });
        Self { address, shared, heard, cuts, worker: Some(worker) }
    }

    /// Returns the next request of a client.
    #[track_caller]
    pub(crate) fn hear(&self) -> DiscoveryRequest {
        self.hear_call().request
    }

    #[track_caller]
    pub(crate) fn hear_call(&self) -> HeardRequest {
        self.heard.recv_timeout(HANG).expect("the client answers")
    }

    /// Returns whether nothing is heard for this long.
    pub(crate) fn hears_nothing(&self, time: Duration) -> bool {
        self.heard.recv_timeout(time).is_err()
    }

    /// Sends a response over the open stream.
    pub(crate) fn send(&self, response: &DiscoveryResponse) {
        let message = response.encode_to_vec();
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(message.len() as u32);
        frame.put_slice(&message);
        let open = self.shared.open.lock().expect("no panic");
        let sent = open.as_ref().map(|open| open.send(Ok(Frame::data(frame.freeze()))));
        assert!(matches!(sent, Some(Ok(()))), "no stream is open");
    }

    /// Sends these limits. The nonce is `nonce VERSION`.
    pub(crate) fn publish(&self, version: &str, configs: &[RateLimitConfig]) {
        self.send(&response(version, configs));
    }

    /// Sends these limits, which the client must accept.
    #[track_caller]
    pub(crate) fn publish_valid(&self, version: &str, configs: &[RateLimitConfig]) {
        self.publish(version, configs);
        let answer = self.hear();
        assert_eq!(answer.error_detail, None);
        assert_eq!(
            (answer.version_info.as_str(), answer.response_nonce),
            (version, format!("nonce {version}"))
        );
    }

    /// Sends these limits, which the client must reject. Returns the reason.
    #[track_caller]
    pub(crate) fn publish_invalid(&self, version: &str, configs: &[RateLimitConfig]) -> String {
        self.publish(version, configs);
        self.hear_rejection(version)
    }

    /// Returns the reason for which the client rejects this version.
    #[track_caller]
    pub(crate) fn hear_rejection(&self, version: &str) -> String {
        let answer = self.hear();
        assert_ne!(answer.version_info, version);
        assert_eq!(answer.response_nonce, format!("nonce {version}"));
        let detail = answer.error_detail.expect("it is rejected");
        assert_eq!(detail.code, 3);
        detail.message
    }

    /// Ends the open stream without an error.
    pub(crate) fn end_stream(&self) {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().expect("a value"));
        if let Some(open) = self.shared.open.lock().expect("no panic").take() {
            let _ = open.send(Ok(Frame::trailers(trailers)));
        }
    }

    /// Cuts all connections. Others are accepted.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Port {
    pub(crate) fn reserve() -> Self {
        let holder = socket(SocketAddr::from(([127, 0, 0, 1], 0)));
        let address = holder.local_addr().expect("an address").as_socket().expect("an address of IP");
        Self { address, _holder: holder }
    }

    /// Listens. The system accepts connections, even if nobody answers them.
    pub(crate) fn listen(&self) -> std::net::TcpListener {
        let socket = socket(self.address);
        socket.listen(128).expect("it listens");
        socket.set_nonblocking(true).expect("an option");
        socket.into()
    }
}

/// Returns a socket that shares its port with others of this process.
fn socket(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_reuse_address(true).expect("an option");
    socket.set_reuse_port(true).expect("an option");
    socket.bind(&address.into()).expect("an address");
    socket
}

impl Drop for Ads {
    fn drop(&mut self) {
        self.cuts.send_replace(u32::MAX);
        let stopped = self.worker.take().map(thread::JoinHandle::join);
        assert!(thread::panicking() || matches!(stopped, Some(Ok(()))));
    }
}

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    state: Arc<SharedState>,
    mut cut: watch::Receiver<u32>,
) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.expect("a connection").0,
            _ = cut.wait_for(|cuts| *cuts == u32::MAX) => return,
        };
        let (tls, state, mut cut) = (tls.clone(), Arc::clone(&state), cut.clone());
        let cuts = *cut.borrow();
        tokio::spawn(async move {
            let serving = async {
                match tls {
                    None => serve(stream, state).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(stream, state).await;
                        }
                    }
                }
            };
            tokio::select! {
                () = serving => {}
                _ = cut.wait_for(|now| *now != cuts) => {}
            }
        });
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, state: Arc<SharedState>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let state = Arc::clone(&state);
        async move {
            assert_eq!(request.uri().path(), METHOD);
            let (sender, receiver) = channel::unbounded_channel();
            *state.open.lock().expect("no panic") = Some(sender);
            tokio::spawn(hear(request, state));
            let body = StreamBody::new(UnboundedReceiverStream::new(receiver));
            Ok::<_, Infallible>(
                Response::builder().header("content-type", "application/grpc").body(body).expect("an answer"),
            )
        }
    });
    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

/// Reads the requests of a call.
async fn hear(request: Request<Incoming>, state: Arc<SharedState>) {
    let (head, mut body) = request.into_parts();
    let mut bytes = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data() {
            bytes.put(data);
        }
        while let Some((head_of_frame, rest)) = bytes.split_at_checked(5) {
            let length =
                u32::from_be_bytes([head_of_frame[1], head_of_frame[2], head_of_frame[3], head_of_frame[4]])
                    as usize;
            if rest.len() < length {
                break;
            }
            bytes.advance(5);
            let message = bytes.split_to(length);
            let request = DiscoveryRequest::decode(message.as_ref()).expect("a request");
            let _ = state.heard.send(HeardRequest { request, headers: head.headers.clone() });
        }
    }
}

/// The configuration of a server whose clients must show a certificate of the authority.
pub(crate) fn tls(identity: &Identity, clients: &Authority) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&clients.file).expect("a certificate")).expect("an authority");
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier.build().expect("a verifier"))
        .with_single_cert(
            vec![CertificateDer::from_pem_file(&identity.certificate).expect("a certificate")],
            PrivateKeyDer::from_pem_file(&identity.key).expect("a key"),
        )
        .expect("they fit");
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

/// Returns a response with these limits. The nonce is `nonce VERSION`.
pub(crate) fn response(version: &str, configs: &[RateLimitConfig]) -> DiscoveryResponse {
    let resource =
        |config: &RateLimitConfig| Any { type_url: TYPE_URL.to_owned(), value: config.encode_to_vec() };
    DiscoveryResponse {
        version_info: version.to_owned(),
        resources: configs.iter().map(resource).collect(),
        type_url: TYPE_URL.to_owned(),
        nonce: format!("nonce {version}"),
    }
}

/// Returns a domain with a limit of so many requests a day, for each user.
pub(crate) fn users(domain: &str, requests_per_unit: u32) -> RateLimitConfig {
    config(domain, vec![limited("user", "", requests_per_unit)])
}

pub(crate) fn config(domain: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitConfig {
    RateLimitConfig { name: domain.to_owned(), domain: domain.to_owned(), descriptors }
}

/// Returns a descriptor with a limit of so many requests a day.
pub(crate) fn limited(key: &str, value: &str, requests_per_unit: u32) -> RateLimitDescriptor {
    let rate_limit = Some(RateLimitPolicy { unit: 4, requests_per_unit, ..Default::default() });
    RateLimitDescriptor { key: key.to_owned(), value: value.to_owned(), rate_limit, ..Default::default() }
}
