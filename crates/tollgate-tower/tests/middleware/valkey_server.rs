//! The example `valkey_server` on a real Valkey, with tokens that an issuer has signed: the answers of the published
//! server, and the right ones.

#[path = "../../examples/valkey_server.rs"]
#[allow(dead_code, reason = "its `main` is not called")]
mod example;

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get as on_get;
use base64ct::{Base64UrlUnpadded, Encoding};
use http::StatusCode;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use tollgate::{Clock, SystemClock};
use tollgate_testkit::instant;
use tollgate_testkit::servers::{Server, Settings, Software};

use crate::support::{Answer, Runs, get, send, serve};

/// Signs tokens, and publishes its keys as Keycloak does.
struct Issuer {
    key: EcdsaKeyPair,
    address: SocketAddr,
}

impl Issuer {
    async fn start() -> Self {
        let key = key();
        let (x, y) = key.public_key().as_ref()[1..].split_at(32);
        let [x, y] = [x, y].map(Base64UrlUnpadded::encode_string);
        // Like Keycloak's own, the second key signs nothing.
        let keys = json!({ "keys": [
            { "kty": "EC", "crv": "P-256", "kid": "one", "use": "sig", "alg": "ES256", "x": x, "y": y },
            { "kty": "RSA", "kid": "two", "use": "enc", "alg": "RSA-OAEP", "n": "AQAB", "e": "AQAB" },
        ] });
        let keys = keys.to_string();
        let certificates = on_get(move || async move { keys });
        let path = "/realms/myrealm/protocol/openid-connect/certs";
        Self { key, address: serve(Router::new().route(path, certificates)).await }
    }

    fn token(&self, claims: &Value) -> String {
        signed(&self.key, claims)
    }

    /// Like Keycloak's: for an account, and for five minutes.
    fn token_of(&self, user: &str) -> String {
        self.token(&claims(user))
    }
}

fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap()
}

fn claims(user: &str) -> Value {
    json!({ "sub": user, "aud": "account", "azp": "react-client", "exp": now() + 300 })
}

fn now() -> i64 {
    SystemClock.now().as_unix_millis() / 1_000
}

fn signed(key: &EcdsaKeyPair, claims: &Value) -> String {
    let header = json!({ "alg": "ES256", "typ": "JWT", "kid": "one" });
    let parts = [&header, claims].map(|part| Base64UrlUnpadded::encode_string(part.to_string().as_bytes()));
    let message = parts.join(".");
    let signature = key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
    format!("{message}.{}", Base64UrlUnpadded::encode_string(signature.as_ref()))
}

/// The published server's variables.
fn variables(
    issuer: &Issuer,
    valkey: &Server,
    requests: u32,
    seconds: u64,
) -> impl Fn(&str) -> Option<String> {
    let values = [
        ("KEYCLOAK_SERVER_URL", format!("http://{}", issuer.address)),
        ("KEYCLOAK_REALM", "myrealm".to_owned()),
        ("KEYCLOAK_CLIENT_ID", "react-client".to_owned()),
        ("VALKEY_HOST", valkey.address().ip().to_string()),
        ("VALKEY_PORT", valkey.address().port().to_string()),
        ("RATE_LIMIT_REQUESTS", requests.to_string()),
        ("RATE_LIMIT_WINDOW_SECONDS", seconds.to_string()),
    ];
    move |name| Some(values.iter().find(|(other, _)| *other == name)?.1.clone())
}

const TEN_YEARS: u64 = 3_650 * 86_400;

async fn data(address: SocketAddr, token: &str) -> Answer {
    send(address, "GET /api/data", &[("authorization", &format!("Bearer {token}"))]).await
}

/// The published diagram: limit 3, four requests in the minute of 12:00, by the clock of a real Valkey.
#[tokio::test]
async fn the_fourth_request_of_a_minute_is_denied_and_the_next_minute_begins_anew() {
    let (issuer, valkey) = (Issuer::start().await, Settings::new(Software::Valkey).steered_clock().start());
    valkey.clock().set(instant("2026-03-15T12:00:10Z"));
    let address = serve(example::app(variables(&issuer, &valkey, 3, 60)).await.unwrap()).await;
    let token = issuer.token_of("alice");
    for (time, status) in
        [("12:00:10", 200), ("12:00:30", 200), ("12:00:45", 200), ("12:00:55", 429), ("12:01:00", 200)]
    {
        valkey.clock().set(instant(&format!("2026-03-15T{time}Z")));
        let answer = data(address, &token).await;
        assert_eq!(answer.status, status, "{time}: {answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        if status == 200 {
            let expected = json!({ "message": "Here is your rate-limited data!", "user_id": "alice" });
            assert_eq!(answer.json(), expected);
        } else {
            let detail = "Rate limit exceeded. Maximum 3 requests per 60 seconds.";
            assert_eq!(answer.json(), json!({ "detail": detail }));
            // The published server sends none; the right wait is the time to the end of the minute.
            assert_eq!(answer.header("retry-after"), Some("5"));
        }
    }
    let minute = instant("2026-03-15T12:00:00Z").as_unix_millis() / 60_000;
    let counters = [minute, minute + 1].map(|minute| format!("rate_limit:alice:{minute}"));
    assert_eq!(counters.map(|name| valkey.command::<u64>(["GET", &name])), [4, 1], "attempts are counted");
}

#[tokio::test]
async fn each_user_is_counted_under_the_keys_of_the_published_server() {
    let (issuer, valkey) = (Issuer::start().await, Server::start(Software::Valkey));
    let runs = Runs::default();
    let counting = runs.clone();
    let handler = on_get(move || async move { counting.add() });
    let routes = Router::new().route("/api/data", handler);
    let limited = example::limited(routes, variables(&issuer, &valkey, 2, TEN_YEARS)).await.unwrap();
    let address = serve(limited).await;

    let bucket = valkey.time().as_unix_millis() / 1_000 / TEN_YEARS as i64;
    // Like the published server, which has counted one request of alice's.
    assert_eq!(valkey.command::<u64>(["INCR", &format!("rate_limit:alice:{bucket}")]), 1);
    let (alice, bob) = (issuer.token_of("alice"), issuer.token_of("bob"));
    let mut statuses = Vec::new();
    for token in [&alice, &alice, &bob, &alice] {
        statuses.push(data(address, token).await.status.as_u16());
    }
    assert_eq!(statuses, [200, 429, 200, 429]);
    assert_eq!(runs.count(), 2, "what is denied never reaches the handler");
    let count = |user: &str| valkey.command::<u64>(["GET", &format!("rate_limit:{user}:{bucket}")]);
    assert_eq!((count("alice"), count("bob")), (4, 1), "attempts are counted, and whole users");
    let keys: Vec<String> = valkey.command(["KEYS", "*"]);
    assert!(keys.len() == 2 && keys.iter().all(|key| valkey.command::<i64>(["PTTL", key]) > 0), "{keys:?}");
}

/// The published server decoded tokens without verifying them. So any client that wrote `"sub": "alice"` used up the
/// limit of alice.
#[tokio::test]
async fn a_request_without_a_valid_token_is_answered_401_and_not_counted() {
    let (issuer, valkey) = (Issuer::start().await, Server::start(Software::Valkey));
    let address = serve(example::app(variables(&issuer, &valkey, 3, TEN_YEARS)).await.unwrap()).await;
    let good = issuer.token_of("alice");
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (header, _) = message.split_once('.').unwrap();
    let other = Base64UrlUnpadded::encode_string(claims("mallory").to_string().as_bytes());
    let none = Base64UrlUnpadded::encode_string(br#"{"alg":"none"}"#);
    let failed = |why: &str| format!("Invalid token or authentication failed: the token{why}");
    let (wrong, missing) = (failed("'s signature is wrong"), "Invalid token payload: missing sub claim");
    let format = "Invalid Authorization header format";
    let with = |name: &str, value: Value| {
        let mut claims = claims("alice");
        claims[name] = value;
        issuer.token(&claims)
    };
    let cases: [(Option<String>, &str); 13] = [
        (None, "Missing Authorization header"),
        (Some("Bearer".to_owned()), format),
        (Some(good.clone()), format),
        (Some(format!("Basic {good}")), format),
        (Some(format!("Bearer {good} {good}")), format),
        (Some(format!("Bearer {header}.{other}.{signature}")), &wrong),
        (Some(format!("Bearer {}", signed(&key(), &claims("alice")))), &wrong),
        (Some(format!("Bearer {none}.{other}.")), &failed(" is signed with an unknown key")),
        (Some("Bearer alice".to_owned()), &failed(" cannot be read")),
        (Some(format!("Bearer {}", with("exp", json!(now() - 3_600)))), &failed(" has expired")),
        (Some(format!("Bearer {}", with("aud", json!("others")))), &failed(" is for another audience")),
        (Some(format!("Bearer {}", with("sub", Value::Null))), missing),
        (Some(format!("Bearer {}", with("sub", json!("")))), missing),
    ];
    for (authorization, detail) in cases {
        let headers = authorization.as_deref().map(|value| [("authorization", value)]);
        let headers = headers.as_ref().map_or(&[][..], |headers| headers);
        for path in ["/api/data", "/other"] {
            let answer = send(address, &format!("GET {path}"), headers).await;
            assert_eq!(
                (answer.status, answer.json()),
                (StatusCode::UNAUTHORIZED, json!({ "detail": detail }))
            );
        }
    }
    // The scheme may have any case, and a client with a valid token is counted.
    let headers = [("authorization", format!("bearer {good}"))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let answer = send(address, "GET /other", &headers).await;
    assert_eq!((answer.status, answer.json()), (StatusCode::NOT_FOUND, json!({ "detail": "Not Found" })));
    let keys: Vec<String> = valkey.command(["KEYS", "*"]);
    assert!(matches!(&keys[..], [key] if valkey.command::<u64>(["GET", key]) == 1), "{keys:?}");
}

#[tokio::test]
async fn the_public_route_is_uncounted_and_a_failed_store_admits_all() {
    let (issuer, valkey) = (Issuer::start().await, Server::start(Software::Valkey));
    let address = serve(example::app(variables(&issuer, &valkey, 1, TEN_YEARS)).await.unwrap()).await;
    let token = issuer.token_of("alice");
    assert_eq!(data(address, &token).await.status, StatusCode::OK);
    assert_eq!(data(address, &token).await.status, StatusCode::TOO_MANY_REQUESTS);
    valkey.kill();
    for _ in 0..3 {
        assert_eq!(get(address, "/").await.json(), json!({ "message": "Welcome to the API" }));
        assert_eq!(data(address, &token).await.status, StatusCode::OK);
        assert_eq!(data(address, "forged").await.status, StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn names_the_variable_with_an_invalid_value() {
    let (issuer, valkey) = (Issuer::start().await, Server::start(Software::Valkey));
    let known = variables(&issuer, &valkey, 3, 60);
    let with_tls = format!("https://{}", issuer.address);
    for (name, value, says) in [
        ("RATE_LIMIT_REQUESTS", "many", "RATE_LIMIT_REQUESTS: invalid digit"),
        ("RATE_LIMIT_WINDOW_SECONDS", "-1", "RATE_LIMIT_WINDOW_SECONDS: invalid digit"),
        ("RATE_LIMIT_WINDOW_SECONDS", "0", "RATE_LIMIT_WINDOW_SECONDS: the window"),
        ("VALKEY_PORT", "x", "port"),
        ("KEYCLOAK_SERVER_URL", "/nowhere", "KEYCLOAK_SERVER_URL"),
        ("KEYCLOAK_SERVER_URL", with_tls.as_str(), "KEYCLOAK_SERVER_URL: expected http://"),
        ("KEYCLOAK_SERVER_URL", "http://127.0.0.1:1", "KEYCLOAK_SERVER_URL: cannot reach 127.0.0.1:1:"),
        ("KEYCLOAK_REALM", "other", "KEYCLOAK_REALM: /realms/other/"),
    ] {
        let with = |other: &str| if other == name { Some(value.to_owned()) } else { known(other) };
        let error = example::app(with).await.unwrap_err().to_string();
        assert!(error.contains(says), "{name}={value}: {error}");
    }
}
