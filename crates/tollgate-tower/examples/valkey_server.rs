//! `cargo run --package tollgate-tower --features axum,jwt --example valkey_server`: a public route, and one that is
//! limited for each user of Keycloak, on a Valkey server. `examples/seeds/valkey-server/` explains each part.

use std::{env, error::Error, time::Duration};

use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tollgate::{CountDenied, Key, Limiter, Quota};
use tollgate_redis::{KeyLayout, RedisStore};
use tollgate_tower::key::{from_fn, jwt::Keys, jwt::Verifier};
use tollgate_tower::{Head, OnStoreError, RateLimitLayer, Rule};

const JSON: (HeaderName, HeaderValue) = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));

const ADDRESS: &str = "0.0.0.0:8000";

/// The published server waits for Valkey without end.
const PATIENCE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let app = app(|name| env::var(name).ok()).await?;
    let listener = TcpListener::bind(ADDRESS).await;
    axum::serve(listener.map_err(|error| format!("cannot listen on {ADDRESS}: {error}"))?, app).await?;
    Ok(())
}

/// The whole service, as these variables have it.
pub(crate) async fn app(variable: impl Fn(&str) -> Option<String>) -> Result<Router, Box<dyn Error>> {
    let data = Router::new().route("/api/data", get(data));
    let other = || async { (StatusCode::NOT_FOUND, [JSON], detail("Not Found")) };
    let root = || async { ([JSON], json!({ "message": "Welcome to the API" }).to_string()) };
    Ok(limited(data.fallback(other), variable).await?.route("/", get(root)))
}

/// Puts the limit of each user before these routes, and before that the question who it is.
pub(crate) async fn limited(
    routes: Router,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Router, Box<dyn Error>> {
    let or = |name: &str, default: &str| variable(name).unwrap_or_else(|| default.to_owned());
    let number = |name: &str, default: &str| or(name, default).parse().map_err(|e| format!("{name}: {e}"));
    let (requests, seconds) =
        (number("RATE_LIMIT_REQUESTS", "5")?, number("RATE_LIMIT_WINDOW_SECONDS", "60")?);
    let valkey = format!("redis://{}:{}", or("VALKEY_HOST", "localhost"), or("VALKEY_PORT", "6379"));
    let store = RedisStore::builder(valkey.parse()?).layout(KeyLayout::USER_RATE_LIMIT);
    let store = store.deadline(PATIENCE).connect_timeout(PATIENCE).build()?;
    let quota = Quota::new(requests, Duration::from_secs(seconds));
    let quota = quota.map_err(|e| format!("RATE_LIMIT_REQUESTS, RATE_LIMIT_WINDOW_SECONDS: {e}"))?;
    let limiter =
        Limiter::builder("users").quota(quota).count_denied(CountDenied::Yes).build_shared(store)?;

    let (server, realm) =
        (or("KEYCLOAK_SERVER_URL", "http://localhost:8080"), or("KEYCLOAK_REALM", "master"));
    let keys = keys(&format!("{server}/realms/{realm}/protocol/openid-connect/certs").parse()?).await?;
    let verifier = Verifier::new(keys, [or("KEYCLOAK_CLIENT_ID", "fastapi-client").as_str(), "account"]);

    let too_many = format!("Rate limit exceeded. Maximum {requests} requests per {seconds} seconds.");
    // Admits while the store does not answer.
    let rule = Rule::new(limiter).key(from_fn("a user", user)).on_store_error(OnStoreError::Admit);
    let layer = RateLimitLayer::builder(rule).on_denied(move |_, mut denied| {
        *denied.body_mut() = detail(&too_many).into();
        denied.headers_mut().insert(JSON.0, JSON.1);
        denied
    });
    Ok(routes.layer(layer.build()?).layer(from_fn_with_state(verifier, authenticate)))
}

#[derive(Clone)]
struct User(String);

fn user<'r>(head: Head<'r>) -> Option<Key<'r>> {
    head.extensions().get().map(|User(user)| user.into())
}

async fn data(Extension(User(user)): Extension<User>) -> impl IntoResponse {
    ([JSON], json!({ "message": "Here is your rate-limited data!", "user_id": user }).to_string())
}

async fn authenticate(State(verifier): State<Verifier>, mut request: Request, next: Next) -> Response {
    match authenticated(request.headers(), &verifier) {
        Ok(user) => drop(request.extensions_mut().insert(user)),
        Err(why) => return (StatusCode::UNAUTHORIZED, [JSON], detail(&why)).into_response(),
    }
    next.run(request).await
}

fn authenticated(headers: &HeaderMap, verifier: &Verifier) -> Result<User, String> {
    let header = headers.get(header::AUTHORIZATION).ok_or("Missing Authorization header")?;
    let words: Vec<&str> = header.to_str().unwrap_or_default().split_whitespace().collect();
    let token = match words[..] {
        [scheme, token] if scheme.eq_ignore_ascii_case("bearer") => token,
        _ => return Err("Invalid Authorization header format".to_owned()),
    };
    let claims =
        verifier.verify(token).map_err(|e| format!("Invalid token or authentication failed: {e}"))?;
    let user = claims.text("sub").filter(|user| !user.is_empty());
    Ok(User(user.ok_or("Invalid token payload: missing sub claim")?.to_owned()))
}

fn detail(detail: &str) -> String {
    Value::from_iter([("detail", detail)]).to_string()
}

/// The keys that the realm signs with, as it publishes them.
async fn keys(uri: &Uri) -> Result<Keys, Box<dyn Error>> {
    // Keys that came over a connection without TLS, where TLS was asked for, could be anybody's.
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http"));
    let authority = authority.ok_or("KEYCLOAK_SERVER_URL: expected http://HOST[:PORT]")?;
    let (host, port) = (authority.host(), authority.port_u16().unwrap_or(80));
    let stream = TcpStream::connect((host, port)).await;
    let stream = stream.map_err(|e| format!("KEYCLOAK_SERVER_URL: cannot reach {host}:{port}: {e}"))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request =
        Request::get(uri.path()).header(header::HOST, authority.as_str()).body(Empty::<&[u8]>::new())?;
    let answer = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
    let keys = Keys::from_jwks(&answer).map_err(|e| format!("KEYCLOAK_REALM: {}: {e}", uri.path()))?;
    keys.broken().iter().for_each(|key| eprintln!("{}: {key}", uri.path()));
    Ok(keys)
}
