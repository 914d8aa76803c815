//! The example `spring_starter` on a real Redis, next to the steps of the published starter. The example enforces an
//! annotation on a method or on a class alone; the starter does not.

#[path = "../../examples/spring_starter.rs"]
#[allow(dead_code, reason = "its `main` is not called")]
mod example;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tollgate::Timestamp;
use tollgate_testkit::instant;
use tollgate_testkit::servers::{Server, Settings, Software};

use self::example::{Properties, app};
use crate::support::{Answer, send, serve};

/// Starts a server whose clock stands still, so that no window ends during a test.
fn redis(now: Timestamp) -> Server {
    let redis = Settings::new(Software::Redis).steered_clock().start();
    redis.clock().set(now);
    redis
}

fn noon() -> Timestamp {
    instant("2026-03-15T12:00:25Z")
}

fn properties(redis: &Server) -> Properties {
    let (address, patience) = (format!("redis://{}", redis.address()), Duration::from_secs(10));
    Properties { redis: address, redis_timeout: patience, ..Properties::default() }
}

async fn ask(address: SocketAddr, line: &str, user: &str) -> Answer {
    send(address, line, &[("x-user", user)]).await
}

async fn statuses(address: SocketAddr, line: &str, user: &str, times: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..times {
        statuses.push(ask(address, line, user).await.status.as_u16());
    }
    statuses
}

/// The starter's aspect needs an annotation on the method and one on the class, so it limits neither alone.
#[tokio::test]
async fn the_limit_of_a_method_replaces_that_of_its_class() {
    let redis = redis(noon());
    let address = serve(app(properties(&redis)).unwrap()).await;
    // Two for each user on the method, whatever the class allows.
    assert_eq!(statuses(address, "POST /billing/invoices", "alice", 3).await, [200, 200, 429]);
    assert_eq!(statuses(address, "POST /billing/invoices", "bob", 1).await, [200]);
    // Twenty for all users together on the other methods of the class.
    let mut others = statuses(address, "GET /billing/invoices", "alice", 20).await;
    others.extend(statuses(address, "GET /billing/invoices", "bob", 1).await);
    assert_eq!(others, [[200].repeat(20), vec![429]].concat());
    // A disabled annotation means no limit at all, neither its own nor that of the class.
    assert_eq!(statuses(address, "GET /billing/status", "alice", 3).await, [200, 200, 200]);
    assert_eq!(ask(address, "GET /billing/status", "alice").await.json(), Value::Null);
    // A request without a user is not counted as an empty user.
    assert_eq!(send(address, "POST /billing/invoices", &[]).await.status, 400);
}

#[tokio::test]
async fn counters_are_those_of_the_starter_and_shared_with_it() {
    let redis = redis(noon());
    let address = serve(app(properties(&redis)).unwrap()).await;
    let start = instant("2026-03-15T12:00:00Z").as_unix_millis();
    let name = format!("ratelimiter:user:invoice-create:alice:{start}");
    // The starter's steps: INCR, and a new counter expires one window and a second later.
    assert_eq!(redis.command::<u64>(["INCR", &name]), 1);
    assert_eq!(redis.command::<u64>(["EXPIRE", &name, "61"]), 1);
    assert_eq!(statuses(address, "POST /billing/invoices", "alice", 2).await, [200, 429]);
    assert_eq!(redis.command::<u64>(["INCR", &name]), 4, "it counts what was denied, and so do we for it");

    assert_eq!(statuses(address, "GET /billing/invoices", "alice", 1).await, [200]);
    let class_counter = format!("ratelimiter:global:com.example.BillingService:{start}");
    assert_eq!(redis.command::<u64>(["GET", &class_counter]), 1);
    // The rest of the window and a second: 35 s and 1.
    assert_eq!(redis.command::<i64>(["PTTL", &class_counter]), 36_000);

    let other = Properties { redis_key_prefix: "shop".to_owned(), ..properties(&redis) };
    let address = serve(app(other).unwrap()).await;
    assert_eq!(statuses(address, "POST /billing/invoices", "alice", 1).await, [200]);
    assert_eq!(redis.command::<u64>(["GET", &name.replace("ratelimiter", "shop")]), 1);
}

/// WRONG in its example: 1678900825000 mod 60000 is 25000, not 5000. So the window starts at ...800000, and the wait is
/// 35 s, not 55.
#[tokio::test]
async fn its_worked_example_with_the_right_numbers() {
    let redis = redis(Timestamp::from_unix_millis(1_678_900_825_000));
    let address = serve(app(properties(&redis)).unwrap()).await;
    let allowed = ask(address, "POST /billing/invoices", "alice").await.json();
    assert_eq!(
        allowed,
        json!({ "allowed": true, "remainingTime": 0, "retryAfter": null, "resetAfter": 35_000 })
    );
    let keys: Vec<String> = redis.command(["KEYS", "*"]);
    assert_eq!(keys, ["ratelimiter:user:invoice-create:alice:1678900800000"]);
}

#[tokio::test]
async fn a_denial_has_the_starters_body_and_headers() {
    let redis = redis(instant("2026-03-15T12:00:25.001Z"));
    let address = serve(app(properties(&redis)).unwrap()).await;
    let allowed = ask(address, "POST /billing/invoices", "alice").await;
    let told = |answer: &Answer| {
        ["retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"]
            .map(|name| answer.header(name).map(str::to_owned))
    };
    let some = |text: &str| Some(text.to_owned());
    // The starter sends them only with denials. It rounds down, so a client that obeys returns too early.
    assert_eq!(told(&allowed), [None, some("2"), some("1"), some("35")]);
    ask(address, "POST /billing/invoices", "alice").await;
    let denied = ask(address, "POST /billing/invoices", "alice").await;
    assert_eq!(denied.status, 429);
    assert_eq!(told(&denied), [some("35"), some("2"), some("0"), some("35")]);
    assert_eq!(denied.header("content-type"), Some("application/problem+json"));
    let mut body = json!({
        "type": "about:blank",
        "title": "Rate limit exceeded",
        "status": 429,
        "detail": "Rate limit exceeded: invoice-create (limit=2, window=PT1M)",
        "timestamp": "2026-03-15T12:00:25.001Z",
        "limit": 2,
        "windowSeconds": 60,
        "name": "invoice-create",
        "retryAfterSeconds": 35,
    });
    assert_eq!(denied.json(), body, "the key is a person, and is not told");

    // Settings add the key to the answer, and turn headers off.
    let telling = Properties { tells_key: true, include_http_headers: false, ..properties(&redis) };
    let address = serve(app(telling).unwrap()).await;
    let denied = ask(address, "POST /billing/invoices", "alice").await;
    body["key"] = "user:invoice-create:alice".into();
    assert_eq!((denied.json(), told(&denied)), (body, [None, None, None, None]));
}

/// Open on failure, the starter answers that the remaining units are unknown. Closed on failure, it threw an exception
/// that nothing mapped, which became a 500.
#[tokio::test]
async fn without_redis_it_fails_open_or_closed_by_its_setting() {
    let redis = redis(noon());
    let open = Properties { fail_open: true, ..properties(&redis) };
    let (open, closed) = (serve(app(open).unwrap()).await, serve(app(properties(&redis)).unwrap()).await);
    assert_eq!(statuses(open, "POST /billing/invoices", "alice", 3).await, [200, 200, 429]);
    redis.kill();
    let answer = ask(open, "POST /billing/invoices", "alice").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut fields = answer.json();
    let reset = fields["resetAfter"].take().as_u64().unwrap();
    assert!((1..=60_000).contains(&reset), "it is there also now: {reset}");
    let expected = json!({ "allowed": true, "remainingTime": null, "retryAfter": null, "resetAfter": null });
    assert_eq!(fields, expected);

    let refused = ask(closed, "POST /billing/invoices", "alice").await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (503, Some("1")));
    assert_eq!(refused.json()["type"], "urn:problem-type:tollgate:store-unavailable");
    let status = ask(closed, "GET /billing/status", "alice").await;
    assert_eq!(status.status, 200, "what has no limit needs no store");
}

/// The starter's own test calls the limiter; this one goes through the layer, with as many connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admits_exactly_twenty_of_fifty_concurrent_requests() {
    let redis = redis(noon());
    let address = serve(app(properties(&redis)).unwrap()).await;
    let mut requests = JoinSet::new();
    for _ in 0..50 {
        requests.spawn(async move { ask(address, "GET /billing/invoices", "alice").await.status.as_u16() });
    }
    let statuses = requests.join_all().await;
    let count = |status| statuses.iter().filter(|other| **other == status).count();
    assert_eq!((count(200), count(429)), (20, 30));
}
