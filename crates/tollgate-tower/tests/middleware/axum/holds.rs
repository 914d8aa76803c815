//! Requests in flight over a shared store, and with quotas: an estimate, and the actual cost at the end.

use std::sync::Arc;

use axum::Router;
use axum::extract::Extension;
use axum::routing::get as on_get;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use tokio::sync::Notify;
use tollgate::{
    AnyStore, HoldKeeper, HoldLimiter, InFlight, InFlightLimiter, Key, Limiter, ManualClock, MemoryStore,
};
use tollgate_testkit::{FaultyStore, StoreFault};
use tollgate_tower::key::Global;
use tollgate_tower::{Head, InFlightLayer, OnStoreError, RequestHold};

use crate::support::{a_day, connect, get, send, serve, until};

type Memory = MemoryStore<ManualClock>;

/// A store as if it were far away, its memory, and a keeper that runs.
struct Setup {
    memory: Memory,
    store: FaultyStore<Memory>,
    keeper: HoldKeeper,
}

fn setup() -> Setup {
    let memory = MemoryStore::builder().clock(ManualClock::default()).build();
    let (keeper, task) = HoldKeeper::new(tokio::time::sleep);
    tokio::spawn(task);
    Setup { store: FaultyStore::new(memory.clone()), memory, keeper }
}

impl Setup {
    /// At most so many in flight, and a hundred units a day.
    fn shared(&self, limit: u32) -> HoldLimiter {
        let builder = Limiter::builder("tokens").quota(a_day(100));
        let in_flight = InFlight::new(limit).unwrap();
        builder.build_shared_in_flight(in_flight, self.store.clone(), &self.keeper).unwrap()
    }

    fn in_process(&self, limit: u32) -> InFlightLimiter<ManualClock> {
        let builder = Limiter::builder("tokens").quota(a_day(100));
        builder.build_in_flight(InFlight::new(limit).unwrap(), self.memory.clone()).unwrap()
    }

    /// The live units and the used ones.
    fn counts(&self) -> (u32, u64) {
        let near = self.in_process(1);
        let everybody = || Key::parts(std::iter::empty::<Key<'_>>());
        (near.peek(everybody()).live(), near.limiter().peek(everybody()).unwrap().used())
    }
}

/// What the request says that it will cost.
fn estimate(head: Head<'_>) -> u32 {
    let header = head.headers().get("x-estimate");
    header.and_then(|estimate| estimate.to_str().ok()?.parse().ok()).unwrap_or(10).min(100)
}

/// `/cost/7` costs 7, `/` says nothing, and `/waits` never ends.
fn app(begun: &Arc<Notify>) -> Router {
    let costs = |Extension(hold): Extension<RequestHold>,
                 axum::extract::Path(cost): axum::extract::Path<u32>| async move {
        hold.set_cost(1_000);
        hold.set_cost(cost);
        "here you are"
    };
    let begun = Arc::clone(begun);
    let waits = || async move {
        begun.notify_one();
        std::future::pending::<()>().await;
    };
    Router::new()
        .route("/cost/{cost}", on_get(costs))
        .route("/", on_get(|| async { "here you are" }))
        .route("/waits", on_get(waits))
}

#[tokio::test]
async fn an_estimate_is_charged_and_settled_when_the_request_has_ended() {
    for is_shared in [false, true] {
        let (setup, begun) = (setup(), Arc::default());
        let app = if is_shared {
            app(&begun).layer(InFlightLayer::shared(setup.shared(2), Global).cost_of(estimate))
        } else {
            app(&begun).layer(InFlightLayer::with_limiter(setup.in_process(2), Global).cost_of(estimate))
        };
        let address = serve(app).await;
        let first = send(address, "GET /cost/7", &[("x-estimate", "60")]).await;
        assert_eq!(first.status, StatusCode::OK);
        assert_eq!(first.header("ratelimit"), Some("\"tokens\";r=40;t=86400"));
        until(|| setup.counts() == (0, 7)).await;
        // Above the estimate, without asking for room.
        assert_eq!(get(address, "/cost/80").await.status, StatusCode::OK);
        until(|| setup.counts() == (0, 87)).await;
        // Without a cost, the estimate stays.
        assert_eq!(get(address, "/").await.status, StatusCode::OK);
        until(|| setup.counts() == (0, 97)).await;
        let denied = get(address, "/").await;
        assert_eq!(denied.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(denied.json()["reason"], "quota_exceeded");
        assert_eq!(denied.header("ratelimit"), Some("\"tokens\";r=3;t=86400"));
        assert!(denied.header("retry-after").is_some_and(|wait| wait != "1"));
        assert_eq!(setup.counts(), (0, 97));
    }
}

#[tokio::test]
async fn units_in_a_shared_store_are_freed_on_every_way_out() {
    let (setup, begun) = (setup(), Arc::default());
    let address = serve(app(&begun).layer(InFlightLayer::shared(setup.shared(1), Global))).await;
    let request = Request::get("/waits").header("host", "localhost").body(Full::<Bytes>::default()).unwrap();
    let mut client = connect(address).await;
    let response = tokio::spawn(async move { client.send_request(request).await });
    begun.notified().await;
    assert_eq!(setup.counts(), (1, 1));
    let denied = get(address, "/").await;
    assert_eq!((denied.status, denied.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, Some("1")));
    assert_eq!(denied.json()["reason"], "in_flight_exceeded");
    response.abort();
    until(|| setup.counts() == (0, 1)).await;
    assert_eq!(get(address, "/").await.status, StatusCode::OK);
    until(|| setup.counts() == (0, 2)).await;
}

/// The client leaves after the store has admitted its request, and before the answer.
#[tokio::test]
async fn a_client_that_leaves_while_the_store_is_asked_holds_nothing() {
    let (setup, begun) = (setup(), Arc::default());
    let address = serve(app(&begun).layer(InFlightLayer::shared(setup.shared(1), Global))).await;
    setup.store.begin(StoreFault::HoldsAnswers);
    let request = Request::get("/").header("host", "localhost").body(Full::<Bytes>::default()).unwrap();
    let mut client = connect(address).await;
    let response = tokio::spawn(async move { client.send_request(request).await });
    until(|| setup.store.held() == 1).await;
    assert_eq!(setup.counts(), (1, 1));
    response.abort();
    // The hold ends while its answer is still out.
    until(|| setup.counts() == (0, 1)).await;
    setup.store.end();
    assert_eq!(get(address, "/").await.status, StatusCode::OK);
    until(|| setup.counts() == (0, 2)).await;
}

/// The handler of a long stream stops when others may have its units.
#[tokio::test]
async fn a_handler_learns_that_its_units_are_lost() {
    let setup = setup();
    let limiter = setup.shared(1).expires_after("1s".parse().unwrap());
    let begun = Arc::new(Notify::new());
    let notify = Arc::clone(&begun);
    let handler = move |Extension(hold): Extension<RequestHold>| async move {
        assert!(!hold.is_lost());
        notify.notify_one();
        hold.lost().await;
        assert!(hold.is_lost());
        "lost"
    };
    let layer = InFlightLayer::shared(limiter.clone(), Global);
    let address = serve(Router::new().route("/", on_get(handler)).layer(layer)).await;
    let asked = tokio::spawn(async move { get(address, "/").await });
    begun.notified().await;
    limiter.reset(Key::parts(std::iter::empty::<Key<'_>>())).await.unwrap();
    assert_eq!(&asked.await.unwrap().body[..], b"lost");
}

#[tokio::test]
async fn a_store_that_fails_refuses_or_admits() {
    let (setup, begun) = (setup(), Arc::default());
    let layer = InFlightLayer::shared(setup.shared(1), Global);
    let refusing = serve(app(&begun).layer(layer.clone())).await;
    let admitting = serve(app(&begun).layer(layer.on_store_error(OnStoreError::Admit))).await;
    setup.store.begin(StoreFault::unreachable());
    let refused = get(refusing, "/").await;
    assert_eq!(
        (refused.status, &refused.json()["reason"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"store_unavailable".into())
    );
    assert_eq!(get(admitting, "/").await.status, StatusCode::OK);
    // Its handler has a hold that nothing counts.
    assert_eq!(get(admitting, "/cost/7").await.status, StatusCode::OK);
    setup.store.end();
    assert_eq!(setup.counts(), (0, 0));
    assert_eq!(get(refusing, "/").await.status, StatusCode::OK);
}

#[test]
#[should_panic(expected = "a cost has no effect without quotas")]
fn a_cost_without_quotas_is_refused() {
    let _ = InFlightLayer::new(InFlight::new(1).unwrap(), Global).cost(2);
}

/// A limiter of quotas alone: nothing is in flight, and requests are settled all the same.
#[tokio::test]
async fn a_reserving_limiter_settles_requests() {
    let (setup, begun) = (setup(), Arc::default());
    let builder = Limiter::builder("tokens").quota(a_day(100));
    let limiter = builder.build_reserving(AnyStore::new(setup.store.clone()), &setup.keeper).unwrap();
    let address = serve(app(&begun).layer(InFlightLayer::shared(limiter, Global).cost(50))).await;
    assert_eq!(get(address, "/cost/3").await.status, StatusCode::OK);
    until(|| setup.counts() == (0, 3)).await;
    assert_eq!(get(address, "/").await.status, StatusCode::OK);
    until(|| setup.counts() == (0, 53)).await;
    assert_eq!(get(address, "/").await.status, StatusCode::TOO_MANY_REQUESTS);
}
