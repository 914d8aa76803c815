//! Which tokens are valid, and that invalid ones count nothing.

use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding};
use http::{HeaderName, Request, header};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, KeyPair};
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::{Key, ManualClock, Timestamp};
use tollgate_testkit::block_on;
use tollgate_tower::Head;
use tollgate_tower::key::jwt::{Algorithm, Claim, Keys, KeysError, TokenError, Verifier};
use tollgate_tower::key::{Global, Identity, KeyExtractor};

/// Keys and tokens made by other libraries: see `jwt/make.py`.
const KEYS: &str = include_str!("../jwt/keys.json");
const TOKENS: &str = include_str!("../jwt/tokens.json");
const RSA_PEM: &str = include_str!("../jwt/rsa.pem");
const P256_PEM: &str = include_str!("../jwt/p256.pem");
const P384_PEM: &str = include_str!("../jwt/p384.pem");
const ED25519_PEM: &str = include_str!("../jwt/ed25519.pem");

const ALGORITHMS: [Algorithm; 12] = [
    Algorithm::Hs256,
    Algorithm::Hs384,
    Algorithm::Hs512,
    Algorithm::Rs256,
    Algorithm::Rs384,
    Algorithm::Rs512,
    Algorithm::Ps256,
    Algorithm::Ps384,
    Algorithm::Ps512,
    Algorithm::Es256,
    Algorithm::Es384,
    Algorithm::Ed25519,
];

const AUDIENCE: &str = "https://api.example.org";
const START: i64 = 1_700_000_000;
const EXPIRY: i64 = START + 600;

/// A token and its public key in PEM; `None` for a secret.
#[derive(Deserialize)]
struct Sample {
    algorithm: String,
    pem: Option<String>,
    token: String,
}

fn samples() -> Vec<Sample> {
    serde_json::from_str(TOKENS).unwrap()
}

fn algorithm(name: &str) -> Algorithm {
    ALGORITHMS.into_iter().find(|algorithm| algorithm.name() == name).unwrap()
}

fn secret() -> Vec<u8> {
    (0..64).collect()
}

fn pem(file: &str) -> &'static str {
    match file {
        "rsa.pem" => RSA_PEM,
        "p256.pem" => P256_PEM,
        "p384.pem" => P384_PEM,
        "ed25519.pem" => ED25519_PEM,
        _ => panic!("no key {file}"),
    }
}

/// The keys of the set, and the secrets.
fn all_keys() -> Keys {
    let secrets = [Algorithm::Hs256, Algorithm::Hs384, Algorithm::Hs512];
    let keys = Keys::from_jwks(KEYS.as_bytes()).unwrap();
    secrets
        .into_iter()
        .fold(keys, |keys, algorithm| keys.and(Keys::from_secret(algorithm, &secret()).unwrap()))
}

/// In the middle of the tokens' validity.
fn verifier(keys: Keys) -> Verifier {
    Verifier::new(keys, [AUDIENCE]).clock(at(START + 300))
}

fn at(seconds: i64) -> ManualClock {
    ManualClock::at(Timestamp::from_unix_millis(seconds * 1_000))
}

fn verify(verifier: &Verifier, token: &str) -> Result<String, TokenError> {
    verifier.verify(token).map(|claims| claims.text("sub").unwrap_or_default().to_owned())
}

fn part(value: &Value) -> String {
    Base64UrlUnpadded::encode_string(value.to_string().as_bytes())
}

fn claims() -> Value {
    json!({ "aud": AUDIENCE, "sub": "alice", "nbf": START, "exp": EXPIRY })
}

/// Returns `claims` with these changes.
fn claims_with(others: &Value) -> Value {
    let mut claims = claims();
    for (name, value) in others.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

/// Signs with the secret, whatever the header says.
fn signed(header: &Value, claims: &Value) -> String {
    signed_with(&secret(), header, claims)
}

fn signed_with(secret: &[u8], header: &Value, claims: &Value) -> String {
    let message = format!("{}.{}", part(header), part(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", Base64UrlUnpadded::encode_string(signature.as_ref()))
}

fn hs256() -> Value {
    json!({ "alg": "HS256" })
}

fn hs256_keys() -> Keys {
    Keys::from_secret(Algorithm::Hs256, &secret()).unwrap()
}

#[test]
fn tokens_of_other_libraries_are_valid_with_their_own_key_alone() {
    let samples = samples();
    assert_eq!(samples.len(), ALGORITHMS.len());
    let by_set = verifier(all_keys());
    for sample in &samples {
        assert_eq!(verify(&by_set, &sample.token), Ok("alice".to_owned()), "{}", sample.algorithm);
        assert_eq!(by_set.verify(&sample.token).unwrap().number("number"), Some(4711));

        for own in ALGORITHMS {
            let keys = match &sample.pem {
                Some(file) => Keys::from_pem(own, pem(file)),
                None => Keys::from_secret(own, &secret()),
            };
            // The same key with another algorithm is another key.
            let Ok(keys) = keys else { continue };
            let is_own = own == algorithm(&sample.algorithm);
            let expected = if is_own { Ok("alice".to_owned()) } else { Err(TokenError::UnknownKey) };
            assert_eq!(verify(&verifier(keys), &sample.token), expected, "{} by {own}", sample.algorithm);
        }
    }
}

/// Each byte of a token is either signed or part of the signature. Every fifth one is tried, with another offset for
/// each token.
#[test]
fn a_token_that_was_touched_anywhere_is_not_valid() {
    let by_set = verifier(all_keys());
    for (index, sample) in samples().into_iter().enumerate() {
        for at in (index % 5..sample.token.len()).step_by(5) {
            let mut touched = sample.token.clone().into_bytes();
            touched[at] = if touched[at] == b'A' { b'B' } else { b'A' };
            let touched = String::from_utf8(touched).unwrap();
            assert!(by_set.verify(&touched).is_err(), "{touched}");
        }
        for end in (index % 5..sample.token.len()).step_by(5) {
            assert!(by_set.verify(&sample.token[..end]).is_err());
        }
    }
}

#[test]
fn a_key_is_of_one_algorithm() {
    let matching = |algorithms: &[Algorithm], pem: &str| {
        for own in ALGORITHMS {
            let is_one = Keys::from_pem(own, pem).is_ok();
            assert_eq!(is_one, algorithms.contains(&own), "{own} with {pem}");
        }
    };
    matching(&ALGORITHMS[3..9], RSA_PEM);
    matching(&[Algorithm::Es256], P256_PEM);
    matching(&[Algorithm::Es384], P384_PEM);
    matching(&[Algorithm::Ed25519], ED25519_PEM);
    for own in ALGORITHMS {
        assert_eq!(Keys::from_secret(own, &secret()).is_ok(), ALGORITHMS[..3].contains(&own), "{own}");
        assert!(Keys::from_secret(own, RSA_PEM.as_bytes()).is_err(), "everybody knows it");
    }
}

/// The classical attacks: the key decides on the algorithm, whatever the header says.
#[test]
fn a_header_does_not_choose_how_it_is_verified() {
    let unsigned = format!("{}.{}.", part(&json!({ "alg": "none" })), part(&claims()));
    let public_keys: Vec<Vec<u8>> = {
        let der = |pem: &str| {
            let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
            base64ct::Base64::decode_vec(&base64).unwrap()
        };
        let set: Value = serde_json::from_str(KEYS).unwrap();
        let modulus = Base64UrlUnpadded::decode_vec(set["keys"][0]["n"].as_str().unwrap()).unwrap();
        vec![RSA_PEM.into(), RSA_PEM.trim().into(), der(RSA_PEM), modulus, KEYS.into(), der(ED25519_PEM)]
    };
    let own_jwk = json!({ "kty": "oct", "alg": "HS256", "k": Base64UrlUnpadded::encode_string(&[7; 32]) });
    let cases = [
        ("alg none", unsigned.clone(), TokenError::UnknownKey),
        (
            "alg None",
            unsigned.replace(&part(&json!({ "alg": "none" })), &part(&json!({ "alg": "None" }))),
            TokenError::UnknownKey,
        ),
        ("alg none, with a signature", signed(&json!({ "alg": "none" }), &claims()), TokenError::UnknownKey),
        (
            "no signature",
            format!("{}.{}.", part(&json!({ "alg": "RS256" })), part(&claims())),
            TokenError::Signature,
        ),
        ("no algorithm", signed(&json!({}), &claims()), TokenError::Malformed),
        ("algorithm in another case", signed(&json!({ "alg": "rs256" }), &claims()), TokenError::UnknownKey),
        (
            "a key of its own",
            signed_with(&[7; 32], &json!({ "alg": "HS256", "jwk": own_jwk }), &claims()),
            TokenError::UnknownKey,
        ),
        (
            "two algorithms",
            {
                let header = Base64UrlUnpadded::encode_string(br#"{"alg":"none","alg":"RS256"}"#);
                format!("{header}.{}.", part(&claims()))
            },
            TokenError::Malformed,
        ),
    ];
    let by_public = verifier(Keys::from_jwks(KEYS.as_bytes()).unwrap());
    for (case, token, error) in cases {
        assert_eq!(verify(&by_public, &token), Err(error), "{case}");
    }
    for key in public_keys {
        let confused = signed_with(&key, &hs256(), &claims());
        assert_eq!(verify(&by_public, &confused), Err(TokenError::UnknownKey), "a public key as a secret");
        let with_id = signed_with(&key, &json!({ "alg": "HS256", "kid": "rs256" }), &claims());
        assert_eq!(verify(&by_public, &with_id), Err(TokenError::UnknownKey), "a public key as a secret");
        // If there is a secret as well, that secret is used, and not the public key.
        assert_eq!(verify(&verifier(all_keys()), &confused), Err(TokenError::Signature));
    }
}

#[test]
fn every_claim_of_a_token_must_hold() {
    let with = |others: Value| signed(&hs256(), &claims_with(&others));
    let without = |name: &str| {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(name);
        signed(&hs256(), &claims)
    };
    let alice = || Ok("alice".to_owned());
    let (malformed, expired) = (Err(TokenError::Malformed), Err(TokenError::Expired));
    let cases = [
        ("nothing special", signed(&hs256(), &claims()), alice()),
        ("typed", signed(&json!({ "alg": "HS256", "typ": "at+jwt" }), &claims()), alice()),
        ("without a start", without("nbf"), alice()),
        ("several audiences", with(json!({ "aud": ["x", AUDIENCE] })), alice()),
        ("a secret of its own", signed_with(&[7; 64], &hs256(), &claims()), Err(TokenError::Signature)),
        ("without an expiry", without("exp"), expired.clone()),
        ("expired long ago", with(json!({ "exp": 0 })), expired.clone()),
        ("expired before there was time", with(json!({ "exp": -1e300 })), expired),
        ("an expiry that is a text", with(json!({ "exp": "4102444800" })), malformed.clone()),
        ("an expiry that is null", with(json!({ "exp": null })), malformed.clone()),
        ("not valid yet", with(json!({ "nbf": START + 361 })), Err(TokenError::NotYetValid)),
        ("a start that is a text", with(json!({ "nbf": "0" })), malformed.clone()),
        ("a start that is true", with(json!({ "nbf": true })), malformed.clone()),
        ("without an audience", without("aud"), Err(TokenError::Audience)),
        ("another audience", with(json!({ "aud": "https://other.example.org" })), Err(TokenError::Audience)),
        ("nearly the audience", with(json!({ "aud": format!("{AUDIENCE}/") })), Err(TokenError::Audience)),
        ("no audience of several", with(json!({ "aud": [] })), Err(TokenError::Audience)),
        ("the audience within", with(json!({ "aud": [[AUDIENCE]] })), Err(TokenError::Audience)),
        ("an audience that is an object", with(json!({ "aud": { "a": AUDIENCE } })), malformed.clone()),
        (
            "an extension",
            signed(&json!({ "alg": "HS256", "crit": ["b64"], "b64": false }), &claims()),
            malformed.clone(),
        ),
        ("claims that are a list", signed(&hs256(), &json!([1])), malformed.clone()),
        ("two parts", "e30.e30".to_owned(), malformed.clone()),
        ("four parts", format!("{}.e30", signed(&hs256(), &claims())), Err(TokenError::Signature)),
        ("padded", format!("{}=", signed(&hs256(), &claims())), malformed.clone()),
        ("too long", with(json!({ "x": "x".repeat(16_000) })), malformed.clone()),
        ("empty", String::new(), malformed),
    ];
    let verifier = verifier(hs256_keys());
    for (case, token, expected) in cases {
        assert_eq!(verify(&verifier, &token), expected, "{case}");
    }
}

#[test]
fn a_token_is_valid_from_its_start_to_its_expiry_give_or_take_the_leeway() {
    let token = signed(&hs256(), &claims());
    let fractions = signed(&hs256(), &claims_with(&json!({ "exp": EXPIRY as f64 + 0.5 })));
    let alice = || Ok("alice".to_owned());
    let exact = verifier(hs256_keys()).leeway(Duration::ZERO);
    for (millis, expected) in [
        (START * 1_000 - 1, Err(TokenError::NotYetValid)),
        (START * 1_000, alice()),
        (EXPIRY * 1_000 - 1, alice()),
        (EXPIRY * 1_000, Err(TokenError::Expired)),
    ] {
        let clock = ManualClock::at(Timestamp::from_unix_millis(millis));
        assert_eq!(verify(&exact.clone().clock(clock), &token), expected, "at {millis}");
    }
    let verify_at = |seconds, token| verify(&verifier(hs256_keys()).clock(at(seconds)), token);
    assert_eq!(verify_at(START - 61, &token), Err(TokenError::NotYetValid));
    assert_eq!(verify_at(START - 60, &token), alice());
    assert_eq!(verify_at(EXPIRY + 59, &token), alice());
    assert_eq!(verify_at(EXPIRY + 60, &token), Err(TokenError::Expired));
    assert_eq!(verify_at(EXPIRY + 60, &fractions), alice());
}

#[test]
fn audiences_and_issuers_are_those_that_are_named() {
    let token = |others: Value| signed(&hs256(), &claims_with(&others));
    let both = Verifier::new(hs256_keys(), ["a", "b"]).clock(at(START));
    assert!(both.verify(&token(json!({ "aud": "b" }))).is_ok());
    assert_eq!(both.verify(&token(json!({ "aud": "c" }))).unwrap_err(), TokenError::Audience);

    // A token for one audience is not for a service without an audience.
    let nobody = Verifier::new(hs256_keys(), []).clock(at(START));
    assert_eq!(nobody.verify(&token(json!({}))).unwrap_err(), TokenError::Audience);
    let mut for_nobody = claims();
    for_nobody.as_object_mut().unwrap().remove("aud");
    assert!(nobody.verify(&signed(&hs256(), &for_nobody)).is_ok());

    let issuer = verifier(hs256_keys()).issuer("https://login.example.org");
    assert!(issuer.verify(&token(json!({ "iss": "https://login.example.org" }))).is_ok());
    for other in [
        json!({}),
        json!({ "iss": "https://evil.example.org" }),
        json!({ "iss": ["https://login.example.org"] }),
    ] {
        assert_eq!(issuer.verify(&token(other)).unwrap_err(), TokenError::Issuer);
    }
}

#[test]
fn a_token_that_names_its_key_is_verified_with_no_other() {
    let named = |id: &str| signed(&json!({ "alg": "HS256", "kid": id }), &claims());
    let keys =
        || hs256_keys().named("new").and(Keys::from_secret(Algorithm::Hs256, &[1; 32]).unwrap().named("old"));
    let verifier = verifier(keys());
    assert!(verifier.verify(&named("new")).is_ok());
    assert_eq!(verifier.verify(&named("old")).unwrap_err(), TokenError::Signature);
    assert_eq!(verifier.verify(&named("other")).unwrap_err(), TokenError::UnknownKey);
    assert_eq!(verifier.verify(&named("")).unwrap_err(), TokenError::UnknownKey);
    // A token without an issuer may be from any of them.
    assert!(verifier.verify(&signed(&hs256(), &claims())).is_ok());
    assert_eq!(
        verifier.verify(&signed_with(&[2; 32], &hs256(), &claims())).unwrap_err(),
        TokenError::Signature
    );
}

#[test]
fn keys_can_be_replaced_while_they_are_used() {
    let verifier = verifier(hs256_keys());
    let clone = verifier.clone();
    let token = signed(&hs256(), &claims());
    assert!(clone.verify(&token).is_ok());
    verifier.replace_keys(Keys::from_secret(Algorithm::Hs256, &[1; 32]).unwrap());
    assert_eq!(clone.verify(&token).unwrap_err(), TokenError::Signature);
    assert!(clone.verify(&signed_with(&[1; 32], &hs256(), &claims())).is_ok());
    verifier.replace_keys(Keys::default());
    assert_eq!(clone.verify(&token).unwrap_err(), TokenError::UnknownKey);
}

/// One broken key made the whole set unusable. The issuer's new keys were never accepted, and once the old ones were
/// gone, every login failed.
#[test]
fn a_key_set_keeps_usable_keys_and_names_broken_ones() {
    let set = |keys: Value| Keys::from_jwks(json!({ "keys": keys }).to_string().as_bytes());
    let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    let good = json!({ "kty": "OKP", "crv": "Ed25519", "x": x });
    let with = |member: &str, value: Value| {
        let mut key = good.clone();
        key[member] = value;
        key
    };
    // Left out: other key types, other algorithms, other uses.
    for other in [
        json!({ "kty": "new" }),
        json!({ "kty": "EC", "crv": "P-521", "x": x, "y": x }),
        json!({ "kty": "OKP", "crv": "X25519", "x": x }),
        json!({ "kty": "RSA", "alg": "RSA-OAEP", "n": x, "e": "AQAB" }),
        with("use", json!("enc")),
        with("key_ops", json!(["sign"])),
    ] {
        assert!(matches!(set(json!([other])), Err(KeysError::NoKey(None))), "{other}");
        assert_eq!(set(json!([other, good])).unwrap().len(), 1, "{other}");
    }
    let short = Base64UrlUnpadded::encode_string(&[0xff; 255]);
    let enough = Base64UrlUnpadded::encode_string(&[0xff; 256]);
    let zeros = Base64UrlUnpadded::encode_string(&[&[0; 200][..], &[0xff; 255]].concat());
    for (broken, says) in [
        (json!({ "kty": "OKP", "crv": "Ed25519" }), "`x` is missing or not in base64url"),
        (with("kid", json!(7)), "expected a JSON Web Key"),
        (json!("a key"), "expected a JSON Web Key"),
        (with("x", json!("a=")), "`x` is missing or not in base64url"),
        (with("x", json!("AAAA")), "the key cannot be used for EdDSA"),
        (with("alg", json!("ES256")), "the key cannot be used for ES256"),
        (with("alg", json!("HS256")), "the key cannot be used for HS256"),
        (json!({ "kty": "EC", "crv": "P-256", "x": x, "y": "AAAA" }), "the key cannot be used for ES256"),
        (
            json!({ "kty": "EC", "crv": "P-256", "alg": "ES384", "x": x, "y": x }),
            "the key cannot be used for ES384",
        ),
        (
            json!({ "kty": "RSA", "n": short, "e": "AQAB" }),
            "an RSA key needs 2048 to 8192 bits, and an exponent of at most 32",
        ),
        (
            json!({ "kty": "RSA", "n": zeros, "e": "AQAB" }),
            "an RSA key needs 2048 to 8192 bits, and an exponent of at most 32",
        ),
        (
            json!({ "kty": "RSA", "n": enough, "e": "AQ" }),
            "an RSA key needs 2048 to 8192 bits, and an exponent of at most 32",
        ),
        (json!({ "kty": "oct", "k": x }), "`alg` is missing or not in base64url"),
        (json!({ "kty": "oct", "alg": "HS512", "k": x }), "the secret needs at least 64 random bytes"),
    ] {
        let says = format!("key 2 of the set cannot be used: {says}");
        let keys = set(json!([good, broken])).unwrap();
        assert_eq!(keys.len(), 1, "{broken}");
        let [found] = keys.broken() else { panic!("{broken}: {:?}", keys.broken()) };
        assert_eq!(found.to_string(), says, "{broken}");

        // Alone, it is the reason why there is no key.
        let error = set(json!([{ "kty": "new" }, broken])).unwrap_err();
        assert!(matches!(error, KeysError::NoKey(_)), "{broken}: {error}");
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), says, "{broken}");
    }
    assert!(matches!(set(json!([])), Err(KeysError::NoKey(None))));
    for text in ["", "{}", "[]", "{\"keys\":{}}", RSA_PEM] {
        assert!(matches!(Keys::from_jwks(text.as_bytes()), Err(KeysError::Json(_))), "{text}");
    }
}

#[test]
fn refuses_pem_without_a_public_key() {
    let private = RSA_PEM.replace("PUBLIC", "PRIVATE");
    let cut = format!("{}\n", &ED25519_PEM[..60]);
    for text in
        ["", "hunter2", KEYS, &private, &cut, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"]
    {
        assert!(matches!(Keys::from_pem(Algorithm::Rs256, text), Err(KeysError::Pem(_))), "{text}");
    }
}

/// The signatures of the curve, made here: PEM and set hold the same key.
#[test]
fn a_curve_has_its_own_signatures() {
    let random = SystemRandom::new();
    let scheme = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(scheme, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(scheme, pkcs8.as_ref(), &random).unwrap();
    let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
    let [x, y] = [x, y].map(Base64UrlUnpadded::encode_string);
    let jwk = json!({ "keys": [{ "kty": "EC", "crv": "P-256", "x": x, "y": y }] });
    let own = verifier(Keys::from_jwks(jwk.to_string().as_bytes()).unwrap());
    let message = format!("{}.{}", part(&json!({ "alg": "ES256" })), part(&claims()));
    let signature = pair.sign(&random, message.as_bytes()).unwrap();
    let token = format!("{message}.{}", Base64UrlUnpadded::encode_string(signature.as_ref()));
    assert!(own.verify(&token).is_ok());
    let other = verifier(Keys::from_pem(Algorithm::Es256, P256_PEM).unwrap());
    assert_eq!(other.verify(&token).unwrap_err(), TokenError::Signature);
}

fn bearing(token: &str) -> Request<()> {
    Request::get("/").header(header::AUTHORIZATION, format!("Bearer {token}")).body(()).unwrap()
}

#[test]
fn a_claim_is_a_key_if_its_token_is_valid() {
    let by = |name: &str| Claim::new(verifier(hs256_keys()), name);
    let found =
        |by: &Claim, request: &Request<()>| match block_on(by.extract(Head::from(request)).into_future()) {
            Ok(Identity::Known(key)) => Ok(key.into_owned()),
            Ok(Identity::Missing(missing)) => Err(missing.to_string()),
            Err(invalid) => {
                assert_eq!(invalid.challenge().unwrap(), "Bearer error=\"invalid_token\"");
                Err(format!("401: {invalid}"))
            }
        };
    let token = signed(
        &hs256(),
        &claims_with(&json!({
            "number": 7, "whole": 7.0, "negative": -7, "empty": "", "null": null, "list": ["a"], "yes": true, "text": "7",
            "none": [], "odd": ["a", {}], "realm": { "sub": "bob", "roles": ["a"], "a.b": { "c": "deep" } },
            "https://example.org/name": "carol", "realm.tenant": "flat", "realm.a": { "b": { "c": "shadowed" } },
        })),
    );
    let wrong = |what: &str, is: &str| {
        Err(format!("401: claim `{what}` of the token {is} not a text, a whole number, true or false"))
    };
    let lacks = |what: &str| Err(format!("claim `{what}` of the token"));
    for (name, expected) in [
        ("sub", Ok(Key::from("alice"))),
        ("number", Ok(Key::from(7_u64))),
        ("text", Ok(Key::from("7"))),
        ("whole", wrong("whole", "is")),
        ("negative", wrong("negative", "is")),
        ("realm", wrong("realm", "is")),
        ("odd", wrong("odd", "has an entry that is")),
        ("list", Err("401: claim `list` of the token is a list of 1, which cannot be a key".to_owned())),
        ("none", lacks("none")),
        ("yes", Ok(Key::from("true"))),
        // Dots lead into objects, and may also be part of names.
        ("realm.sub", Ok(Key::from("bob"))),
        ("https://example.org/name", Ok(Key::from("carol"))),
        ("realm.tenant", Ok(Key::from("flat"))),
        ("realm.a.b.c", Ok(Key::from("shadowed"))),
        ("realm.other", lacks("realm.other")),
        ("realm.sub.x", lacks("realm.sub.x")),
        (".", lacks(".")),
        ("empty", lacks("empty")),
        ("null", lacks("null")),
        ("tenant", lacks("tenant")),
    ] {
        assert_eq!(found(&by(name), &bearing(&token)), expected, "{name}");
    }

    let credentials = |values: &[&str]| {
        let mut request = Request::new(());
        for value in values {
            request.headers_mut().append(header::AUTHORIZATION, value.parse().unwrap());
        }
        found(&by("sub"), &request)
    };
    let alice = Ok(Key::from("alice"));
    assert_eq!(credentials(&[&format!("bearer   {token} ")]), alice);
    assert_eq!(credentials(&[&format!("Bearer {token}"), &format!("Bearer {token}")]), alice);
    for none in [&[][..], &["Bearer"], &["Bearer "], &["Basic YTpi"], &[token.as_str()], &[""]] {
        assert_eq!(credentials(none), Err("a bearer token".to_owned()), "{none:?}");
    }
    assert_eq!(credentials(&["Bearer ä"]), Err("401: the token cannot be read".to_owned()));

    let in_header = by("sub").in_header(HeaderName::from_static("x-token"));
    let in_cookie = by("sub").in_cookie("token");
    let header = Request::get("/").header("x-token", &token).body(()).unwrap();
    let cookie = Request::get("/").header("cookie", format!("a=b; token={token}")).body(()).unwrap();
    assert_eq!(found(&in_header, &header), alice);
    assert_eq!(found(&in_cookie, &cookie), alice);
    assert_eq!(found(&in_header, &bearing(&token)), Err("header `x-token`".to_owned()));
    assert_eq!(found(&in_cookie, &bearing(&token)), Err("cookie `token`".to_owned()));
}

#[cfg(feature = "policy")]
#[test]
fn policies_match_claims_within_others_lists_and_booleans() {
    use tollgate_policy::{Config, Policy, Refusal, UnknownValue, View};
    use tollgate_tower::AttributeSources;

    let text = "
policies:
  - { name: admins, match: { roles: admin }, key: [user], quotas: [9/1m] }
  - { name: others, match: { roles: { not: admin } }, key: [user], quotas: [5/1m] }
  - { name: beta, match: { beta: true }, key: global, quotas: [7/1m] }
  - { name: level, match: { levels: 7 }, key: global, quotas: [7/1m] }
";
    let config = Config::parse("tollgate.yaml", text).unwrap();
    let verifier = verifier(hs256_keys());
    let claim = |name| Claim::new(verifier.clone(), name);
    let sources = AttributeSources::new()
        .with_claim("user", claim("sub"))
        .with_claim("roles", claim("realm_access.roles"))
        .with_claim("beta", claim("flags.beta"))
        .with_claim("levels", claim("levels"));
    let matching = |others: Value| {
        let request = bearing(&signed(&hs256(), &claims_with(&others)));
        let mut view = sources.view(Head::from(&request));
        let found = block_on(view.find("roles"));
        let names: Vec<String> =
            config.policies().matching(&view).map(Policy::name).map(str::to_owned).collect();
        let refused = config.policies().charges(&view, 1).err();
        (names, found.is_ok(), refused)
    };
    let matched = |names: &[&str]| (names.iter().map(|name| (*name).to_owned()).collect(), true, None);
    assert_eq!(matching(json!({ "realm_access": { "roles": ["staff", "admin"] } })), matched(&["admins"]));
    assert_eq!(matching(json!({ "realm_access": { "roles": "admin" } })), matched(&["admins"]));
    assert_eq!(
        matching(json!({ "realm_access": { "roles": [] }, "levels": [3, 7] })),
        matched(&["others", "level"])
    );
    assert_eq!(matching(json!({ "flags": { "beta": true } })), matched(&["others", "beta"]));
    assert_eq!(matching(json!({ "flags": { "beta": false }, "levels": "7" })), matched(&["others", "level"]));
    let request = bearing("x");
    let view = sources.view(Head::from(&request));
    let verified = ["beta", "path", "ip", "other"].map(|name| view.is_verified(name));
    assert_eq!(verified, [true, false, false, false], "only what a token says may say a limit");
    // An unreadable claim is never taken for missing.
    let (names, is_found, refused) = matching(json!({ "realm_access": { "roles": ["admin", ["staff"]] } }));
    assert_eq!((names, is_found), (Vec::new(), false));
    assert_eq!(refused, Some(Refusal::Undecided { attribute: "roles".into(), unknown: UnknownValue::Wrong }));
}

/// A number that cannot be a key made the token invalid, so `on_missing` of a limit never applied.
#[cfg(feature = "policy")]
#[test]
fn a_claim_that_is_an_odd_number_is_for_policies_to_judge() {
    use tollgate_policy::{Config, Outcome};
    use tollgate_tower::AttributeSources;

    let text = "policies: [{ name: a, key: global, quotas: [{ limit: { attribute: quota, on_missing: 100 }, max: 900, window: 1h }] }]";
    let config = Config::parse("tollgate.yaml", text).unwrap();
    let sources = AttributeSources::new().with_claim("quota", Claim::new(verifier(hs256_keys()), "quota"));
    for (quota, limit) in [(json!(10.5), 100), (json!(-1), 100), (json!(7), 7), (json!(1000), 900)] {
        let request = bearing(&signed(&hs256(), &claims_with(&json!({ "quota": quota }))));
        let mut view = sources.view(Head::from(&request));
        block_on(view.find("quota")).unwrap();
        let Ok(Outcome::Charge(matched)) = config.policies().charges(&view, 1) else { panic!("{quota}") };
        assert_eq!(matched.enforced().map(|charge| charge.limit()).collect::<Vec<_>>(), [limit], "{quota}");
    }
}

/// JSON readers round integers beyond 64 bits, so two users could share a counter.
#[cfg(feature = "policy")]
#[test]
fn a_claim_that_would_be_rounded_is_unreadable() {
    use tollgate_policy::{UnknownValue, View};
    use tollgate_tower::AttributeSources;

    let sources = AttributeSources::new().with_claim("user", Claim::new(verifier(hs256_keys()), "uid"));
    let two_to_53: u64 = 1 << 53;
    for (uid, text) in [
        ("18446744073709551615", Some("18446744073709551615")),
        ("-9223372036854775808", Some("-9223372036854775808")),
        ("100000000000000000001", None),
        ("1e20", None),
        (&format!("{two_to_53}.0"), None),
    ] {
        let uid: serde_json::Value = serde_json::from_str(uid).unwrap();
        let request = bearing(&signed(&hs256(), &claims_with(&json!({ "uid": uid }))));
        let mut view = sources.view(Head::from(&request));
        let _ = block_on(view.find("user"));
        let read = view.value("user").map(|value| value.and_then(|value| value.text()));
        assert_eq!(read, text.map_or(Err(UnknownValue::Wrong), |text| Ok(Some(text))), "{uid}");
    }
}

/// Otherwise a deliberately broken token would lead to another limit.
#[test]
fn a_token_that_is_not_valid_is_not_passed_on_to_another_extractor() {
    let by = Claim::new(verifier(hs256_keys()), "sub").or_else(Global);
    let expired = signed(&hs256(), &claims_with(&json!({ "exp": START })));
    let stranger = signed_with(&[7; 64], &hs256(), &claims());
    for token in ["x", &stranger, &expired.replace('.', ".x"), &signed(&json!({ "alg": "none" }), &claims())]
    {
        assert!(block_on(by.extract(Head::from(&bearing(token))).into_future()).is_err(), "{token}");
    }
    assert!(matches!(
        block_on(by.extract(Head::from(&Request::new(()))).into_future()),
        Ok(Identity::Known(_))
    ));

    let twice = Request::get("/")
        .header(header::AUTHORIZATION, format!("Bearer {}", signed(&hs256(), &claims())))
        .header(header::AUTHORIZATION, "Bearer x")
        .body(())
        .unwrap();
    assert!(block_on(by.extract(Head::from(&twice)).into_future()).is_err());
}

#[test]
fn neither_secrets_nor_claims_are_shown() {
    let secret = b"hunter2-hunter2-hunter2-hunter2-hunter2";
    let verifier = verifier(Keys::from_secret(Algorithm::Hs256, secret).unwrap().named("main"));
    let token = signed_with(secret, &hs256(), &claims());
    let by = Claim::new(verifier.clone(), "sub");
    let request = bearing(&token);
    let found = block_on(by.extract(Head::from(&request)).into_future()).unwrap();
    let shown = format!("{by:?} {:?} {found:?}", verifier.verify(&token).unwrap());
    assert!(!shown.contains("hunter2") && !shown.contains("alice") && !shown.contains(&token), "{shown}");
    assert!(!shown.contains("104, 117, 110"), "{shown}");
    assert!(shown.contains("(Some(\"main\"), Hs256)"), "{shown}");
}
