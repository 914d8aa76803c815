//! A request as a proxy describes it in headers: `method`, `path`, `host` and `ip`.
//!
//! Proxies pass on the headers of their clients, except for those that they set, so any other may be a client's. That
//! is why each attribute is read from one header, and is required: a proxy that does not set one is answered 400 to
//! every usual request, and its operator finds out before a client does. If both [forms](Form) are present, one of them
//! comes from the client, and it is unknown which.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use http::{HeaderMap, HeaderValue, Method};
use tollgate_http::{ForwardedHeader, Grouping, TrustedProxies};
use tollgate_policy::Attributes;

use crate::answer::rejection::Rejection;

// As Traefik and Caddy send them.
const FORWARDED_METHOD: &str = "X-Forwarded-Method";
const FORWARDED_URI: &str = "X-Forwarded-Uri";
const FORWARDED_HOST: &str = "X-Forwarded-Host";

// As operators of nginx set them, and ingress-nginx does. The URL has the host as well.
const ORIGINAL_METHOD: &str = "X-Original-Method";
const ORIGINAL_URI: &str = "X-Original-URI";
const ORIGINAL_HOST: &str = "X-Original-Host";
const ORIGINAL_URL: &str = "X-Original-URL";

/// The client's address and those of proxies, in either form.
const FOR: &str = "X-Forwarded-For";

/// All headers that are read.
pub(in super::super) const ALL_HEADERS: [&str; 8] = [
    FORWARDED_METHOD,
    FORWARDED_URI,
    FORWARDED_HOST,
    FOR,
    ORIGINAL_METHOD,
    ORIGINAL_URI,
    ORIGINAL_HOST,
    ORIGINAL_URL,
];

/// The methods of HTTP itself, and PATCH.
const KNOWN: [Method; 9] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::CONNECT,
    Method::OPTIONS,
    Method::TRACE,
];

/// The headers that describe a request.
enum HeaderForm {
    /// `X-Forwarded-*`.
    Forwarded,
    /// `X-Original-*`.
    Original,
}

impl HeaderForm {
    /// Returns the form that is there. Host headers do not identify the form: load balancers send `X-Forwarded-Host`
    /// and `X-Original-Host` with the requests themselves.
    fn of(headers: &HeaderMap) -> Result<Self, Rejection> {
        let is_there = |name: &&&str| headers.contains_key(**name);
        let forwarded = [FORWARDED_METHOD, FORWARDED_URI];
        let original = [ORIGINAL_METHOD, ORIGINAL_URI, ORIGINAL_URL];
        match (forwarded.iter().find(is_there), original.iter().find(is_there)) {
            (Some(forwarded), Some(original)) => Err(Rejection::bad_field(
                format!("headers.{original}"),
                format!(
                    "`{forwarded}` is present as well, and one of the two may come from the client: the proxy that \
                     asks must remove the headers that it does not set"
                ),
            )),
            (None, Some(_)) => Ok(Self::Original),
            (_, None) => Ok(Self::Forwarded),
        }
    }
}

/// The attributes of a request that policies see.
#[derive(Clone, Copy)]
pub(super) enum DescribedParts {
    Everything,
    /// The network of its client, as a key by `ip` has it. The rest is read all the same.
    Network,
}

/// Reads the attributes of the request that these headers describe.
///
/// # Errors
///
/// If a header is missing, given twice or invalid, or if both forms are present.
pub(super) fn attributes<'r>(
    headers: &'r HeaderMap,
    proxies: &TrustedProxies,
    told: DescribedParts,
) -> Result<Attributes<'r>, Rejection> {
    let (method, path, host) = match HeaderForm::of(headers)? {
        HeaderForm::Forwarded => (
            required(headers, FORWARDED_METHOD).and_then(method)?,
            required(headers, FORWARDED_URI).and_then(path)?,
            required(headers, FORWARDED_HOST).and_then(host)?,
        ),
        HeaderForm::Original => {
            let method = required(headers, ORIGINAL_METHOD).and_then(method)?;
            let (path, host) = original_target(headers)?;
            (method, path, host)
        }
    };
    let address = address(headers, proxies)?;
    let mut attributes = Attributes::default();
    match told {
        DescribedParts::Network => {
            attributes.push("ip", Grouping::default().network(address).first().to_string())
        }
        DescribedParts::Everything => {
            attributes.push("method", method);
            attributes.push("path", path);
            attributes.push("host", host);
            attributes.push("ip", address.to_string());
        }
    }
    Ok(attributes)
}

/// A header and its value.
type DescriptionHeader<'r> = (&'static str, &'r str);

/// Reads path and host, which are in one header or in two.
fn original_target(headers: &HeaderMap) -> Result<(&str, String), Rejection> {
    match (only(headers, ORIGINAL_URI)?, only(headers, ORIGINAL_URL)?) {
        (Some(_), Some((name, _))) => {
            let detail = "`X-Original-URI` is present as well, and one of the two may come from the client: the \
                          proxy that asks must set one and remove the other";
            Err(bad(name, detail))
        }
        (None, Some(url)) => split_url(url),
        // Names the header that is missing, if there is none.
        (_, None) => {
            let path = required(headers, ORIGINAL_URI).and_then(path)?;
            Ok((path, required(headers, ORIGINAL_HOST).and_then(host)?))
        }
    }
}

/// The path and the host of a URL. The host ends at the first slash and nowhere else: a client may choose it, and
/// `a?` as the host would make a query of the path.
fn split_url((name, url): DescriptionHeader<'_>) -> Result<(&str, String), Rejection> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let parts = rest.and_then(|rest| rest.split_at_checked(rest.find('/')?));
    let (authority, target) =
        parts.ok_or_else(|| bad(name, "expected http:// or https://, a host, and a path"))?;
    Ok((path((name, target))?, host((name, authority))?))
}

/// The method. Some services treat `post` as POST, so policies must not treat it as another method.
fn method((name, value): DescriptionHeader<'_>) -> Result<Cow<'_, str>, Rejection> {
    let method = Method::from_bytes(value.as_bytes()).map_err(|_| bad(name, "this is not a method"))?;
    if !value.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Ok(value.into());
    }
    let capital = method.as_str().to_ascii_uppercase();
    if KNOWN.iter().any(|known| *known == *capital) {
        return Ok(capital.into());
    }
    Err(bad(name, "a method with lower-case letters must be a known one, such as GET, HEAD or POST"))
}

/// The path, without the query. A target has no fragment (RFC 9112, section 3.2). Some services cut one off, and others
/// read it as a part of the path.
fn path((name, target): DescriptionHeader<'_>) -> Result<&str, Rejection> {
    if target.contains('#') {
        return Err(bad(name, "the target of a request cannot contain `#`"));
    }
    let path = target.split('?').next().unwrap_or_default();
    // `OPTIONS *` asks about the server.
    let is_path = path.starts_with('/') || target == "*";
    if is_path { Ok(path) } else { Err(bad(name, "expected a path, which begins with `/`")) }
}

/// The host in its one spelling: in lower case, without a port, and without a dot at its end.
fn host((name, authority): DescriptionHeader<'_>) -> Result<String, Rejection> {
    spelled(authority).ok_or_else(|| bad(name, "expected one host, with or without a port"))
}

fn spelled(authority: &str) -> Option<String> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, ""),
    };
    if port.len() > 5 || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if let Some(address) = host.strip_prefix('[') {
        let address: Ipv6Addr = address.strip_suffix(']')?.parse().ok()?;
        return Some(format!("[{address}]"));
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    (!host.is_empty() && host.bytes().all(is_name)).then(|| host.to_ascii_lowercase())
}

fn address(headers: &HeaderMap, proxies: &TrustedProxies) -> Result<IpAddr, Rejection> {
    let header = ForwardedHeader::XForwardedFor;
    let lines = headers.get_all(header.name()).into_iter().map(HeaderValue::as_bytes);
    match proxies.client_asked_about(header.hops(lines)) {
        Ok(Some(address)) => Ok(address),
        Ok(None) if headers.contains_key(FOR) => Err(bad(FOR, "its last entry is not an address")),
        Ok(None) => Err(missing(FOR)),
        Err(_) => Err(bad(FOR, "an entry that a proxy should have filled in is empty")),
    }
}

fn required<'r>(headers: &'r HeaderMap, name: &'static str) -> Result<DescriptionHeader<'r>, Rejection> {
    only(headers, name)?.filter(|(_, value)| !value.is_empty()).ok_or_else(|| missing(name))
}

/// Returns the header of this name, if there is one.
fn only<'r>(headers: &'r HeaderMap, name: &'static str) -> Result<Option<DescriptionHeader<'r>>, Rejection> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(bad(name, "the header appears twice, and one of the two may come from the client"));
    }
    let value = std::str::from_utf8(value.as_bytes()).map_err(|_| bad(name, "the header is not UTF-8"))?;
    Ok(Some((name, value)))
}

#[cold]
fn missing(name: &str) -> Rejection {
    bad(name, "the header is missing or empty: the proxy that asks must set it")
}

#[cold]
fn bad(name: &str, detail: &'static str) -> Rejection {
    Rejection::bad_field(format!("headers.{name}"), detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORWARDED: [(&str, &str); 4] = [
        ("x-forwarded-method", "POST"),
        ("x-forwarded-uri", "/login?next=/"),
        ("x-forwarded-host", "Shop.Example:8443"),
        ("x-forwarded-for", "198.51.100.9, 192.0.2.7"),
    ];
    const ORIGINAL: [(&str, &str); 4] = [
        ("x-original-method", "POST"),
        ("x-original-uri", "/login?next=/"),
        ("x-original-host", "Shop.Example:8443"),
        ("x-forwarded-for", "198.51.100.9, 192.0.2.7"),
    ];

    fn map(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(
                http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        headers
    }

    /// The values in the order of their attributes, or the field that is wrong.
    fn read(pairs: &[(&str, &str)]) -> Result<[String; 4], String> {
        let proxies = TrustedProxies::parse(["10.0.0.0/8"]).unwrap();
        let headers = map(pairs);
        let attributes = attributes(&headers, &proxies, DescribedParts::Everything);
        let attributes = attributes.map_err(|rejection| rejection.field().unwrap().to_owned())?;
        let value = |name| match attributes.value(name) {
            Some(tollgate_policy::Texts::One(text)) => text.to_owned(),
            other => panic!("{name} is {other:?}"),
        };
        Ok(["method", "path", "host", "ip"].map(value))
    }

    fn with<'a>(base: &[(&'a str, &'a str)], name: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
        let kept = base.iter().copied().filter(|(other, _)| *other != name);
        kept.chain([(name, value)]).collect()
    }

    #[test]
    fn each_form_is_read() {
        let told = Ok(["POST", "/login", "shop.example", "192.0.2.7"].map(str::to_owned));
        assert_eq!(read(&FORWARDED), told);
        assert_eq!(read(&ORIGINAL), told);
        let url = [ORIGINAL[0], ("x-original-url", "https://Shop.Example:8443/login?next=/"), ORIGINAL[3]];
        assert_eq!(read(&url), told);
        // Load balancers in front of the proxy send these.
        assert_eq!(read(&[&FORWARDED[..], &[("x-original-host", "a.example")]].concat()), told);
        assert_eq!(read(&[&ORIGINAL[..], &[("x-forwarded-host", "a.example")]].concat()), told);
        assert_eq!(read(&[&url[..], &[("x-original-host", "a.example")]].concat()), told, "the URL has it");
    }

    /// A client that adds the other form chose its own path otherwise.
    #[test]
    fn nobody_is_believed_if_there_are_both_forms() {
        for (base, lies, field) in [
            (&FORWARDED[..], [("x-original-method", "GET"), ("x-original-method", "GET")], "Method"),
            (&FORWARDED, [("x-original-uri", "/"), ("x-original-host", "a")], "URI"),
            (&FORWARDED, [("x-original-url", "http://a/"), ("x-original-host", "a")], "URL"),
            (&ORIGINAL, [("x-forwarded-method", "GET"), ("x-forwarded-host", "a")], "Method"),
            (&ORIGINAL, [("x-forwarded-uri", "/"), ("x-forwarded-host", "a")], "Method"),
            (&ORIGINAL, [("x-original-url", "http://a/"), ("x-original-url", "http://b/")], "URL"),
            (&ORIGINAL, [("x-original-url", "http://a/"), ("x-forwarded-host", "a")], "URL"),
        ] {
            let refused = Err(format!("headers.X-Original-{field}"));
            assert_eq!(read(&[base, &lies].concat()), refused, "{lies:?}");
        }
    }

    #[test]
    fn a_header_that_is_missing_empty_or_there_twice_is_named() {
        for base in [FORWARDED, ORIGINAL] {
            for (name, value) in base {
                let field = ALL_HEADERS.iter().find(|header| header.eq_ignore_ascii_case(name)).unwrap();
                let field = Err(format!("headers.{field}"));
                let without: Vec<_> = base.into_iter().filter(|(other, _)| *other != name).collect();
                assert_eq!(read(&without), field, "{name} is missing");
                assert_eq!(read(&with(&base, name, "")), field, "{name} is empty");
                if name != "x-forwarded-for" {
                    let twice = [&base[..], &[(name, value)]].concat();
                    assert_eq!(read(&twice), field, "{name} is there twice");
                }
            }
        }
        assert_eq!(read(&[]), Err("headers.X-Forwarded-Method".to_owned()));
    }

    #[test]
    fn a_path_is_what_comes_before_the_query_in_its_one_spelling() {
        for (target, path) in [
            ("/", "/"),
            ("/?a=/b", "/"),
            ("/a?b?c", "/a"),
            ("/a;b?c", "/a;b"),
            ("//x/../%6Cogin", "/login"),
            ("/%3Fa", "/?a"),
            ("/ä", "/ä"),
            ("*", "*"),
        ] {
            let headers = with(&FORWARDED, "x-forwarded-uri", target);
            assert_eq!(read(&headers).map(|[_, path, ..]| path), Ok(path.to_owned()));
        }
        for target in [
            "login",
            "?a",
            "#",
            "/a#b?c",
            "/a?b#c",
            "http://shop.example/login",
            "*?a",
            "shop.example:443",
            "mailto:a",
        ] {
            let headers = with(&FORWARDED, "x-forwarded-uri", target);
            let refused = Err("headers.X-Forwarded-Uri".to_owned());
            assert_eq!(read(&headers), refused, "{target}");
        }
    }

    /// `post` was no POST to policies, and one to services that ignore case.
    #[test]
    fn a_method_has_one_spelling() {
        for (given, method) in [("post", "POST"), ("Get", "GET"), ("HEAD", "HEAD"), ("PURGE", "PURGE")] {
            let headers = with(&FORWARDED, "x-forwarded-method", given);
            assert_eq!(read(&headers).map(|[method, ..]| method), Ok(method.to_owned()), "{given}");
        }
        for given in ["purge", "Purge", "pos"] {
            let headers = with(&FORWARDED, "x-forwarded-method", given);
            assert_eq!(read(&headers), Err("headers.X-Forwarded-Method".to_owned()), "{given}");
        }
    }

    #[test]
    fn a_host_has_one_spelling() {
        for (authority, host) in [
            ("a.example", "a.example"),
            ("A.EXAMPLE.", "a.example"),
            ("a.example.:443", "a.example"),
            ("a:", "a"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("[2001:db8:0::1]:80", "[2001:db8::1]"),
            ("my_host", "my_host"),
        ] {
            assert_eq!(spelled(authority).as_deref(), Some(host), "{authority}");
        }
        for authority in [
            "",
            ".",
            ":80",
            "a b",
            "a,b",
            "a, b",
            "a?",
            "a#",
            "a@b",
            "a/b",
            "a\\b",
            "a:x",
            "a:123456",
            "a:80:80",
            "::1",
            "[::1",
            "::1]",
            "[a]",
            "[::1]x",
            "a%20",
            "bücher.example",
            "*",
        ] {
            assert_eq!(spelled(authority), None, "{authority}");
        }
    }

    /// nginx accepts `shop.example?` as a host, and sends the path behind it.
    #[test]
    fn a_host_cannot_hide_the_path_of_a_url() {
        for url in [
            "https://shop.example?/login",
            "https://shop.example#/login",
            "https://a@b/login",
            "https://a\\b/login",
            "https:///login",
            "https://shop.example",
            "ftp://shop.example/login",
            "//shop.example/login",
            "/login",
            "HTTPS://shop.example/login",
            "",
        ] {
            let headers = [ORIGINAL[0], ("x-original-url", url), ORIGINAL[3]];
            assert_eq!(read(&headers), Err("headers.X-Original-URL".to_owned()), "{url}");
        }
    }

    #[test]
    fn the_client_is_whom_the_first_trusted_proxy_has_heard_from() {
        for (header, client) in [
            ("192.0.2.7", Ok("192.0.2.7")),
            ("198.51.100.9,192.0.2.7", Ok("192.0.2.7")),
            ("198.51.100.9, 192.0.2.7, 10.0.0.1", Ok("192.0.2.7")),
            ("198.51.100.9, 10.0.0.2, 10.0.0.1", Ok("198.51.100.9")),
            ("10.0.0.2", Ok("10.0.0.2")),
            ("unknown, 10.0.0.1", Ok("10.0.0.1")),
            ("[2001:db8::1]:4711", Ok("2001:db8::1")),
            ("::ffff:192.0.2.7", Ok("192.0.2.7")),
            ("192.0.2.7, unknown", Err(())),
            ("192.0.2.7,", Err(())),
            ("9.9.9.9,,10.0.0.1", Err(())),
            ("9.9.9.9, , 10.0.0.2, 10.0.0.1", Err(())),
            (",10.0.0.1", Err(())),
            (",,192.0.2.7, 10.0.0.1", Ok("192.0.2.7")),
            ("alice", Err(())),
        ] {
            let found = read(&with(&FORWARDED, "x-forwarded-for", header));
            let expected = client.map(str::to_owned).map_err(|()| "headers.X-Forwarded-For".to_owned());
            assert_eq!(found.map(|[.., ip]| ip), expected, "{header}");
        }
    }

    #[test]
    fn refuses_values_that_are_no_text() {
        let mut headers = map(&FORWARDED);
        headers.insert("x-forwarded-uri", HeaderValue::from_bytes(b"/\xff").unwrap());
        let proxies = TrustedProxies::nearest(1);
        let refused = attributes(&headers, &proxies, DescribedParts::Everything).err().unwrap();
        assert_eq!(refused.field(), Some("headers.X-Forwarded-Uri"));
        for method in ["P OST", "", "GET/", "GÉT"] {
            let headers = with(&FORWARDED, "x-forwarded-method", method);
            let refused = Err("headers.X-Forwarded-Method".to_owned());
            assert_eq!(read(&headers), refused, "{method}");
        }
    }
}
