//! Headers that clients send before proxies append theirs, and paths.

use std::net::IpAddr;

use fastrand::Rng;
use http::{HeaderName, HeaderValue, Request};
use tollgate_http::canonical_path;
use tollgate_tower::Head;
use tollgate_tower::key::{ClientAddress, ForwardedHeader, Peer, TrustedProxies};

const EXAMPLES: [&str; 12] = [
    "203.0.113.9",
    "203.0.113.9, 10.0.0.1",
    "203.0.113.9:49152, [2001:db8::1]:80",
    "unknown, _hidden, 2001:db8::1",
    "for=203.0.113.9;proto=https;by=10.0.0.1",
    "for=\"[2001:db8::1]:4711\";host=\"a, b\", for=_x",
    "For=\"\\\"203.0.113.9\\\"\"",
    "for=10.0.0.1, for=10.0.0.1, for=10.0.0.1",
    "::ffff:10.0.0.1, 64:ff9b::10.0.0.1",
    "fe80::1%eth0, [fe80::1%25eth0]:1",
    "",
    "/api/%6Cogin/../x//./%2e%2E/caf%C3%A9?a=b",
];

const PIECES: [&str; 28] = [
    ",",
    ", ",
    ";",
    "\"",
    "\\",
    "=",
    "for=",
    "FOR=\"",
    "[",
    "]",
    ":",
    "::",
    "%",
    "%2e",
    "%25",
    "%ff",
    "..",
    "/",
    "//",
    " ",
    "\t",
    "unknown",
    "10.0.0.1",
    "198.51.100.1",
    "\"\\",
    "\u{e9}",
    "by=",
    "256",
];

pub(crate) struct Headers {
    listed: [ClientAddress; 2],
    counted: [ClientAddress; 2],
    named: ClientAddress,
}

const REAL: HeaderName = HeaderName::from_static("x-real-ip");

impl Headers {
    pub(crate) fn new() -> Self {
        let headers = [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded];
        let proxies = || TrustedProxies::parse(["10.0.0.0/24"]).unwrap();
        Self {
            listed: headers.map(|header| ClientAddress::behind(proxies(), header)),
            counted: headers.map(|header| ClientAddress::behind(TrustedProxies::nearest(1), header)),
            named: ClientAddress::named_by(proxies(), REAL),
        }
    }

    /// Tries one input. Returns whether a header in it was believed.
    pub(crate) fn try_one(&self, random: &mut Rng) -> bool {
        let mut text = EXAMPLES[random.usize(..EXAMPLES.len())].as_bytes().to_vec();
        super::mutate(random, &mut text, &PIECES);
        is_one_spelling(&String::from_utf8_lossy(&text));
        let Ok(value) = HeaderValue::from_bytes(&text) else { return false };
        let client: IpAddr = [198, 51, 100, random.u8(..)].into();
        let which = random.usize(..2);
        let header = [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded][which];
        let appended = [client.to_string(), format!("for={client}")][which].clone();

        // Whatever the client has sent, the address that the proxy appended counts.
        let mut request = Request::new(());
        request.extensions_mut().insert(Peer(([10, 0, 0, 1], 1).into()));
        let is_one_line = random.bool();
        if is_one_line {
            let line = [value.as_bytes(), b", ", appended.as_bytes()].concat();
            request.headers_mut().append(header.name(), HeaderValue::from_bytes(&line).unwrap());
        } else {
            request.headers_mut().append(header.name(), value.clone());
            request.headers_mut().append(header.name(), HeaderValue::from_str(&appended).unwrap());
        }
        for by in [&self.listed[which], &self.counted[which]] {
            assert_eq!(by.of(Head::from(&request)), Ok(Some(client)), "{request:?}");
        }

        // A stranger's own headers are not read.
        request.headers_mut().insert(REAL, value);
        request.extensions_mut().insert(Peer(([192, 0, 2, 7], 1).into()));
        let stranger = Ok(Some(IpAddr::from([192, 0, 2, 7])));
        assert_eq!(self.listed[which].of(Head::from(&request)), stranger, "{request:?}");
        assert_eq!(self.named.of(Head::from(&request)), stranger, "{request:?}");
        // A proxy's value may be no address; then the proxy itself counts.
        request.extensions_mut().insert(Peer(([10, 0, 0, 1], 1).into()));
        matches!(self.named.of(Head::from(&request)), Ok(Some(found)) if found != IpAddr::from([10, 0, 0, 1]))
    }
}

/// Checks that an absolute path has no segment that stands for another.
fn is_one_spelling(text: &str) {
    let path = format!("/{text}");
    let canonical = canonical_path(&path);
    let mut segments: Vec<&str> = canonical.split('/').skip(1).collect();
    assert!(canonical.starts_with('/') && !segments.is_empty(), "{path:?}: {canonical:?}");
    if segments.last() == Some(&"") {
        segments.pop();
    }
    assert!(!segments.iter().any(|it| ["", ".", ".."].contains(it)), "{path:?}: {canonical:?}");
}
