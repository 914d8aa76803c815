//! `cargo run --package tollgate-tower --features axum,jwt --example jwt`: a limit for each user of a verified token.
//!
//! It prints a token that is good for an hour, and the command to use it. With a file of keys as your issuer publishes
//! them (a JSON Web Key Set) it takes that issuer's tokens: `... --example jwt keys.json`.

mod listen;

use std::error::Error;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::{Router, routing::get};
use base64ct::{Base64UrlUnpadded, Encoding};
use tollgate::{Clock, Limiter, Quota, SystemClock};
use tollgate_tower::key::jwt::{Algorithm, Claim, Keys, Verifier};
use tollgate_tower::{OnMissing, RateLimitLayer, Rule};

const AUDIENCE: &str = "https://api.example.org";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let verifier = match std::env::args().nth(1) {
        Some(file) => {
            let verifier = Verifier::new(read(&file)?, [AUDIENCE]);
            tokio::spawn(follow(file, verifier.clone()));
            verifier
        }
        None => {
            let secret: [u8; 32] = std::array::from_fn(|_| fastrand::u8(..));
            println!("curl -i -H 'Authorization: Bearer {}' localhost:3000", token(&secret));
            Verifier::new(Keys::from_secret(Algorithm::Hs256, &secret)?, [AUDIENCE])
        }
    };
    // A token that is not valid is answered 401, and so is none at all.
    let rule = Rule::new(Limiter::new(Quota::per_minute(3)))
        .key(Claim::new(verifier, "sub"))
        .on_missing(OnMissing::Unauthorized(HeaderValue::from_static("Bearer")));

    let layer = RateLimitLayer::builder(rule).build()?;
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(layer);
    let listener = listen::here().await?;
    axum::serve(listener, app).await?;
    Ok(())
}

fn read(file: &str) -> Result<Keys, Box<dyn Error>> {
    let keys = Keys::from_jwks(&std::fs::read(file)?)?;
    keys.broken().iter().for_each(|key| eprintln!("{file}: {key}"));
    Ok(keys)
}

/// Reads the keys again every minute. What cannot be read replaces nothing.
async fn follow(file: String, verifier: Verifier) {
    loop {
        tokio::time::sleep(Duration::from_secs(60)).await;
        match read(&file) {
            Ok(keys) => verifier.replace_keys(keys),
            Err(error) => eprintln!("{file}: {error}"),
        }
    }
}

/// What an issuer does.
fn token(secret: &[u8]) -> String {
    let expiry = SystemClock.now().as_unix_millis() / 1_000 + 3_600;
    let claims = format!(r#"{{"aud":"{AUDIENCE}","sub":"alice","exp":{expiry}}}"#);
    let [header, claims] =
        [r#"{"alg":"HS256"}"#, &claims].map(|part| Base64UrlUnpadded::encode_string(part.as_bytes()));
    let message = format!("{header}.{claims}");
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    let signature = ring::hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", Base64UrlUnpadded::encode_string(signature.as_ref()))
}
