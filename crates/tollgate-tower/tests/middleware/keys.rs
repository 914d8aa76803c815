//! The results of extractors, and their errors if they find nothing.

use std::net::IpAddr;

use http::Request;
use tollgate::Key;
use tollgate_testkit::block_on;
use tollgate_tower::Head;
use tollgate_tower::key::{
    self, ExtractedIdentity, Extraction, Fault, Global, Identity, InvalidIdentity, KeyExtractor,
    MissingIdentity, Peer, PeerAddress,
};

fn user<'r>(head: Head<'r>) -> Option<Key<'r>> {
    header(head, "x-user")
}

fn session<'r>(head: Head<'r>) -> Option<Key<'r>> {
    header(head, "x-session")
}

fn device<'r>(head: Head<'r>) -> Option<Key<'r>> {
    header(head, "x-device")
}

fn header<'r>(head: Head<'r>, name: &str) -> Option<Key<'r>> {
    head.headers().get(name)?.to_str().ok().map(Key::from)
}

/// The same, asynchronously.
fn later(find: for<'r> fn(Head<'r>) -> Option<Key<'r>>) -> impl KeyExtractor {
    key::from_async_fn(move |head| {
        let key = find(head).map(Key::into_owned);
        async move {
            tokio::task::yield_now().await;
            Ok(key.map_or_else(|| MissingIdentity::by_caller("it").into(), Identity::Known))
        }
    })
}

fn later_wrong() -> impl KeyExtractor {
    key::from_async_fn(|_| async { Err(InvalidIdentity::malformed("no token")) })
}

fn request(headers: &[(&'static str, &str)]) -> Request<()> {
    let mut request = Request::new(());
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    request
}

fn from(address: &str) -> Request<()> {
    let mut request = Request::new(());
    request.extensions_mut().insert(Peer(address.parse().unwrap()));
    request
}

/// Runs an extractor to its end.
fn found(found: Extraction<'_>) -> ExtractedIdentity<'_> {
    block_on(found.into_future())
}

fn known(answer: Extraction<'_>) -> Key<'_> {
    match found(answer).unwrap() {
        Identity::Known(key) => key,
        Identity::Missing(missing) => panic!("{missing} is missing"),
    }
}

#[test]
fn a_chain_finds_the_first_that_a_request_has_and_keeps_them_apart() {
    let by = key::from_fn("a user", user)
        .or_else(key::from_fn("a session", session))
        .or_else(key::from_fn("a device", device));
    let requests =
        [request(&[("x-user", "7")]), request(&[("x-session", "7")]), request(&[("x-device", "7")])];
    let keys: Vec<Key<'_>> = requests.iter().map(|request| known(by.extract(Head::from(request)))).collect();
    assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);

    let both = request(&[("x-session", "7"), ("x-user", "7")]);
    assert_eq!(known(by.extract(Head::from(&both))), keys[0]);

    let waiting = key::from_fn("a user", user).or_else(later(session)).or_else(later(device));
    for (request, key) in requests.iter().zip(&keys) {
        assert_eq!(known(waiting.extract(Head::from(request))), *key, "the same key, waited for or not");
    }
    assert!(
        matches!(waiting.extract(Head::from(&requests[0])), Extraction::Now(_)),
        "nobody waits for what is not asked"
    );
}

/// In a chain, the key of the first extractor was used unchanged, and that of the second was paired with the number 1.
/// So a client that chose both parts of a key for the first could pass for a client of the second.
#[test]
fn extractors_of_a_chain_never_share_a_key() {
    fn looks_like_another<'r>(head: Head<'r>) -> Option<Key<'r>> {
        let user = head.headers().get("x-user")?.to_str().ok()?;
        Some(match head.method().as_str() {
            "GET" => Key::from((0_u64, user)),
            "PUT" => Key::from((1_u64, user)),
            "POST" => Key::from((&[0_u8], user)),
            _ => Key::from((&[1_u8], user)),
        })
    }
    let first = || key::from_fn("a user", looks_like_another);
    let second = || key::from_fn("a session", session);
    let other = request(&[("x-session", "7")]);
    let in_session = known(first().or_else(second()).extract(Head::from(&other))).into_owned();
    for method in ["GET", "PUT", "POST", "DELETE"] {
        let mut request = request(&[("x-user", "7")]);
        *request.method_mut() = method.parse().unwrap();
        assert_ne!(known(first().or_else(second()).extract(Head::from(&request))), in_session, "{method}");
        let waiting = first().or_else(later(session));
        assert_ne!(known(waiting.extract(Head::from(&request))), in_session, "{method}");
    }
}

#[test]
fn an_error_names_every_missing_value() {
    let empty = request(&[]);
    let by = key::from_fn("a user", user).or_else(key::from_fn("a session", session));
    let Identity::Missing(missing) = found(by.extract(Head::from(&empty))).unwrap() else { panic!() };
    assert_eq!(missing.to_string(), "a user or a session");
    assert_eq!(missing.fault(), Fault::Caller);

    let by = PeerAddress::new();
    let Identity::Missing(missing) = found(by.extract(Head::from(&empty))).unwrap() else { panic!() };
    assert_eq!(missing.fault(), Fault::Setup, "no request can mend it");

    let by = key::from_fn("a user", user).or_else(PeerAddress::new());
    let Identity::Missing(missing) = found(by.extract(Head::from(&empty))).unwrap() else { panic!() };
    assert_eq!(
        missing.fault(),
        Fault::Setup,
        "a user would have been enough, but those without are not counted"
    );
}

#[test]
fn an_invalid_value_is_not_passed_on_to_another_extractor() {
    let wrong = key::try_from_fn(|_| Err(InvalidIdentity::malformed("no token")));
    let empty = Request::new(());
    assert!(found(wrong.or_else(Global).extract(Head::from(&empty))).is_err());
    assert!(found(Global.and(wrong).extract(Head::from(&empty))).is_err());
    let nobody = || key::from_fn("a user", user);
    assert!(found(nobody().and(wrong).extract(Head::from(&empty))).is_err());
    assert!(found(nobody().and(later_wrong()).extract(Head::from(&empty))).is_err());
    assert!(found(later_wrong().or_else(Global).extract(Head::from(&empty))).is_err());
}

#[test]
fn two_together_need_both() {
    let by = key::from_fn("a user", user).and(key::from_fn("a device", device));
    let both = request(&[("x-user", "a"), ("x-device", "b")]);
    assert_eq!(known(by.extract(Head::from(&both))), Key::from(("a", "b")));
    let one = request(&[("x-user", "a")]);
    let missing = MissingIdentity::by_caller("a device");
    assert_eq!(found(by.extract(Head::from(&one))).unwrap(), Identity::Missing(missing.clone()));
    let waiting = key::from_fn("a user", user).and(later(device));
    assert_eq!(known(waiting.extract(Head::from(&both))), Key::from(("a", "b")));
    let Identity::Missing(waited) = found(waiting.extract(Head::from(&one))).unwrap() else { panic!() };
    assert_eq!(waited.to_string(), "it");
}

#[test]
fn peers_of_one_network_are_one_client() {
    let by = PeerAddress::new();
    let (a, b, c) = (from("[2001:db8::1]:1"), from("[2001:db8::2]:2"), from("[2001:db8:0:1::1]:1"));
    assert_eq!(known(by.extract(Head::from(&a))), known(by.extract(Head::from(&b))));
    assert_ne!(known(by.extract(Head::from(&a))), known(by.extract(Head::from(&c))));
    let mapped = from("[::ffff:192.0.2.7]:1");
    assert_eq!(known(by.extract(Head::from(&mapped))), Key::from(IpAddr::from([192, 0, 2, 7])));
}

/// An asynchronous closure borrows nothing from the request, and its key outlives it.
#[test]
fn a_function_may_wait() {
    let by = key::from_async_fn(|head| {
        let method = head.method().to_string();
        async move {
            std::future::ready(()).await;
            Ok(Identity::Known(Key::from(method)))
        }
    });
    let request = Request::new(());
    assert_eq!(known(by.extract(Head::from(&request))), Key::from("GET"));
}
