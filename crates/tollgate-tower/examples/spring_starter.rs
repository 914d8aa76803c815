//! `cargo run --package tollgate-tower --features axum --example spring_starter`: the Spring starter's annotations
//! as rules for routes, on its counters in Redis. `examples/seeds/spring-starter/` explains each rule.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{Response, header};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::net::TcpListener;
use tollgate::{
    CountDenied, FallbackStore, Key, Limiter, OnStoreFailure, Quota, QuotaStates, Source, whole_seconds,
};
use tollgate_redis::{KeyLayout, RedisStore};
use tollgate_tower::headers::HeaderFormat;
use tollgate_tower::key::from_fn;
use tollgate_tower::{Denial, Head, RateLimitLayer, Rule};

const ADDRESS: &str = "127.0.0.1:3000";

/// The properties `ratelimiter.*`, with their defaults, and where Redis is.
pub(crate) struct Properties {
    pub(crate) redis: String,
    pub(crate) redis_timeout: Duration,
    pub(crate) redis_key_prefix: String,
    pub(crate) fail_open: bool,
    pub(crate) include_http_headers: bool,
    /// Whether the body of a denial names the key, as the starter's always does. Whoever gets the body reads it.
    pub(crate) tells_key: bool,
}

impl Default for Properties {
    fn default() -> Self {
        Self {
            redis: "redis://127.0.0.1".to_owned(),
            redis_timeout: Duration::from_secs(1),
            redis_key_prefix: "ratelimiter".to_owned(),
            fail_open: false,
            include_http_headers: true,
            tells_key: false,
        }
    }
}

/// A `@RateLimit`.
#[derive(Clone, Copy)]
struct RateLimit {
    name: &'static str,
    limit: u32,
    window: Duration,
    enabled: bool,
    key: for<'r> fn(Head<'r>) -> Option<Key<'r>>,
}

const MINUTE: Duration = Duration::from_secs(60);

/// On a class, by the default key: everybody together.
const BILLING: RateLimit = RateLimit {
    name: "billing",
    limit: 20,
    window: MINUTE,
    enabled: true,
    key: |_| Some("global:com.example.BillingService".into()),
};

/// On one of its methods, by a resolver of its own: each user.
const INVOICE_CREATE: RateLimit = RateLimit { name: "invoice-create", limit: 2, key: user, ..BILLING };

/// On another, and switched off.
const STATUS: RateLimit = RateLimit { name: "status", limit: 1, enabled: false, ..BILLING };

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (listener, app) = (TcpListener::bind(ADDRESS).await, app(Properties::default())?);
    axum::serve(listener.map_err(|error| format!("cannot listen on {ADDRESS}: {error}"))?, app).await?;
    Ok(())
}

pub(crate) fn app(properties: Properties) -> Result<Router, Box<dyn Error>> {
    let app = Router::new()
        .route("/billing/invoices", post(answer).get(answer))
        .route("/billing/status", get(answer));
    Ok(app.layer(limits(properties)?))
}

/// The limits of the class, and of those methods of it that have their own: the nearest holds, and it alone.
fn limits(properties: Properties) -> Result<RateLimitLayer, Box<dyn Error>> {
    let store = RedisStore::builder(properties.redis.parse()?)
        .prefix(&properties.redis_key_prefix)
        .layout(KeyLayout::SPRING_STARTER)
        .deadline(properties.redis_timeout)
        .connect_timeout(properties.redis_timeout)
        .build()?;
    let on_failure = if properties.fail_open { OnStoreFailure::Open } else { OnStoreFailure::Closed };
    let rule = |RateLimit { name, limit, window, enabled, key }: RateLimit| {
        if !enabled {
            return Ok(Rule::unlimited());
        }
        let quota = Quota::new(limit.into(), window)?;
        let limiter = Limiter::builder(name).quota(quota).count_denied(CountDenied::Yes);
        let limiter = limiter.build_shared(FallbackStore::new(store.clone(), on_failure))?;
        Ok::<_, Box<dyn Error>>(Rule::new(limiter).key(from_fn("header `x-user`", key)))
    };
    let format = if properties.include_http_headers { HeaderFormat::Draft06 } else { HeaderFormat::None };
    let layer = RateLimitLayer::builder(Rule::unlimited())
        .route("/billing/{*rest}", rule(BILLING)?)
        .route("POST /billing/invoices", rule(INVOICE_CREATE)?)
        .route("GET /billing/status", rule(STATUS)?)
        .header_format(format)
        .on_denied(move |denial, response| problem(&properties, denial, response));
    Ok(layer.build()?)
}

/// A header is anybody's word: take the user from your session or from a verified token.
fn user<'r>(head: Head<'r>) -> Option<Key<'r>> {
    let user = head.headers().get("x-user")?.to_str().ok()?;
    Some(format!("user:invoice-create:{user}").into())
}

/// The starter's `ProblemDetail`, in place of ours.
fn problem(properties: &Properties, denial: &Denial<'_>, mut response: Response<Bytes>) -> Response<Bytes> {
    let (Some(quota), Some(state)) = (denial.quota(), denial.state()) else { return response };
    let Some(window) = state.window() else { return response };
    let (name, limit, window) = (quota.policy(), state.limit(), window.length());
    let period = SignedDuration::try_from(window).unwrap_or_default();
    let wait = state.retry_after().map(whole_seconds);
    let mut body = json!({
        "type": "about:blank",
        "title": "Rate limit exceeded",
        "status": 429,
        "detail": format!("Rate limit exceeded: {name} (limit={limit}, window={period})"),
        "timestamp": Timestamp::from_millisecond(state.now().as_unix_millis()).map(|now| now.to_string()).ok(),
        "limit": limit,
        "windowSeconds": window.as_secs(),
        "name": name,
        "retryAfterSeconds": wait,
    });
    if let Some(user) = denial.head().headers().get("x-user").filter(|_| properties.tells_key) {
        body["key"] = format!("user:{name}:{}", String::from_utf8_lossy(user.as_bytes())).into();
    }
    *response.body_mut() = body.to_string().into();
    if !properties.include_http_headers {
        response.headers_mut().remove(header::RETRY_AFTER);
    }
    response
}

/// The fields of its `RateLimitDecision`; where it says -1, because nobody has counted, `remainingTime` is null. Of a
/// request without a limit nothing is counted.
async fn answer(counted: Option<Extension<QuotaStates>>) -> impl IntoResponse {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let fields = counted.as_ref().and_then(|counted| counted.decided()).map(|state| {
        let wait = state.retry_after().map(millis);
        let is_counted = state.source() != Source::Fallback;
        json!({
            "allowed": state.has_room(),
            "remainingTime": is_counted.then(|| wait.unwrap_or(0)),
            "retryAfter": wait,
            "resetAfter": millis(state.reset_after()),
        })
    });
    ([(header::CONTENT_TYPE, "application/json")], json!(fields).to_string())
}
