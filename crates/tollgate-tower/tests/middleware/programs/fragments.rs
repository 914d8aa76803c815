//! Parts of programs, as the pages have them. Each replaces lines of a program of `docs/middleware.md`, and brings the
//! imports that the program lacks.

use std::error::Error;
use std::net::SocketAddr;

use axum::{Router, routing::get};
use tollgate::{Limiter, Quota};
use tollgate_tower::{RateLimitLayer, key::PeerAddress};

type Whole = Result<Router, Box<dyn Error>>;

async fn readme(listener: tokio::net::TcpListener) -> std::io::Result<()> {
    let layer = RateLimitLayer::new(Limiter::new(Quota::per_minute(2)), PeerAddress::new());
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(layer);
    // The layer counts by address, and this makes axum tell it.
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
}

fn a_limit_for_each_api_key() -> Whole {
    use axum::http::HeaderName;
    use tollgate_tower::Rule;
    use tollgate_tower::key::{Header, KeyExtractor};

    let api_key = Header::new(HeaderName::from_static("x-api-key"));
    let rule = Rule::new(Limiter::new(Quota::per_minute(100))).key(api_key.or_else(PeerAddress::new()));
    let layer = RateLimitLayer::builder(rule).route("/health", Rule::unlimited()).build()?;
    Ok(Router::new().layer(layer))
}

fn an_attribute_from_a_header(
    limiter: &std::sync::Arc<tollgate_policy::PolicyLimiter<tollgate::MemoryStore>>,
) -> Whole {
    use tollgate_tower::{AttributeSources, Rule};

    let sources = AttributeSources::new()
        .with_fn("user", |head| head.headers().get("x-user")?.to_str().ok().map(Into::into));
    let layer = RateLimitLayer::builder(Rule::policies(limiter, sources)).build()?;
    Ok(Router::new().layer(layer))
}

fn headers() -> Whole {
    use tollgate_tower::Rule;
    use tollgate_tower::headers::{HeaderFormat, HeaderFormats};

    let rule = Rule::new(Limiter::new(Quota::per_minute(100))).key(PeerAddress::new());
    let formats = HeaderFormats::new([HeaderFormat::Draft11, HeaderFormat::XRateLimit])?;
    let layer = RateLimitLayer::builder(rule).header_format(formats).build()?;
    Ok(Router::new().layer(layer))
}

fn a_body() -> Whole {
    use axum::http::{HeaderValue, header::CONTENT_TYPE};
    use tollgate::MemoryStore;
    use tollgate_tower::Rule;

    // Headers and bodies name the limit `addresses`; it is `default` otherwise.
    let limiter = Limiter::builder("addresses").quota(Quota::per_minute(100)).build(MemoryStore::new())?;
    let rule = Rule::new(limiter).key(PeerAddress::new());
    let layer = RateLimitLayer::builder(rule);
    let layer = layer.on_denied(|denial, mut response| {
        if let Some(quota) = denial.quota() {
            *response.body_mut() = format!("too many requests for {}\n", quota.policy()).into();
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        }
        response
    });
    let layer = layer.build()?;
    Ok(Router::new().layer(layer))
}

fn at_most_n_requests_at_once() -> Whole {
    use tollgate_tower::InFlightLayer;

    let layer = InFlightLayer::new("4~in_flight".parse()?, PeerAddress::new());
    Ok(Router::new().layer(layer))
}

async fn requests_in_flight_across_processes() -> Whole {
    use axum::extract::Extension;
    use tollgate::HoldKeeper;
    use tollgate_redis::RedisStore;
    use tollgate_tower::{InFlightLayer, RequestHold};

    let (keeper, task) = HoldKeeper::new(tokio::time::sleep);
    tokio::spawn(task);
    let store = RedisStore::builder("redis://127.0.0.1".parse()?).prefix("shop").build()?;
    let tokens = Limiter::builder("tokens").quota(Quota::per_minute(100_000));
    let tokens = tokens.build_shared_in_flight("20~in_flight:30s".parse()?, store, &keeper)?;
    let layer = InFlightLayer::shared(tokens, PeerAddress::new()).cost(4_000);
    let handler = |Extension(hold): Extension<RequestHold>| async move {
        let answer = "the answer of a model";
        hold.set_cost(answer.len() as u32);
        answer
    };
    let app = Router::new().route("/", get(handler)).layer(layer);
    Ok(app)
}
