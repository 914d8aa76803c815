//! Headers and cookies as keys.

use http::{HeaderName, HeaderValue, Request, header};
use tollgate::Key;
use tollgate_testkit::block_on;
use tollgate_tower::Head;
use tollgate_tower::key::{Cookie, Extraction, Header, Identity, KeyExtractor};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// From RFC 4231, section 4.3, with its key.
const SECRET: &str = "what do ya want for nothing?";
const HMAC: &str = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
/// By `printf %s 'what do ya want for nothing?' | sha256sum`.
const SHA256: &str = "b381e7fec653fc3ab9b178272366b8ac87fed8d31cb25ed1d0e1f3318644c89c";

fn request(name: HeaderName, values: &[&[u8]]) -> Request<()> {
    let mut request = Request::new(());
    for value in values {
        request.headers_mut().append(name.clone(), HeaderValue::from_bytes(value).unwrap());
    }
    request
}

/// Returns the text or the hash in hex that is the key, or what is missing or wrong.
fn found(found: Extraction<'_>) -> Result<String, String> {
    match block_on(found.into_future()) {
        Ok(Identity::Known(key)) => {
            let bytes = key.canonical_bytes().into_owned();
            let value = &bytes[2..];
            Ok(match bytes[0] {
                1 => String::from_utf8(value.to_vec()).unwrap(),
                2 => value.iter().map(|byte| format!("{byte:02x}")).collect(),
                kind => panic!("a key of kind {kind}"),
            })
        }
        Ok(Identity::Missing(missing)) => Err(format!("missing: {missing}")),
        Err(invalid) => Err(format!("invalid: {invalid}")),
    }
}

fn missing(what: &str) -> Result<String, String> {
    Err(format!("missing: {what}"))
}

fn invalid(detail: &str) -> Result<String, String> {
    Err(format!("invalid: {detail}"))
}

#[test]
fn a_header_is_one_value_without_the_space_around_it() {
    let by = Header::new(API_KEY).plain();
    let twice = "header `x-api-key` is given more than once";
    let cases: &[(&[&[u8]], _)] = &[
        (&[], missing("header `x-api-key`")),
        (&[b""], missing("header `x-api-key`")),
        (&[b" \t"], missing("header `x-api-key`")),
        (&[b"", b""], invalid(twice)),
        (&[b"a"], Ok("a".to_owned())),
        (&[b" a\t"], Ok("a".to_owned())),
        (&[b"a b, c"], Ok("a b, c".to_owned())),
        (&[b"A"], Ok("A".to_owned())),
        (&["ä".as_bytes()], Ok("ä".to_owned())),
        // Another reader joins them to `a, a`.
        (&[b"a", b"a"], invalid(twice)),
        (&[b"a", b"b"], invalid(twice)),
        (&[b"a", b""], invalid(twice)),
        (&[b"", b"a"], invalid(twice)),
        (&[b"\xff"], invalid("header `x-api-key` is not UTF-8 text")),
    ];
    for (values, expected) in cases {
        let request = request(API_KEY, values);
        assert_eq!(found(by.extract(Head::from(&request))), *expected, "{values:?}");
    }
}

#[test]
fn a_cookie_is_one_value_without_the_quotes_around_it() {
    let by = Cookie::new("session").plain();
    let twice = "cookie `session` is given more than once";
    let cases: &[(&[&[u8]], _)] = &[
        (&[], missing("cookie `session`")),
        (&[b"session"], missing("cookie `session`")),
        (&[b"session="], missing("cookie `session`")),
        (&[b"session=\"\""], missing("cookie `session`")),
        (&[b"Session=a; xsession=b; session2=c; theme=session"], missing("cookie `session`")),
        (&[b"session=a"], Ok("a".to_owned())),
        (&[b"theme=dark;session=a; lang=de"], Ok("a".to_owned())),
        (&[b"theme=dark", b"session=a"], Ok("a".to_owned())),
        (&[b"session=\"a\""], Ok("a".to_owned())),
        (&[b" session = a "], Ok("a".to_owned())),
        (&[b"session=a=b=="], Ok("a=b==".to_owned())),
        (&[b"session=\"a"], Ok("\"a".to_owned())),
        (&[b"session=\""], Ok("\"".to_owned())),
        (&[b"session=a; session=\"a\""], Ok("a".to_owned())),
        (&[b"session=a; session=b"], invalid(twice)),
        (&[b"session=a", b"session=b"], invalid(twice)),
        (&[b"session=\xff"], invalid("cookie `session` is not UTF-8 text")),
    ];
    for (lines, expected) in cases {
        let request = request(header::COOKIE, lines);
        assert_eq!(found(by.extract(Head::from(&request))), *expected, "{lines:?}");
    }
}

#[test]
fn secrets_are_hashed_unless_they_are_declared_plain() {
    let by_header = request(API_KEY, &[SECRET.as_bytes()]);
    assert_eq!(found(Header::new(API_KEY).extract(Head::from(&by_header))), Ok(SHA256.to_owned()));
    assert_eq!(
        found(Header::new(API_KEY).keyed(b"Jefe").extract(Head::from(&by_header))),
        Ok(HMAC.to_owned())
    );

    let by_cookie = request(header::COOKIE, &[format!("key={SECRET}").as_bytes()]);
    assert_eq!(found(Cookie::new("key").extract(Head::from(&by_cookie))), Ok(SHA256.to_owned()));
    assert_eq!(found(Cookie::new("key").keyed(b"Jefe").extract(Head::from(&by_cookie))), Ok(HMAC.to_owned()));

    let other = request(API_KEY, &[b"what do ya want for nothing!"]);
    assert_ne!(found(Header::new(API_KEY).extract(Head::from(&other))), Ok(SHA256.to_owned()));
    // A hash accepts any bytes.
    let bytes = request(API_KEY, &[b"\xff"]);
    assert!(found(Header::new(API_KEY).extract(Head::from(&bytes))).is_ok());
}

/// A secret in the store, in a log line or in an answer would leak.
#[test]
fn a_secret_is_not_in_the_key_nor_in_anything_that_is_shown() {
    let (secret, key) = ("hunter2-hunter2", "correct-horse");
    let shows = |shown: String| shown.contains("hunter2") || shown.contains("horse");
    for lines in [&[secret.as_bytes()][..], &[secret.as_bytes(), b"hunter2-hunter3"]] {
        let request = request(API_KEY, lines);
        for by in [Header::new(API_KEY), Header::new(API_KEY).keyed(key.as_bytes())] {
            let found = block_on(by.extract(Head::from(&request)).into_future());
            assert!(!shows(format!("{by:?} {:?} {found:?}", Head::from(&request))));
            match found {
                Ok(Identity::Known(key)) => {
                    let bytes = key.canonical_bytes().into_owned();
                    assert!(
                        !bytes.windows(4).any(|four| secret.as_bytes().windows(4).any(|own| own == four))
                    );
                }
                Ok(Identity::Missing(_)) => panic!(),
                Err(invalid) => assert!(!shows(invalid.to_string()), "{invalid}"),
            }
        }
    }
    // Plain values are in the key, but not in its `Debug` output.
    let request = request(API_KEY, &[secret.as_bytes()]);
    let plain = Header::new(API_KEY).plain();
    let found = block_on(plain.extract(Head::from(&request)).into_future());
    assert_eq!(found, Ok(Identity::Known(Key::from(secret))));
    assert!(!shows(format!("{found:?}")));
    let cookie = Cookie::new("session").keyed(key.as_bytes());
    assert!(!shows(format!("{cookie:?}")));
}
