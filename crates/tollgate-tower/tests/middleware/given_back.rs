//! Units of a client that leaves while its charge in a real Redis is in flight.

use std::convert::Infallible;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::time::timeout;
use tollgate::{Key, Quota, SharedLimiter};
use tollgate_redis::RedisStore;
use tollgate_testkit::instant;
use tollgate_testkit::servers::{Settings, Software};
use tollgate_tower::key::from_fn;
use tollgate_tower::{RateLimitLayer, Rule};
use tower::service_fn;
use tower_layer::Layer;
use tower_service::Service;

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn refunds_a_client_that_left_during_the_call_to_redis() {
    let redis = Settings::new(Software::Redis).steered_clock().start();
    redis.clock().set(instant("2026-03-15T12:00:25Z"));
    let url = format!("redis://{}", redis.address()).parse().unwrap();
    let store = RedisStore::builder(url).deadline(PATIENCE).build().unwrap();
    let limiter = SharedLimiter::new(Quota::per_day(10), store);
    // Connects before the server hangs.
    assert!(limiter.check("bob").await.unwrap().is_allowed());

    let alice = from_fn("a name", |_| Some(Key::from("alice")));
    let layer = RateLimitLayer::builder(Rule::new(limiter.clone()).key(alice).cost(7).reserve());
    let mut service = layer.build().unwrap().layer(service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    }));
    redis.pause();
    {
        let answer = pin!(service.call(Request::new(())));
        assert!(answer.poll(&mut Context::from_waker(Waker::noop())).is_pending(), "nobody answers yet");
    }
    redis.resume();

    // A charged counter exists, even if its usage is 0 again.
    let given_back = async {
        while redis.command::<u64>(["DBSIZE"]) < 2 || limiter.peek("alice").await.unwrap().used() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, given_back).await.expect("it was not asked for, or not given back");
}
