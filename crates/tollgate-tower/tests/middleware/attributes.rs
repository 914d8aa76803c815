//! The attributes that policies get from a request.

use http::{HeaderName, Request};
use tollgate::{ManualClock, MemoryStore, Timestamp};
use tollgate_policy::{CheckError, Config, PolicyDecision, PolicyLimiter, Refusal, UnknownValue, View};
use tollgate_testkit::block_on;
use tollgate_tower::key::jwt::{Algorithm, Claim, Keys, Verifier};
use tollgate_tower::key::{
    ClientAddress, Cookie, ForwardedHeader, Header, Peer, PeerAddress, TrustedProxies,
};
use tollgate_tower::{AttributeError, AttributeSources, Head, MatchedRoute};

const TOKENS: &str = include_str!("../jwt/tokens.json");
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
        .with_claim("user", Claim::new(verifier.clone(), "sub"))
        .with_claim("number", Claim::new(verifier, "number"))
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
    let mut view = sources.view(Head::from(&full));
    for name in ["user", "number"] {
        assert_eq!(view.value(name), Err(UnknownValue::NotYet), "{name}");
    }
    block_on(view.find("number")).unwrap();
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
        assert_eq!(view.value(name), Ok(Some(value.into())), "{name}");
    }

    let bare = request("/a?b", &[]);
    let mut view = sources.view(Head::from(&bare));
    block_on(view.find("user")).unwrap();
    assert_eq!(view.value("path"), Ok(Some("/a".into())));
    for name in ["tenant", "key", "theme", "user", "number", "host"] {
        assert_eq!(view.value(name), Ok(None), "{name}");
    }
}

/// Policies fold mapped addresses, but they would take all clients of a translator for one, by their /64.
#[test]
fn a_mapped_address_becomes_an_ipv4_address() {
    let sources = sources();
    for (told, ip) in [("64:ff9b::192.0.2.7", "192.0.2.7"), ("::ffff:192.0.2.7", "192.0.2.7")] {
        let request = request("/", &[("x-forwarded-for", told)]);
        assert_eq!(sources.view(Head::from(&request)).value("ip"), Ok(Some(ip.into())));
    }
}

#[test]
fn a_wrong_value_is_an_error_and_not_left_out() {
    let sources = sources();
    for (name, headers) in [
        ("user", &[("authorization", "Bearer x")][..]),
        ("number", &[("authorization", "Bearer x")]),
        ("tenant", &[("x-tenant", "a"), ("x-tenant", "b")]),
        ("theme", &[("cookie", "theme=dark; theme=light")]),
    ] {
        let request = request("/", headers);
        let mut view = sources.view(Head::from(&request));
        assert!(matches!(block_on(view.find(name)), Err(AttributeError::Invalid(_))), "{headers:?}");
        assert_eq!(view.value(name), Err(UnknownValue::Wrong), "{headers:?}");
        assert_eq!(view.value("path"), Ok(Some("/".into())), "all else is known");
    }
    let mut no_peer = request("/", &[]);
    no_peer.extensions_mut().clear();
    let found = block_on(sources.view(Head::from(&no_peer)).find("ip"));
    assert!(matches!(found, Err(AttributeError::Setup(_))));
}

#[test]
fn a_source_of_ones_own_stands_in_for_another() {
    let sources = sources().with_fn("path", |_| Some("/a".into())).with_fn("ip", |_| Some("::1".into()));
    let request = request("/b", &[]);
    let view = sources.view(Head::from(&request));
    assert_eq!((view.value("path"), view.value("ip")), (Ok(Some("/a".into())), Ok(Some("::1".into()))));
}

/// An empty list counted as a present value here, but not in the service or in tokens.
#[test]
fn an_empty_list_is_no_value() {
    let nobody = || Vec::<&str>::new().into();
    let sources = AttributeSources::new()
        .with_fn("roles", move |_| Some(nobody()))
        .with_async_fn("groups", move |_| async move { Ok(Some(nobody())) });
    let request = request("/", &[]);
    let mut view = sources.view(Head::from(&request));
    assert_eq!(view.value("roles"), Ok(None));
    block_on(view.find("groups")).unwrap();
    assert_eq!(view.value("groups"), Ok(None));
}

/// From requests to decisions, with a policy file as for the service.
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
    assert_eq!(AttributeSources::new().lacking(config.policies()), ["user"]);
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
        let mut view = sources.view(Head::from(&request));
        let checked = loop {
            match block_on(limiter.check(&view, 1)) {
                Err(CheckError::Refused(Refusal::Undecided { attribute, unknown: UnknownValue::NotYet })) => {
                    block_on(view.find(&attribute)).unwrap();
                }
                checked => break checked,
            }
        };
        checked.map(|decision: PolicyDecision| decision.is_allowed())
    };
    let is_allowed = |path, ip| check(path, ip, Some(&bearer)).unwrap();
    assert!(is_allowed("/a", "192.0.2.1"));
    assert!(!is_allowed("/b", "::ffff:192.0.2.1"), "the same client, whatever it asks for");
    assert!(is_allowed("/a", "192.0.2.2"));
    assert!(is_allowed("/health", "192.0.2.1"));
    assert!(matches!(check("/a", "192.0.2.1", None), Err(CheckError::Refused(_))), "nobody says who it is");
}

/// A clock that counts its readings: one for each token that is verified.
#[derive(Debug, Clone, Default)]
struct Readings(std::sync::Arc<std::sync::atomic::AtomicUsize>);

impl tollgate::Clock for Readings {
    fn now(&self) -> Timestamp {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Timestamp::from_unix_millis(1_700_000_000_000)
    }
}

/// Each claim verified the signature again, and every request was asked for it.
#[test]
fn a_token_is_verified_once_and_only_if_a_policy_asks() {
    let keys = || Keys::from_secret(Algorithm::Hs256, &(0..64).collect::<Vec<u8>>()).unwrap();
    let readings = Readings::default();
    let verifier = Verifier::new(keys(), ["https://api.example.org"]).clock(readings.clone());
    let other = verifier.clone().issuer("https://nobody.example.org");
    let sources = AttributeSources::new()
        .with_claim("user", Claim::new(verifier.clone(), "sub"))
        .with_claim("number", Claim::new(verifier.clone(), "number"))
        .with_claim("header", Claim::new(verifier, "sub").in_header(API_KEY))
        .with_claim("other", Claim::new(other, "sub"));
    let request = request("/", &[("authorization", &format!("Bearer {}", token()))]);
    let mut view = sources.view(Head::from(&request));
    let read = || readings.0.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(read(), 0, "nobody has asked");
    block_on(view.find("number")).unwrap();
    block_on(view.find("user")).unwrap();
    assert_eq!((view.value("user"), read()), (Ok(Some("alice".into())), 1));
    block_on(view.find("header")).unwrap();
    assert_eq!((view.value("header"), read()), (Ok(None), 1), "there is no such token");
    // Another verifier may judge the same token differently.
    assert!(block_on(view.find("other")).is_err());
    assert_eq!(
        (view.value("other"), view.value("user")),
        (Err(UnknownValue::Wrong), Ok(Some("alice".into())))
    );
}
