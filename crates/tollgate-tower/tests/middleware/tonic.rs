//! Limits in front of tonic, over real sockets, with tonic's own client and its reader of error details.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tollgate::{
    InFlight, InFlightLimiter, Limiter, ManualClock, MemoryStore, SharedLimiter, Store, StoreError,
};
use tollgate_testkit::{FaultyStore, StoreFault};
use tollgate_tower::key::{self, Global, InvalidIdentity, PeerAddress};
use tollgate_tower::{InFlightLayer, OnMissing, RateLimitLayer, Rule};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

/// 18.4 seconds into a minute.
fn memory() -> MemoryStore<ManualClock> {
    let clock = ManualClock::default();
    clock.advance(Duration::from_millis(18_400));
    MemoryStore::builder().clock(clock).build()
}

fn limiter<S: Store>(store: S) -> SharedLimiter<S> {
    Limiter::builder("health").quota("2/1m".parse().unwrap()).build_shared(store).unwrap()
}

async fn serve(layer: RateLimitLayer) -> HealthClient<Channel> {
    let (_, health) = tonic_health::server::health_reporter();
    let (incoming, client) = listen().await;
    let server = Server::builder().layer(layer).add_service(health);
    tokio::spawn(async move { server.serve_with_incoming(incoming).await.unwrap() });
    client
}

/// A free port, and a client that connects once it is served.
async fn listen() -> (TcpIncoming, HealthClient<Channel>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let client = HealthClient::new(Endpoint::new(format!("http://{address}")).unwrap().connect_lazy());
    (TcpIncoming::from(listener), client)
}

async fn check(client: &mut HealthClient<Channel>) -> Result<tonic::metadata::MetadataMap, Status> {
    let request = HealthCheckRequest { service: String::new() };
    client.check(request).await.map(|response| response.metadata().clone())
}

#[tokio::test]
async fn a_denial_in_flight_is_resource_exhausted_without_a_time() {
    let (in_flight, store) = (InFlight::new(1).unwrap(), memory());
    let limiter = InFlightLimiter::with_store(in_flight, store.clone());
    let (_, health) = tonic_health::server::health_reporter();
    let (incoming, mut client) = listen().await;
    let layer = InFlightLayer::with_store(in_flight, store, PeerAddress::new());
    let server = Server::builder().layer(layer).add_service(health);
    tokio::spawn(async move { server.serve_with_incoming(incoming).await.unwrap() });
    assert!(check(&mut client).await.is_ok());
    let address: std::net::IpAddr = [127, 0, 0, 1].into();
    let hold = limiter.hold(address).unwrap().into_hold();
    let denied = check(&mut client).await.unwrap_err();
    assert_eq!(denied.code(), Code::ResourceExhausted);
    assert_eq!(denied.message(), "1 of 1 units are in flight; one may be free at any time");
    assert!(denied.get_details_retry_info().is_none());
    drop(hold);
    assert!(check(&mut client).await.is_ok());
}

#[tokio::test]
async fn a_denial_is_resource_exhausted_with_the_time_to_wait() {
    let mut client = serve(RateLimitLayer::new(limiter(memory()), PeerAddress::new())).await;
    for left in ["\"health\";r=1;t=42", "\"health\";r=0;t=42"] {
        assert_eq!(check(&mut client).await.unwrap().get("ratelimit").unwrap(), left);
    }
    let denied = check(&mut client).await.unwrap_err();
    assert_eq!(denied.code(), Code::ResourceExhausted);
    assert_eq!(
        denied.message(),
        "2/1m has 0 of 2 left, less than the request costs; the next window starts in 42 s"
    );
    let wait = denied.get_details_retry_info().unwrap().retry_delay;
    assert_eq!(wait, Some(Duration::from_millis(41_600)));
    assert_eq!(denied.metadata().get("ratelimit").unwrap(), "\"health\";r=0;t=42");
    assert_eq!(denied.metadata().get("retry-after").unwrap(), "42");
}

#[tokio::test]
async fn a_method_is_a_route() {
    let layer = RateLimitLayer::builder(Rule::unlimited())
        .route("POST /grpc.health.v1.Health/Check", Rule::new(limiter(memory())).key(Global).cost(2))
        .build()
        .unwrap();
    let mut client = serve(layer).await;
    assert!(check(&mut client).await.is_ok());
    assert_eq!(check(&mut client).await.unwrap_err().code(), Code::ResourceExhausted);
    let watched = client.watch(HealthCheckRequest { service: String::new() }).await;
    assert!(watched.is_ok(), "another method has no limit");
}

#[tokio::test]
async fn a_store_in_trouble_is_unavailable() {
    let store = FaultyStore::new(MemoryStore::new());
    let mut client = serve(RateLimitLayer::new(limiter(store.clone()), Global)).await;
    for (fault, code, message) in [
        (StoreFault::unreachable(), Code::Unavailable, "the store cannot answer, and nothing was counted"),
        (
            StoreFault::Fails(StoreError::Uncountable("in several slots")),
            Code::Internal,
            "the store can never count this request, because of how the service is set up",
        ),
    ] {
        store.begin(fault);
        let error = check(&mut client).await.unwrap_err();
        assert_eq!((error.code(), error.message()), (code, message));
    }
    store.end();
    assert!(check(&mut client).await.is_ok());
}

#[tokio::test]
async fn missing_and_invalid_identities_have_their_own_codes() {
    let by_user = || key::from_fn("metadata `x-käse`", |_| None);
    let bearer = || http::HeaderValue::from_static("Bearer");
    let wrong = || key::try_from_fn(|_| Err(InvalidIdentity::malformed("100 % wrong")));
    for (rule, code, message) in [
        (Rule::new(limiter(memory())).key(by_user()), Code::InvalidArgument, "metadata `x-käse` is missing"),
        (
            Rule::new(limiter(memory())).key(by_user()).on_missing(OnMissing::Unauthorized(bearer())),
            Code::Unauthenticated,
            "metadata `x-käse` is missing",
        ),
        (Rule::new(limiter(memory())).key(wrong()), Code::InvalidArgument, "100 % wrong"),
    ] {
        let mut client = serve(RateLimitLayer::builder(rule).build().unwrap()).await;
        let error = check(&mut client).await.unwrap_err();
        assert_eq!((error.code(), error.message()), (code, message));
        assert!(error.get_details_retry_info().is_none());
    }
}
