//! The answers to allowed and denied requests.

use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use axum::routing::get as on_get;
use http::StatusCode;
use tollgate::QuotaStates;
use tollgate_tower::headers::{HeaderFormat, HeaderFormats};
use tollgate_tower::key::PeerAddress;
use tollgate_tower::{RateLimitLayer, Rule};

use crate::support::{Runs, clock, get, limiter, limiter_at, send, serve};

fn app(layer: RateLimitLayer) -> (Router, Runs) {
    let runs = Runs::default();
    let counting = runs.clone();
    let handler = move || async move {
        counting.add();
        "here you are"
    };
    (Router::new().route("/", on_get(handler)).layer(layer), runs)
}

#[tokio::test]
async fn the_sixth_of_five_is_denied_and_never_reaches_the_handler() {
    let clock = clock();
    let layer = RateLimitLayer::new(limiter_at("search", "5/1m", &clock), PeerAddress::new());
    let (app, runs) = app(layer);
    let address = serve(app).await;
    for left in (0..5).rev() {
        let answer = get(address, "/").await;
        assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, &b"here you are"[..]));
        assert_eq!(answer.header("ratelimit-policy"), Some("\"search\";q=5;w=60"));
        assert_eq!(answer.header("ratelimit"), Some(&*format!("\"search\";r={left};t=42")));
        assert_eq!(answer.header("retry-after"), None);
    }

    let denied = get(address, "/").await;
    assert_eq!(denied.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(denied.header("retry-after"), Some("42"), "41.6 seconds, rounded up");
    assert_eq!(denied.header("content-type"), Some("application/problem+json"));
    assert_eq!(denied.header("cache-control"), Some("no-store"));
    assert_eq!(denied.header("ratelimit"), Some("\"search\";r=0;t=42"));
    let body = serde_json::json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota exceeded",
        "status": 429,
        "detail": "5/1m has 0 of 5 left, less than the request costs; the next window starts in 42 s",
        "violated-policies": ["search"],
        "allowed": false,
        "policy": "search",
        "quota": "5/1m",
        "limit": 5,
        "used": 5,
        "remaining": 0,
        "reset_after_ms": 41_600,
        "retry_after_ms": 41_600,
        "window": { "start": 1_700_000_040_000_i64, "end": 1_700_000_100_000_i64 },
        "source": "store",
        "reason": "quota_exceeded",
    });
    assert_eq!(denied.json(), body);
    assert_eq!(runs.count(), 5);

    clock.advance(Duration::from_secs(42));
    assert_eq!(get(address, "/").await.status, StatusCode::OK, "whoever waited as told is let in");
    assert_eq!(runs.count(), 6);
}

#[tokio::test]
async fn a_handler_finds_where_its_quotas_stand() {
    let layer = RateLimitLayer::new(limiter("search", "5/1m"), PeerAddress::new());
    let handler =
        |Extension(counted): Extension<QuotaStates>| async move { counted[0].remaining().to_string() };
    let address = serve(Router::new().route("/", on_get(handler)).layer(layer)).await;
    assert_eq!(get(address, "/").await.body, "4");
    assert_eq!(get(address, "/").await.body, "3");
}

#[tokio::test]
async fn allowed_and_denied_answers_have_headers_in_every_format() {
    let together = |formats: [HeaderFormat; 2]| HeaderFormats::new(formats).unwrap();
    for (formats, names) in [
        (HeaderFormat::Draft11.into(), &["ratelimit-policy", "ratelimit"][..]),
        (
            HeaderFormat::Draft06.into(),
            &["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "ratelimit-policy"],
        ),
        (
            HeaderFormat::XRateLimit.into(),
            &["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
        ),
        (
            together([HeaderFormat::Kong, HeaderFormat::Draft11]),
            &[
                "ratelimit-policy",
                "ratelimit",
                "ratelimit-limit",
                "ratelimit-remaining",
                "ratelimit-reset",
                "x-ratelimit-limit-minute",
                "x-ratelimit-remaining-minute",
            ],
        ),
        (HeaderFormat::None.into(), &[]),
    ] {
        let rule = Rule::new(limiter("search", "1/1m")).key(PeerAddress::new());
        let layer = RateLimitLayer::builder(rule).header_format(formats).expose_headers().build().unwrap();
        let address = serve(app(layer).0).await;
        for status in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
            let answer = get(address, "/").await;
            assert_eq!(answer.status, status);
            let told = answer.headers.keys().filter(|name| name.as_str().contains("ratelimit"));
            assert_eq!(told.count(), names.len(), "{formats}: {:?}", answer.headers);
            assert!(names.iter().all(|name| answer.headers.contains_key(*name)), "{formats}");
            assert_eq!(answer.header("retry-after").is_some(), status == StatusCode::TOO_MANY_REQUESTS);
            let exposed = answer.header("access-control-expose-headers").unwrap_or_default().to_lowercase();
            for name in names {
                assert!(exposed.split(", ").any(|exposed| exposed == *name), "{formats}: {exposed}");
            }
        }
    }
}

#[tokio::test]
async fn jitter_only_ever_adds() {
    let rule = Rule::new(limiter("search", "0/1m")).key(PeerAddress::new()).cost(0);
    let layer = RateLimitLayer::builder(rule).retry_jitter(Duration::from_millis(8_001)).build().unwrap();
    let never = serve(app(layer).0).await;
    assert_eq!(get(never, "/").await.header("retry-after"), None, "there is nothing to add to");

    let rule = Rule::new(limiter("search", "1/1m")).key(PeerAddress::new());
    let layer = RateLimitLayer::builder(rule).retry_jitter(Duration::from_millis(8_001)).build().unwrap();
    let address = serve(app(layer).0).await;
    get(address, "/").await;
    let mut waits = Vec::new();
    for _ in 0..60 {
        waits.push(get(address, "/").await.header("retry-after").unwrap().parse::<u64>().unwrap());
    }
    assert!(waits.iter().all(|wait| (42..=51).contains(wait)), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait > 42), "sixty times no jitter: {waits:?}");
}

#[tokio::test]
async fn a_denial_can_be_replaced_with_where_its_quotas_stand_at_hand() {
    let rule = Rule::new(limiter("search", "1/1m")).key(PeerAddress::new());
    let layer = RateLimitLayer::builder(rule).on_denied(|denial, mut response| {
        let state = denial.state().unwrap();
        *response.status_mut() = StatusCode::FORBIDDEN;
        *response.body_mut() =
            format!("{:?} after {} of {}", state.reason(), state.used(), state.limit()).into();
        response
    });
    let address = serve(app(layer.build().unwrap()).0).await;
    get(address, "/").await;
    let denied = get(address, "/").await;
    assert_eq!(denied.status, StatusCode::FORBIDDEN);
    assert_eq!(denied.body, "Some(QuotaExceeded) after 1 of 1");
    assert_eq!(denied.header("retry-after"), Some("42"), "what was not replaced is there");
}

#[tokio::test]
async fn head_is_answered_without_a_body_and_options_is_counted_unless_skipped() {
    let layer = RateLimitLayer::new(limiter("search", "1/1m"), PeerAddress::new());
    let address = serve(app(layer).0).await;
    let allowed = send(address, "HEAD /", &[]).await;
    assert_eq!((allowed.status, allowed.body.len()), (StatusCode::OK, 0));
    assert_eq!(allowed.header("ratelimit"), Some("\"search\";r=0;t=42"));
    let denied = send(address, "HEAD /", &[]).await;
    assert_eq!((denied.status, denied.body.len()), (StatusCode::TOO_MANY_REQUESTS, 0));
    assert_eq!(denied.header("retry-after"), Some("42"));
    assert_eq!(send(address, "OPTIONS /", &[]).await.status, StatusCode::TOO_MANY_REQUESTS);

    let rule = Rule::new(limiter("search", "1/1m"))
        .key(PeerAddress::new())
        .skip(|head| head.method() == http::Method::OPTIONS);
    let address = serve(app(RateLimitLayer::builder(rule).build().unwrap()).0).await;
    for _ in 0..3 {
        let skipped = send(address, "OPTIONS /", &[]).await;
        assert_eq!(skipped.status, StatusCode::METHOD_NOT_ALLOWED, "as the router answers it");
        assert_eq!(skipped.header("ratelimit"), None);
    }
    assert_eq!(get(address, "/").await.header("ratelimit"), Some("\"search\";r=0;t=42"));
}

#[tokio::test]
async fn a_cost_is_fixed_or_of_the_request() {
    let rule = Rule::new(limiter("search", "10/1m")).key(PeerAddress::new()).cost(4);
    let address = serve(app(RateLimitLayer::builder(rule).build().unwrap()).0).await;
    assert_eq!(get(address, "/").await.header("ratelimit"), Some("\"search\";r=6;t=42"));

    let rule = Rule::new(limiter("search", "10/1m")).key(PeerAddress::new()).cost_of(|head| {
        head.headers().get("x-pages").and_then(|pages| pages.to_str().ok()?.parse().ok()).unwrap_or(1)
    });
    let address = serve(app(RateLimitLayer::builder(rule).build().unwrap()).0).await;
    assert_eq!(
        send(address, "GET /", &[("x-pages", "7")]).await.header("ratelimit"),
        Some("\"search\";r=3;t=42")
    );
    let denied = send(address, "GET /", &[("x-pages", "11")]).await;
    assert_eq!(denied.json()["reason"], "cost_exceeds_limit");
    assert_eq!(denied.header("retry-after"), None, "it can never pass");
    assert_eq!(get(address, "/").await.header("ratelimit"), Some("\"search\";r=2;t=42"));
}

/// The outer layer's headers replaced those of a denial by the inner one: a 429 with many units left.
#[tokio::test]
async fn a_denial_has_the_headers_of_the_layer_that_denied() {
    let layer = |name, quota, format| {
        let rule = Rule::new(limiter(name, quota)).key(PeerAddress::new());
        RateLimitLayer::builder(rule).header_format(format).build().unwrap()
    };
    for (format, name, told) in [
        (HeaderFormat::Draft11, "ratelimit", ["\"outer\";r=8;t=42", "\"inner\";r=0;t=42"]),
        (HeaderFormat::XRateLimit, "x-ratelimit-limit", ["9", "1"]),
    ] {
        let (app, _) = app(layer("inner", "1/1m", format));
        let address = serve(app.layer(layer("outer", "9/1m", format))).await;
        for (status, told) in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS].into_iter().zip(told) {
            let answer = get(address, "/").await;
            assert_eq!((answer.status, answer.header(name)), (status, Some(told)));
        }
    }
}

#[tokio::test]
async fn a_layer_may_leave_no_decision() {
    for leaves in [true, false] {
        let builder = RateLimitLayer::builder(Rule::new(limiter("search", "1/1m")).key(PeerAddress::new()));
        let layer = if leaves { builder } else { builder.without_decisions() }.build().unwrap();
        let handler = |counted: Option<Extension<QuotaStates>>| async move {
            counted.map_or("nothing", |_| "what was counted")
        };
        let address = serve(Router::new().route("/", on_get(handler)).layer(layer)).await;
        let answer = get(address, "/").await;
        assert_eq!(answer.body, if leaves { "what was counted" } else { "nothing" });
        assert_eq!(
            answer.header("ratelimit"),
            Some("\"search\";r=0;t=42"),
            "the client is told all the same"
        );
        assert_eq!(get(address, "/").await.status, StatusCode::TOO_MANY_REQUESTS);
    }
}

/// A bucket has no window: its clients are told when one more unit is free, and when the request fits.
#[tokio::test]
async fn clients_of_a_bucket_wait_for_its_next_unit() {
    let clock = clock();
    let limits = limiter_at("search", "100/1m~burst:2", &clock);
    let address = serve(app(RateLimitLayer::new(limits, PeerAddress::new())).0).await;
    for left in [1, 0] {
        let answer = get(address, "/").await;
        assert_eq!(answer.header("ratelimit-policy"), Some("\"search\";q=100;w=60;tollgate-burst=2"));
        assert_eq!(answer.header("ratelimit"), Some(&*format!("\"search\";r={left};t=1")));
    }
    let denied = get(address, "/").await;
    assert_eq!((denied.status, denied.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, Some("1")));
    let body: serde_json::Value = serde_json::from_slice(&denied.body).unwrap();
    assert_eq!(
        body["detail"],
        "100/1m~burst:2 has 0 of 2 left, less than the request costs; enough is free in 1 s"
    );
    assert_eq!(
        [&body["algorithm"], &body["retry_after_ms"], &body["next_after_ms"], &body["window"]],
        [&serde_json::json!("bucket"), &600.into(), &600.into(), &serde_json::Value::Null]
    );
    clock.advance(Duration::from_millis(599));
    assert_eq!(get(address, "/").await.status, StatusCode::TOO_MANY_REQUESTS);
    clock.advance(Duration::from_millis(1));
    assert_eq!(get(address, "/").await.status, StatusCode::OK);
}

/// The twenty units of a minute are free one by one in the next minute, one every three seconds.
#[tokio::test]
async fn clients_of_a_sliding_window_wait_into_the_next_one() {
    let clock = clock();
    let limits = limiter_at("search", "20/1m~sliding", &clock);
    let address = serve(app(RateLimitLayer::new(limits, PeerAddress::new())).0).await;
    for left in (0..20).rev() {
        let answer = get(address, "/").await;
        assert_eq!(answer.header("ratelimit-policy"), Some("\"search\";q=20;w=60"));
        // 41.6 seconds are left of this minute. The first of n units is free after 60 / n seconds of the next one.
        let wait = (41_600_u64 + 60_000 / (20 - left)).div_ceil(1_000);
        assert_eq!(answer.header("ratelimit"), Some(&*format!("\"search\";r={left};t={wait}")));
    }
    let denied = get(address, "/").await;
    assert_eq!((denied.status, denied.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, Some("45")));
    assert_eq!(denied.header("ratelimit"), Some("\"search\";r=0;t=45"));
    let body: serde_json::Value = serde_json::from_slice(&denied.body).unwrap();
    assert_eq!(
        body["detail"],
        "20/1m~sliding has 0 of 20 left, less than the request costs; enough is free in 45 s"
    );
    assert_eq!(
        [&body["algorithm"], &body["retry_after_ms"], &body["reset_after_ms"], &body["window"]],
        [&serde_json::json!("sliding"), &44_600.into(), &101_600.into(), &serde_json::Value::Null]
    );
    clock.advance(Duration::from_millis(44_599));
    assert_eq!(get(address, "/").await.status, StatusCode::TOO_MANY_REQUESTS);
    clock.advance(Duration::from_millis(1));
    assert_eq!(get(address, "/").await.status, StatusCode::OK);
}

/// Each unit is free a minute after its charge.
#[tokio::test]
async fn clients_of_a_log_wait_for_its_oldest_charge() {
    let clock = clock();
    let limits = limiter_at("search", "2/1m~log", &clock);
    let address = serve(app(RateLimitLayer::new(limits, PeerAddress::new())).0).await;
    for (left, wait) in [(1, 60), (0, 40)] {
        let answer = get(address, "/").await;
        assert_eq!(answer.header("ratelimit-policy"), Some("\"search\";q=2;w=60"));
        assert_eq!(answer.header("ratelimit"), Some(&*format!("\"search\";r={left};t={wait}")));
        clock.advance(Duration::from_secs(20));
    }
    // The first charge was 40 seconds ago, the second one 20.
    let denied = get(address, "/").await;
    assert_eq!((denied.status, denied.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, Some("20")));
    let body: serde_json::Value = serde_json::from_slice(&denied.body).unwrap();
    assert_eq!(
        [&body["algorithm"], &body["retry_after_ms"], &body["reset_after_ms"], &body["window"]],
        [&serde_json::json!("log"), &20_000.into(), &40_000.into(), &serde_json::Value::Null]
    );
    clock.advance(Duration::from_millis(19_999));
    assert_eq!(get(address, "/").await.status, StatusCode::TOO_MANY_REQUESTS);
    clock.advance(Duration::from_millis(1));
    let answer = get(address, "/").await;
    assert_eq!((answer.status, answer.header("ratelimit")), (StatusCode::OK, Some("\"search\";r=0;t=20")));
}
