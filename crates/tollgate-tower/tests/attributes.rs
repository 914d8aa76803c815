//! What policies are told of a request.

#![cfg(all(feature = "policy", feature = "jwt"))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use http::{HeaderName, Request};
use tollgate::{ManualClock, MemoryStore, Timestamp};
use tollgate_policy::{CheckError, Config, PolicyLimiter};
use tollgate_testkit::block_on;
use tollgate_tower::key::jwt::{Algorithm, Claim, Keys, Verifier};
use tollgate_tower::key::{
    ClientAddress, Cookie, ForwardedHeader, Header, Peer, PeerAddress, TrustedProxies,
};
use tollgate_tower::{AttributeError, AttributeSources, Head, MatchedRoute};

const TOKENS: &str = include_str!("jwt/tokens.json");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

fn sources() -> AttributeSources {
    let proxies = TrustedProxies::parse(["10.0.0.1"]).unwrap();
    let secret: Vec<u8> = (0..64).collect();
    let keys = Keys::from_secret(Algorithm::Hs256, &secret).unwrap();
    let clock = ManualClock::at(Timestamp::from_unix_millis(1_700_000_000_000));
    let verifier = Verifier::new(keys, ["https://api.example.org"]).clock(clock);
    AttributeSources::new()
        .with("ip", ClientAddress::behind(proxies, ForwardedHeader::XForwardedFor))
        .with("peer", PeerAddress::new())
        .with("tenant", Header::new(HeaderName::from_static("x-tenant")).plain())
        .with("key", Header::new(API_KEY))
        .with("theme", Cookie::new("theme").plain())
        .with("user", Claim::new(verifier.clone(), "sub"))
        .with("number", Claim::new(verifier, "number"))
        .with_fn("host", |head| head.uri().host().map(Into::into))
}

fn token() -> String {
    let samples: serde_json::Value = serde_json::from_str(TOKENS).unwrap();
    let sample = samples.as_array().unwrap().iter().find(|sample| sample["algorithm"] == "HS256").unwrap();
    sample["token"].as_str().unwrap().to_owned()
}

fn request(path: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::post(path).body(()).unwrap();
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        request.headers_mut().append(name, value.parse().unwrap());
    }
    request.extensions_mut().insert(Peer("10.0.0.1:1".parse().unwrap()));
    request
}

#[test]
fn every_extractor_gives_its_value() {
    let sources = sources();
    let mut full = request(
        "http://example.org/users/7?page=1",
        &[
            ("x-forwarded-for", "198.51.100.1, 2001:db8:1:2:3::4"),
            ("x-tenant", "acme"),
            ("x-api-key", "what do ya want for nothing?"),
            ("cookie", "theme=dark"),
            ("authorization", &format!("Bearer {}", token())),
        ],
    );
    full.extensions_mut().insert(MatchedRoute::new("/users/{id}"));
    let attributes = sources.read(Head::from(&full)).unwrap();
    for (name, value) in [
        ("method", "POST"),
        ("path", "/users/{id}"),
        ("ip", "2001:db8:1:2:3::4"),
        ("peer", "10.0.0.1"),
        ("tenant", "acme"),
        ("key", "b381e7fec653fc3ab9b178272366b8ac87fed8d31cb25ed1d0e1f3318644c89c"),
        ("theme", "dark"),
        ("user", "alice"),
        ("number", "4711"),
        ("host", "example.org"),
    ] {
        assert_eq!(attributes.value(name), Some(value), "{name}");
    }

    let bare = request("/a?b", &[]);
    let attributes = sources.read(Head::from(&bare)).unwrap();
    assert_eq!(attributes.value("path"), Some("/a"));
    for name in ["tenant", "key", "theme", "user", "number", "host"] {
        assert_eq!(attributes.value(name), None, "{name}");
    }
}

/// Policies fold mapped addresses, but by their /64 would take all clients of a translator for one.
#[test]
fn an_address_that_stands_for_ipv4_is_told_as_ipv4() {
    let sources = sources();
    for (told, ip) in [("64:ff9b::192.0.2.7", "192.0.2.7"), ("::ffff:192.0.2.7", "192.0.2.7")] {
        let request = request("/", &[("x-forwarded-for", told)]);
        assert_eq!(sources.read(Head::from(&request)).unwrap().value("ip"), Some(ip));
    }
}

#[test]
fn what_is_wrong_is_an_error_and_not_left_out() {
    let sources = sources();
    for headers in [
        &[("authorization", "Bearer x")][..],
        &[("x-tenant", "a"), ("x-tenant", "b")],
        &[("cookie", "theme=dark; theme=light")],
    ] {
        let request = request("/", headers);
        assert!(matches!(sources.read(Head::from(&request)), Err(AttributeError::Invalid(_))), "{headers:?}");
    }
    let mut no_peer = request("/", &[]);
    no_peer.extensions_mut().clear();
    assert!(matches!(sources.read(Head::from(&no_peer)), Err(AttributeError::Setup(_))));
}

#[test]
fn a_source_of_ones_own_stands_in_for_another() {
    let sources = sources().with_fn("path", |_| Some("/a".into())).with_fn("ip", |_| Some("::1".into()));
    let request = request("/b", &[]);
    let attributes = sources.read(Head::from(&request)).unwrap();
    assert_eq!((attributes.value("path"), attributes.value("ip")), (Some("/a"), Some("::1")));
}

/// From requests to decisions, by a file as the service has it.
#[test]
fn policies_of_a_file_decide_on_requests() {
    let file = "
policies:
  - { name: probes, match: { path: /health }, exempt: true }
  - { name: writes, match: { method: POST }, key: [user, ip], quotas: [1/1m] }
";
    let config = Config::parse("tollgate.yaml", file).unwrap();
    let sources = sources();
    assert!(sources.lacking(config.policies()).is_empty());
    assert_eq!(AttributeSources::new().lacking(config.policies()), ["ip", "user"]);
    let clock = ManualClock::at(Timestamp::from_unix_millis(1_700_000_000_000));
    let limiter = PolicyLimiter::new(
        MemoryStore::builder().clock(clock).build(),
        config.into_policies(),
        "tollgate.yaml",
    );

    let bearer = format!("Bearer {}", token());
    let check = |path: &str, ip: &str, bearer: Option<&str>| {
        let mut headers = vec![("x-forwarded-for", ip)];
        headers.extend(bearer.map(|bearer| ("authorization", bearer)));
        let request = request(path, &headers);
        let attributes = sources.read(Head::from(&request)).unwrap();
        block_on(limiter.check(&attributes, 1)).map(|decision| decision.is_allowed())
    };
    let is_allowed = |path, ip| check(path, ip, Some(&bearer)).unwrap();
    assert!(is_allowed("/a", "192.0.2.1"));
    assert!(!is_allowed("/b", "::ffff:192.0.2.1"), "the same client, whatever it asks for");
    assert!(is_allowed("/a", "192.0.2.2"));
    assert!(is_allowed("/health", "192.0.2.1"));
    assert!(matches!(check("/a", "192.0.2.1", None), Err(CheckError::Refused(_))), "nobody says who it is");
}
