//! Refunds once the cost of a request is known.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Extension;
use axum::routing::{get as on_get, post as on_post};
use http::StatusCode;
use hyper::body::Frame;
use tokio::sync::Barrier;
use tollgate::{
    AnswerError, FallbackStore, Key, Limiter, LocalShare, MemoryStore, OnStoreFailure, SharedLimiter, Store,
};
use tollgate_testkit::{FaultyStore, StoreFault};
use tollgate_tower::key::Global;
use tollgate_tower::{RateLimitLayer, Reservation, Rule};

use crate::support::{PATIENCE, a_day, clock, get, limiter, limiter_at, send, serve, until};

fn all() -> Key<'static> {
    Key::parts(std::iter::empty::<Key<'_>>())
}

fn waiting(quota: &str) -> SharedLimiter<FaultyStore<MemoryStore>> {
    let limiter = Limiter::builder("search").quota(quota.parse().unwrap());
    limiter.build_shared(FaultyStore::new(MemoryStore::new())).unwrap()
}

async fn used<S: Store>(limiter: &SharedLimiter<S>) -> u64 {
    limiter.peek(all()).await.unwrap().used()
}

#[tokio::test]
async fn only_failed_logins_count() {
    only_failed_count(&waiting("3/1d@first_hit")).await;
    only_failed_count(&limiter("login", "3/1m").into()).await;
}

async fn only_failed_count<S: Store + Clone + 'static>(limiter: &SharedLimiter<S>) {
    let rule = Rule::new(limiter.clone()).key(Global).refund_if(|response| response.status.is_success());
    let login = |body: Bytes| async move {
        if body.is_empty() { StatusCode::FORBIDDEN } else { StatusCode::NO_CONTENT }
    };
    let handler = on_post(login).get(|| async { StatusCode::NO_CONTENT });
    let layer = RateLimitLayer::builder(rule).build().unwrap();
    let address = serve(Router::new().route("/", handler).layer(layer)).await;
    for _ in 0..5 {
        assert_eq!(get(address, "/").await.status, StatusCode::NO_CONTENT);
        assert_eq!(used(limiter).await, 0, "it is given back before the response is there");
    }
    for failed in 1..=3 {
        assert_eq!(send(address, "POST /", &[]).await.status, StatusCode::FORBIDDEN);
        assert_eq!(used(limiter).await, failed);
    }
    assert_eq!(get(address, "/").await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(used(limiter).await, 3, "what a denial did not take is not given back");
}

#[tokio::test]
async fn a_refund_goes_to_the_window_that_was_charged_or_nowhere() {
    let clock = clock();
    let limiter = limiter_at("login", "5/1m", &clock);
    let rule = Rule::new(limiter.clone()).key(Global).refund_if(|_| true);
    // While the request runs, its window closes, and others use the next one.
    let next = limiter.clone();
    let handler = move || async move {
        clock.advance(Duration::from_secs(60));
        assert_eq!(next.check_cost(all(), 2).unwrap().used(), 2);
    };
    let layer = RateLimitLayer::builder(rule).build().unwrap();
    let address = serve(Router::new().route("/", on_get(handler)).layer(layer)).await;
    assert_eq!(get(address, "/").await.status, StatusCode::OK);
    assert_eq!(limiter.peek(all()).unwrap().used(), 2, "the next window keeps what it counted");
}

/// What a handler does with its reservation.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Commit(u32),
    CommitTwice(u32),
    Cancel,
    Drop,
    Fail,
}

async fn settle<S: Store + Clone + 'static>(limiter: &SharedLimiter<S>, deed: Deed) -> StatusCode {
    let handler = move |Extension(reservation): Extension<Reservation>| async move {
        assert_eq!(reservation.units(), 10);
        match deed {
            Deed::Commit(actual) => reservation.commit(actual).await.unwrap(),
            Deed::CommitTwice(actual) => {
                reservation.clone().commit(actual).await.unwrap();
                reservation.commit(1).await.unwrap();
                reservation.cancel().await.unwrap();
            }
            Deed::Cancel => reservation.cancel().await.unwrap(),
            Deed::Drop => {}
            Deed::Fail => return StatusCode::INTERNAL_SERVER_ERROR,
        }
        StatusCode::OK
    };
    let rule = Rule::new(limiter.clone()).key(Global).cost(10).reserve();
    let layer = RateLimitLayer::builder(rule).build().unwrap();
    let address = serve(Router::new().route("/", on_get(handler)).layer(layer)).await;
    get(address, "/").await.status
}

#[tokio::test]
async fn a_reservation_is_settled_at_the_committed_cost() {
    for (deed, expected) in [
        (Deed::Commit(0), 0),
        (Deed::Commit(3), 3),
        (Deed::Commit(10), 10),
        (Deed::Commit(12), 12),
        (Deed::CommitTwice(3), 3),
        (Deed::Cancel, 0),
        (Deed::Drop, 0),
        (Deed::Fail, 0),
    ] {
        let at_once = limiter("search", "11/1m").into();
        settle(&at_once, deed).await;
        assert_eq!(used(&at_once).await, expected, "{deed:?}");

        let later = waiting("11/1d@first_hit");
        settle(&later, deed).await;
        // A separate task gives back a reservation that was dropped.
        let settled = async {
            while used(&later).await != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, settled).await.unwrap();
    }
}

/// With two layers, the inner reservation replaced the outer one, which was dropped. So the outer layer gave everything
/// back at once, and never denied.
#[tokio::test]
async fn reservations_of_two_layers_are_settled_together() {
    for (deed, used_up) in [(Deed::Commit(3), 3), (Deed::Commit(12), 12), (Deed::Cancel, 0), (Deed::Drop, 0)]
    {
        let (inner, outer) = (limiter("inner", "100/1m"), limiter("outer", "100/1m"));
        let (within, seen) = (outer.clone(), inner.clone());
        let handler = move |Extension(reservation): Extension<Reservation>| async move {
            assert_eq!((reservation.units(), within.peek(all()).unwrap().used()), (10, 20));
            assert_eq!(seen.peek(all()).unwrap().used(), 10);
            match deed {
                Deed::Commit(actual) => reservation.commit(actual).await.unwrap(),
                Deed::Cancel => reservation.cancel().await.unwrap(),
                _ => {}
            }
        };
        let reserves = |limiter: &Limiter<_>, cost| {
            let rule = Rule::new(limiter.clone()).key(Global).cost(cost).reserve();
            RateLimitLayer::builder(rule).build().unwrap()
        };
        let app = Router::new().route("/", on_get(handler));
        let address = serve(app.layer(reserves(&inner, 10)).layer(reserves(&outer, 20))).await;
        assert_eq!(get(address, "/").await.status, StatusCode::OK);
        let used = |limiter: &Limiter<_>| limiter.peek(all()).unwrap().used();
        assert_eq!((used(&inner), used(&outer)), (used_up, used_up), "{deed:?}");
    }
}

/// The reservation of each layer waited for the inner one, so a commit took the sum of both deadlines (G6).
#[tokio::test]
async fn reservations_of_two_layers_wait_for_their_stores_together() {
    let both_wait = Arc::new(Barrier::new(2));
    let reserves = |store: &FaultyStore<MemoryStore>| {
        let both_wait = Arc::clone(&both_wait);
        let store = FallbackStore::new(store.clone(), OnStoreFailure::Closed).deadline(move || {
            let both_wait = Arc::clone(&both_wait);
            async move {
                both_wait.wait().await;
            }
        });
        let rule = Rule::new(SharedLimiter::new(a_day(9), Arc::new(store))).key(Global).reserve();
        RateLimitLayer::builder(rule).build().unwrap()
    };
    let (inner, outer) = (FaultyStore::new(MemoryStore::new()), FaultyStore::new(MemoryStore::new()));
    let app = {
        let (inner, outer) = (inner.clone(), outer.clone());
        let handler = move |Extension(reservation): Extension<Reservation>| async move {
            inner.begin(StoreFault::Hangs);
            outer.begin(StoreFault::Hangs);
            let settled = tokio::time::timeout(PATIENCE, reservation.commit(0)).await;
            let error = settled.expect("one waits for the other").unwrap_err();
            assert_eq!(error.cause().trouble_of(), Some(&AnswerError::Late));
        };
        Router::new().route("/", on_get(handler))
    };
    let address = serve(app.layer(reserves(&inner)).layer(reserves(&outer))).await;
    assert_eq!(get(address, "/").await.status, StatusCode::OK);
}

/// A charge that took nothing from the store has no receipt: a cost of 0 only peeks, and during an outage the local
/// memory counts instead.
#[tokio::test]
async fn units_beyond_an_empty_reservation_are_charged() {
    let share = LocalShare::new(1, 1).unwrap();
    for (cost, is_away, actual, expected) in
        [(0, false, 0, 0), (0, false, 7, 7), (4, true, 7, 7), (4, true, 3, 4), (4, false, 7, 7)]
    {
        let store = FaultyStore::new(MemoryStore::new());
        if is_away {
            store.begin(StoreFault::unreachable());
        }
        let store = FallbackStore::new(store, OnStoreFailure::Local(share));
        let limiter = SharedLimiter::new(a_day(9), Arc::new(store));
        let handler = move |Extension(reservation): Extension<Reservation>| async move {
            assert_eq!(reservation.units(), cost);
            reservation.commit(actual).await.unwrap();
        };
        let rule = Rule::new(limiter.clone()).key(Global).cost(cost).reserve();
        let layer = RateLimitLayer::builder(rule).build().unwrap();
        let address = serve(Router::new().route("/", on_get(handler)).layer(layer)).await;
        assert_eq!(get(address, "/").await.status, StatusCode::OK);
        assert_eq!(used(&limiter).await, expected, "{actual} of {cost}, away: {is_away}");
    }
}

#[tokio::test]
async fn more_than_was_reserved_is_charged_without_asking() {
    let limiter = limiter("search", "11/1m");
    let status = settle(&limiter.clone().into(), Deed::Commit(12)).await;
    assert_eq!(status, StatusCode::OK);
    assert!(!limiter.peek(all()).unwrap().is_allowed());
}

/// The cost of a streamed answer is known when the stream ends.
#[tokio::test]
async fn a_stream_commits_at_its_end() {
    let limiter = limiter("search", "100/1m");
    let handler = |Extension(reservation): Extension<Reservation>| async move {
        let (send, receive) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            let mut bytes = 0;
            for _ in 0..3 {
                bytes += 7;
                send.send(Bytes::from_static(b"7 bytes")).await.unwrap();
            }
            reservation.commit(bytes).await.unwrap();
        });
        Body::new(Chunks(receive))
    };
    let rule = Rule::new(limiter.clone()).key(Global).cost(50).reserve();
    let layer = RateLimitLayer::builder(rule).build().unwrap();
    let address = serve(Router::new().route("/", on_get(handler)).layer(layer)).await;
    let answer = get(address, "/").await;
    assert_eq!(answer.body.len(), 21);
    assert_eq!(answer.header("ratelimit"), Some("\"search\";r=50;t=42"), "as it stood when it began");
    until(|| limiter.peek(all()).unwrap().used() == 21).await;
}

/// Received chunks as a body.
struct Chunks(tokio::sync::mpsc::Receiver<Bytes>);

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}
