//! Policies with limits in flight: a request holds until the body of its response has ended.

use std::convert::Infallible;
use std::sync::{Arc, mpsc};

use axum::Router;
use axum::body::Body;
use axum::extract::Extension;
use axum::routing::get as on_get;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Frame;
use tokio::sync::mpsc as channel;
use tollgate::{AnswerError, HoldKeeper, InFlight, Key, Limiter, ManualClock, MemoryStore};
use tollgate_policy::{Attributes, Config, PolicyLimiter};
use tollgate_testkit::{FaultyStore, StoreFault};
use tollgate_tower::key::Global;
use tollgate_tower::{
    AttributeSources, BuildError, InFlightLayer, OnStoreError, RateLimitLayer, RequestHold, Rule,
    SetupWarning,
};

use crate::support::{PATIENCE, a_day, connect, get, send, serve, until};

type Store = FaultyStore<MemoryStore<ManualClock>>;

/// A request of `/tokens` costs tokens, and one of `/streams` none; both are in flight. One of `/plain` is neither.
/// During an outage, one of `/strict` is refused; the policy sets a part of its cost.
const POLICIES: &str = "
policies:
  - { name: tokens, match: { path: /tokens }, key: global, quotas: [100/1d@first_hit, 1~in_flight:30s] }
  - { name: streams, match: { path: /streams }, key: global, quotas: [1~in_flight] }
  - { name: strict, match: { path: /strict }, key: global, quotas: [90/1d@first_hit, 1~in_flight:30s], on_store_failure: closed }
  - { name: strict-calls, match: { path: /strict }, key: global, cost: 3, quotas: [80/1d@first_hit], on_store_failure: closed }
  - { name: plain, match: { path: /plain }, key: global, quotas: [5/1d@first_hit] }
";

struct Setup {
    limiter: Arc<PolicyLimiter<Store>>,
    store: Store,
    keeper: HoldKeeper,
}

fn setup() -> Setup {
    let store = FaultyStore::new(MemoryStore::builder().clock(ManualClock::default()).build());
    let policies = Config::parse("limits.yaml", POLICIES).unwrap().into_policies();
    let limiter = Arc::new(PolicyLimiter::new(store.clone(), policies, "limits.yaml"));
    let (keeper, task) = HoldKeeper::new(tokio::time::sleep);
    tokio::spawn(task);
    Setup { limiter, store, keeper }
}

impl Setup {
    fn rule(&self) -> Rule {
        Rule::policies(&self.limiter, AttributeSources::new()).keeper(&self.keeper)
    }

    /// The live units and the used ones of the policy for this path.
    async fn counts(&self, path: &str) -> (u32, u64) {
        let view: Attributes<'_> = [("path", path)].into_iter().collect();
        let peek = self.limiter.peek(&view, 1).await.unwrap();
        let live = peek.in_flight().next().map_or(0, |standing| standing.state.live());
        (live, peek.quotas().next().map_or(0, |standing| standing.state.used()))
    }

    /// The used units of each quota for this path.
    async fn used(&self, path: &str) -> Vec<u64> {
        let view: Attributes<'_> = [("path", path)].into_iter().collect();
        let peek = self.limiter.peek(&view, 1).await.unwrap();
        peek.quotas().map(|standing| standing.state.used()).collect()
    }

    async fn until_counts(&self, path: &str, counts: (u32, u64)) {
        let waiting = async {
            while self.counts(path).await != counts {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    }
}

async fn costs_seven(Extension(hold): Extension<RequestHold>) -> &'static str {
    hold.set_cost(7);
    "here you are"
}

#[tokio::test]
async fn a_request_is_reserved_and_settled_where_policies_have_a_limit_in_flight() {
    let setup = setup();
    let layer = RateLimitLayer::builder(setup.rule().cost(60)).build().unwrap();
    let app =
        Router::new().route("/tokens", on_get(costs_seven)).route("/plain", on_get(|| async { "plain" }));
    let address = serve(app.layer(layer)).await;
    let first = get(address, "/tokens").await;
    assert_eq!(first.status, StatusCode::OK);
    let headers = first.header("ratelimit").unwrap();
    assert!(headers.contains("\"tokens\";r=40;t=86400") && headers.contains("r=0"), "{headers}");
    setup.until_counts("/tokens", (0, 7)).await;
    // A policy without such a limit is checked, and its handler finds no hold.
    assert_eq!(get(address, "/plain").await.status, StatusCode::TOO_MANY_REQUESTS, "60 of 5");
    assert_eq!(setup.counts("/plain").await, (0, 0));
}

#[tokio::test]
async fn a_stream_is_in_flight_until_it_ends_and_the_next_is_denied() {
    let setup = setup();
    let (chunks, stream) = channel::channel::<Result<Frame<Bytes>, Infallible>>(1);
    let stream = Arc::new(tokio::sync::Mutex::new(Some(stream)));
    let handler = move || async move {
        match stream.lock().await.take() {
            Some(stream) => Body::new(super::in_flight::Chunks(stream)),
            None => Body::from("short"),
        }
    };
    let layer = RateLimitLayer::builder(setup.rule()).build().unwrap();
    let address = serve(Router::new().route("/streams", on_get(handler)).layer(layer)).await;
    let request =
        Request::get("/streams").header("host", "localhost").body(Full::<Bytes>::default()).unwrap();
    let mut client = connect(address).await;
    let mut streamed = client.send_request(request).await.unwrap();
    chunks.send(Ok(Frame::data("one".into()))).await.unwrap();
    assert_eq!(streamed.frame().await.unwrap().unwrap().into_data().unwrap(), "one");

    let denied = get(address, "/streams").await;
    assert_eq!((denied.status, denied.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, Some("1")));
    let body = denied.json();
    assert_eq!((&body["reason"], &body["policy"]), (&"in_flight_exceeded".into(), &"streams".into()));
    drop(chunks);
    assert!(streamed.frame().await.is_none());
    setup.until_counts("/streams", (0, 0)).await;
    assert_eq!(&get(address, "/streams").await.body[..], b"short");
}

/// The client leaves while the store has admitted its request, and has not answered.
#[tokio::test]
async fn a_client_that_leaves_while_the_store_is_asked_holds_nothing() {
    let setup = setup();
    let layer = RateLimitLayer::builder(setup.rule().cost(10)).build().unwrap();
    let address = serve(Router::new().route("/tokens", on_get(costs_seven)).layer(layer)).await;
    setup.store.begin(StoreFault::HoldsAnswers);
    let request = Request::get("/tokens").header("host", "localhost").body(Full::<Bytes>::default()).unwrap();
    let mut client = connect(address).await;
    let response = tokio::spawn(async move { client.send_request(request).await });
    until(|| setup.store.held() == 1).await;
    response.abort();
    // The keeper asks again with the id, gets the first answer, and ends the hold.
    until(|| setup.store.held() == 2).await;
    setup.store.end();
    setup.until_counts("/tokens", (0, 10)).await;
}

#[tokio::test]
async fn some_responses_give_back_their_cost() {
    let setup = setup();
    let rule = setup.rule().cost(10).refund_if(|response| response.status.is_server_error());
    let failing = || async { (StatusCode::INTERNAL_SERVER_ERROR, "sorry") };
    let app = Router::new()
        .route("/tokens", on_get(failing).post(|| async { "done" }))
        .route("/strict", on_get(failing));
    let address = serve(app.layer(RateLimitLayer::builder(rule).build().unwrap())).await;
    assert_eq!(get(address, "/tokens").await.status, StatusCode::INTERNAL_SERVER_ERROR);
    setup.until_counts("/tokens", (0, 0)).await;
    // A refund gives back what policies cost as well, as it does without a hold.
    assert_eq!(get(address, "/strict").await.status, StatusCode::INTERNAL_SERVER_ERROR);
    setup.until_counts("/strict", (0, 0)).await;
    assert_eq!(setup.used("/strict").await, [0, 0]);
    assert_eq!(send(address, "POST /tokens", &[]).await.status, StatusCode::OK);
    setup.until_counts("/tokens", (0, 10)).await;
}

/// The inner layer gives back its own charge, and not that of the layer around it.
#[tokio::test]
async fn a_refund_is_that_of_its_own_layer() {
    let setup = setup();
    let rule = setup.rule().cost(10).refund_if(|response| response.status.is_server_error());
    let outer = Limiter::builder("outer").quota(a_day(100));
    let outer = outer.build_in_flight(InFlight::new(4).unwrap(), MemoryStore::new()).unwrap();
    let failing = || async { (StatusCode::INTERNAL_SERVER_ERROR, "sorry") };
    let app = Router::new().route("/tokens", on_get(failing));
    let app = app.layer(RateLimitLayer::builder(rule).build().unwrap());
    let address = serve(app.layer(InFlightLayer::with_limiter(outer.clone(), Global).cost(20))).await;
    assert_eq!(get(address, "/tokens").await.status, StatusCode::INTERNAL_SERVER_ERROR);
    setup.until_counts("/tokens", (0, 0)).await;
    let everybody = || Key::parts(std::iter::empty::<Key<'_>>());
    until(|| outer.peek(everybody()).live() == 0).await;
    assert_eq!(outer.limiter().peek(everybody()).unwrap().used(), 20);
}

/// Handlers that ask for their hold got none, and so their requests 500.
#[tokio::test]
async fn a_request_that_is_admitted_during_an_outage_has_a_hold_that_nothing_counts() {
    let setup = setup();
    let admitting = setup.rule().cost(10).on_store_error(OnStoreError::Admit);
    let layer = RateLimitLayer::builder(admitting).build().unwrap();
    let app = Router::new()
        .route("/tokens", on_get(costs_seven))
        .route("/streams", on_get(costs_seven))
        .route("/strict", on_get(costs_seven));
    let address = serve(app.layer(layer)).await;
    setup.store.begin(StoreFault::unreachable());
    for path in ["/tokens", "/streams", "/strict"] {
        assert_eq!(get(address, path).await.status, StatusCode::OK, "{path}");
    }
    setup.store.end();
    for path in ["/tokens", "/streams"] {
        assert_eq!(setup.counts(path).await, (0, 0), "{path}");
    }
}

/// The client is told that its request failed, so it is not charged for it.
#[tokio::test]
async fn a_request_that_is_refused_with_an_unknown_outcome_costs_nothing() {
    let setup = setup();
    let layer = RateLimitLayer::builder(setup.rule().cost(10)).build().unwrap();
    let address = serve(Router::new().route("/strict", on_get(costs_seven)).layer(layer)).await;
    for fault in [StoreFault::LosesAnswers, StoreFault::Fails(AnswerError::Late.into())] {
        setup.store.begin(fault);
        assert_eq!(get(address, "/strict").await.status, StatusCode::SERVICE_UNAVAILABLE);
        setup.store.end();
        // The next one waits until the keeper has ended the first.
        let admitted = async {
            while get(address, "/strict").await.status != StatusCode::OK {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, admitted).await.unwrap();
    }
    setup.until_counts("/strict", (0, 14)).await;
    assert_eq!(setup.used("/strict").await, [14, 6], "two requests that were admitted");
}

#[tokio::test]
async fn a_rule_without_a_keeper_refuses_what_it_cannot_end() {
    let setup = setup();
    let (warned, warnings) = mpsc::channel();
    let rule = Rule::policies(&setup.limiter, AttributeSources::new());
    let layer = RateLimitLayer::builder(rule).on_warning(move |warning| warned.send(warning).unwrap());
    let app =
        Router::new().route("/tokens", on_get(costs_seven)).route("/plain", on_get(|| async { "plain" }));
    let address = serve(app.layer(layer.build().unwrap())).await;
    let refused = get(address, "/tokens").await;
    assert_eq!(refused.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(refused.json()["detail"].as_str().is_some_and(|detail| detail.contains("TG1008")));
    assert_eq!(warnings.try_iter().collect::<Vec<_>>(), [SetupWarning::NoKeeper]);
    assert_eq!(get(address, "/plain").await.status, StatusCode::OK);
    assert_eq!(setup.counts("/tokens").await, (0, 0));

    // A keeper without policies has no effect.
    let idle = RateLimitLayer::builder(Rule::unlimited().keeper(&setup.keeper)).build();
    assert!(matches!(idle, Err(BuildError::NoEffect { setting: "keeper", .. })));
}
