//! Axum, hyper and tonic see a request alike, over real sockets.
//!
//! The service plays the same table in `crates/tollgate-server/tests/service/one_view.rs`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tollgate::{ManualClock, MemoryStore, Timestamp};
use tollgate_policy::{Config, PolicyLimiter, Sources};
use tollgate_testkit::requests::{ATTRIBUTES, BESIDE, ExampleRequest, LIMITS, REQUESTS};
use tollgate_tower::key::jwt::{Algorithm, Claim, Keys, Verifier};
use tollgate_tower::key::{ClientAddress, ForwardedHeader, Peer, TrustedProxies};
use tollgate_tower::{AttributeSources, RateLimitLayer, Rule};
use tonic::transport::server::TcpIncoming;
use tower::ServiceExt;
use tower_layer::Layer;

use crate::support::{PATIENCE, clock, send, serve};

const TOKENS: &str = include_str!("../../jwt/tokens.json");

/// A kind of server, and its address.
#[derive(Debug, Clone, Copy)]
enum Door {
    Http1(SocketAddr),
    /// Its own answers are in gRPC's format.
    Grpc(SocketAddr),
}

/// Starts the servers, each with its own counters.
async fn doors(limits: &str, sources: fn() -> AttributeSources) -> [Door; 4] {
    let layer = || layer(limits, sources());
    [
        Door::Http1(serve(Router::new().fallback(ok).layer(layer())).await),
        Door::Http1(serve(nested(layer())).await),
        Door::Http1(hyper(layer()).await),
        Door::Grpc(tonic(layer()).await),
    ]
}

fn layer(limits: &str, sources: AttributeSources) -> RateLimitLayer {
    let files = Sources::of("limits.yaml", limits);
    let files = BESIDE.iter().fold(files, |files, (name, text)| files.with_table("limits.yaml", name, *text));
    let policies = Config::parse_sources(&files, |_| Vec::new()).unwrap().into_policies();
    let store = MemoryStore::builder().clock(clock()).build();
    let limiter = Arc::new(PolicyLimiter::new(store, policies, "limits.yaml"));
    RateLimitLayer::builder(Rule::policies(&limiter, sources)).build().unwrap()
}

async fn ok() {}

/// Wraps a service that sees only the ends of its paths, and all other services, with the same counters.
fn nested(layer: RateLimitLayer) -> Router {
    let inner = || Router::new().fallback(ok).layer(layer.clone());
    Router::new().nest_service("/nested", inner()).nest("/api", inner()).fallback_service(inner())
}

async fn hyper(layer: RateLimitLayer) -> SocketAddr {
    let answer =
        |_: Request<Incoming>| async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) };
    let limited = layer.layer(tower::service_fn(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, peer) = listener.accept().await.unwrap();
            let limited = limited.clone();
            let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(Peer(peer));
                limited.clone().oneshot(request)
            });
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    address
}

async fn tonic(layer: RateLimitLayer) -> SocketAddr {
    let (_, health) = tonic_health::server::health_reporter();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().layer(layer).add_service(health);
    tokio::spawn(async move { server.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap() });
    address
}

impl Door {
    /// Returns the status and the headers of the answer. A gRPC server answers an unknown method, which its layers have
    /// let pass; that counts as 200.
    async fn ask(self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap) {
        match self {
            Self::Http1(address) => {
                let answer = send(address, &format!("{method} {path}"), headers).await;
                (answer.status.as_u16(), answer.headers)
            }
            Self::Grpc(address) => {
                let stream = TcpStream::connect(address).await.unwrap();
                let (mut sender, connection) =
                    http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
                tokio::spawn(connection);
                let request = Request::builder().method(method).uri(format!("http://localhost{path}"));
                let request = request.version(Version::HTTP_2);
                let request =
                    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
                let response = sender.send_request(request.body(Full::<Bytes>::default()).unwrap());
                let response = tokio::time::timeout(PATIENCE, response).await.unwrap().unwrap();
                let headers = response.headers().clone();
                let is_unknown = headers.get("grpc-status").is_some_and(|status| status == "12");
                (if is_unknown { 200 } else { response.status().as_u16() }, headers)
            }
        }
    }
}

/// Parses `name;r=9;t=60, ...` into pairs of a policy and this figure.
fn told<'h>(headers: &'h HeaderMap, header: &str, figure: &str) -> Vec<(&'h str, u64)> {
    let value = headers.get(header).map_or("", |value| value.to_str().unwrap());
    let items = value.split(", ").filter(|item| !item.is_empty());
    let item = |item: &'h str| {
        let (name, figures) = item.split_once(';').unwrap();
        let figure = figures.split(';').find_map(|it| it.strip_prefix(figure)).unwrap();
        (name.trim_matches('"'), figure.parse().unwrap())
    };
    items.map(item).collect()
}

fn by_headers() -> AttributeSources {
    let proxies = TrustedProxies::parse(["127.0.0.1"]).unwrap();
    let ip = ClientAddress::behind(proxies, ForwardedHeader::XForwardedFor);
    let by_header = |sources: AttributeSources, name: &str| {
        let header = HeaderName::try_from(format!("x-{name}")).unwrap();
        sources.with_fn(name, move |head| {
            let texts = head.headers().get_all(&header).iter().map(|value| value.to_str().unwrap());
            match texts.collect::<Vec<_>>().as_slice() {
                [] => None,
                [text] => Some((*text).into()),
                texts => Some(texts.to_vec().into()),
            }
        })
    };
    let sources = ATTRIBUTES.into_iter().fold(AttributeSources::new().with("ip", ip), by_header);
    sources.verified(|sources| by_header(sources, "quota"))
}

#[tokio::test]
async fn every_server_sees_the_same_request() {
    for door in doors(LIMITS, by_headers).await {
        for asked in REQUESTS {
            let ExampleRequest { method, path, ip, attributes, status, quotas } = asked;
            let names: Vec<String> = attributes.iter().map(|(name, _)| format!("x-{name}")).collect();
            let mut headers = vec![("x-forwarded-for", *ip)];
            headers.extend(names.iter().map(String::as_str).zip(attributes.iter().map(|(_, value)| *value)));
            let (found, headers) = door.ask(method, path, &headers).await;
            assert_eq!(found, *status, "{door:?}: {asked:?}: {headers:?}");
            let limits: Vec<_> = quotas.iter().map(|it| (it.policy, it.limit)).collect();
            let left: Vec<_> = quotas.iter().map(|it| (it.policy, it.left)).collect();
            assert_eq!(told(&headers, "ratelimit-policy", "q="), limits, "{door:?}: {asked:?}");
            assert_eq!(told(&headers, "ratelimit", "r="), left, "{door:?}: {asked:?}");
        }
    }
}

/// Claims from tokens, all of which have expired.
fn by_stale_tokens() -> AttributeSources {
    let secret: Vec<u8> = (0..64).collect();
    let keys = Keys::from_secret(Algorithm::Hs256, &secret).unwrap();
    let clock = ManualClock::at(Timestamp::from_unix_millis(4_000_000_000_000));
    let verifier = Verifier::new(keys, ["https://api.example.org"]).clock(clock);
    let claim = |name| Claim::new(verifier.clone(), name);
    AttributeSources::new()
        .with_claim("user", claim("sub"))
        .with_claim("units", claim("units"))
        .with_claim("quota", claim("quota"))
}

/// A health check was refused for an expired token. Where the token matters, a client with a deliberately broken token
/// must not become another client, or cheaper.
#[tokio::test]
async fn every_server_refuses_a_stale_token_only_where_it_matters() {
    let samples: serde_json::Value = serde_json::from_str(TOKENS).unwrap();
    let sample = samples.as_array().unwrap().iter().find(|sample| sample["algorithm"] == "HS256").unwrap();
    let bearer = format!("Bearer {}", sample["token"].as_str().unwrap());
    let limits = "
policies:
  - { name: health, match: { path: /healthz }, exempt: true }
  - { name: open, match: { path: /open }, key: global, quotas: [9/1d@first_hit] }
  - { name: users, match: { path: /search }, key: [user], quotas: [9/1d@first_hit] }
  - { name: guests, match: { path: /skip }, key: [user], on_missing_key: skip, quotas: [9/1d@first_hit] }
  - { name: either, match: { path: /either }, key: { first_of: [user, ip] }, quotas: [9/1d@first_hit] }
  - { name: nobody, match: { path: /match, user: { absent: true } }, key: [ip], quotas: [9/1d@first_hit] }
  - name: cost
    match: { path: /cost }
    key: global
    quotas: [9/1d@first_hit]
    cost: { attribute: units, max: 5, on_missing: 1 }
  - name: limit
    match: { path: /limit }
    key: global
    quotas: { limit: { attribute: quota, on_missing: 8 }, max: 9, window: 1d@first_hit }
  - { name: tried, match: { path: /tried }, mode: shadow, key: [user], quotas: [9/1d@first_hit] }
  - name: trial
    match: { path: /trial }
    key: global
    quotas: [9/1d@first_hit]
    candidate: { limit: { attribute: quota }, max: 9, window: 1h }";
    for door in doors(limits, by_stale_tokens).await {
        for path in ["/healthz", "/%68ealthz", "//open", "/tried", "/trial", "/nowhere"] {
            let (found, headers) = door.ask("GET", path, &[("authorization", &bearer)]).await;
            assert_eq!(found, 200, "{door:?}: {path}: {headers:?}");
        }
        for (path, without) in [
            ("/search", 400),
            ("/skip", 200),
            ("/either", 200),
            ("/match", 200),
            ("/cost", 200),
            ("/limit", 200),
        ] {
            let (found, headers) = door.ask("GET", path, &[("authorization", &bearer)]).await;
            assert_eq!(found, 401, "{door:?}: {path}: {headers:?}");
            let (found, headers) = door.ask("GET", path, &[]).await;
            assert_eq!(found, without, "{door:?}: {path} without a token: {headers:?}");
        }
        assert_eq!(door.ask("HEAD", "/healthz", &[]).await.0, 200, "{door:?}: without a token");
    }
}
