//! Parsers for the values of flags, with their errors.

use std::convert::Infallible;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use http::uri::Authority;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tollgate::{HoldLength, InFlight, LocalShare, LocalShareError, Quota, QuotaError, Timestamp};
use tollgate_http::{Network, NetworkError};
use tollgate_policy::Policy;
use tollgate_redis::KeyLayout;

use super::Secret;
use crate::access::address::{AddressError, ListenAddress, SocketMode, SocketPath, UNIX};
use crate::args::layout::{self, UnknownLayout};

pub(crate) type ExpectedForm = &'static str;

/// One quota, or several in one text.
#[derive(Debug, Clone)]
pub struct Limits(pub Vec<Quota>);

impl FromStr for Limits {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        Quota::list(text).map(Self)
    }
}

/// Parses the name of an attribute, without the spaces around it, as after a comma.
pub(super) fn name(text: &str) -> Result<String, ExpectedForm> {
    Ok(text.trim().to_owned())
}

/// Parses the name and the value of an attribute.
pub(super) fn attribute(text: &str) -> Result<(String, String), ExpectedForm> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, such as user=alice"),
    }
}

/// Parses the value of a flag that is true without one, in the words of clap's `BoolishValueParser`.
pub(super) fn boolean(text: &str) -> Result<bool, ExpectedForm> {
    match text.to_ascii_lowercase().as_str() {
        "y" | "yes" | "t" | "true" | "on" | "1" => Ok(true),
        "n" | "no" | "f" | "false" | "off" | "0" => Ok(false),
        _ => Err("expected true or false"),
    }
}

/// Parses an address to listen on.
pub(super) fn address(text: &str) -> Result<ListenAddress, AddressError> {
    text.parse()
}

/// The address of a listener that may be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionalAddress(pub Option<ListenAddress>);

/// Why a text is neither an address to listen on nor `none`.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum OptionalAddressError {
    #[error("{}, or none", AddressError::Form)]
    Form,
    #[error(transparent)]
    Unix(AddressError),
}

/// Parses an address to listen on, or `none`.
pub(super) fn address_or_none(text: &str) -> Result<OptionalAddress, OptionalAddressError> {
    match text {
        "none" => Ok(OptionalAddress(None)),
        text => text.parse().map(|address| OptionalAddress(Some(address))).map_err(|error| match error {
            AddressError::Form => OptionalAddressError::Form,
            error => OptionalAddressError::Unix(error),
        }),
    }
}

/// Parses the permissions of Unix sockets.
pub(super) fn socket_mode(text: &str) -> Result<SocketMode, ExpectedForm> {
    SocketMode::parse(text)
}

/// Parses the name of a host, without the spaces around it.
pub(super) fn host(text: &str) -> Result<String, ExpectedForm> {
    let name = text.trim();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err("expected a name without a port, such as limits.example");
    }
    Ok(name.to_owned())
}

/// Parses a host name or an address that a certificate can have.
pub(super) fn certified_name(text: &str) -> Result<ServerName<'static>, ExpectedForm> {
    ServerName::try_from(text.to_owned()).map_err(|_| "expected a host name or an address")
}

/// A proxy whose headers are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustedProxy {
    /// A proxy in front of the one that asks: its entries in `X-Forwarded-For`.
    Network(Network),
    /// A proxy that asks over a Unix socket: all that it says about its client's request.
    Unix,
}

/// Parses a trusted proxy, without the spaces around it.
pub(super) fn trusted_proxy(text: &str) -> Result<TrustedProxy, NetworkError> {
    match text.trim() {
        "unix" => Ok(TrustedProxy::Unix),
        network => network.parse().map(TrustedProxy::Network),
    }
}

/// Parses a number above zero.
pub(super) fn positive<N: FromStr>(text: &str) -> Result<N, ExpectedForm> {
    text.parse().map_err(|_| "expected a whole number of at least 1")
}

/// Parses a cap on counters. Each reserves some 38 bytes of address space.
pub(super) fn max_counters(text: &str) -> Result<NonZeroUsize, ExpectedForm> {
    let counters = text.parse().ok().filter(|counters: &NonZeroUsize| counters.get() <= 1_000_000_000);
    counters.ok_or("expected a whole number from 1 to 1000000000")
}

/// Parses a number of keys to remember. Each takes some 100 bytes from the start.
pub(super) fn local_denials(text: &str) -> Result<usize, ExpectedForm> {
    let keys = text.parse().ok().filter(|keys| *keys <= 10_000_000);
    keys.ok_or("expected a whole number from 0 to 10000000")
}

/// Parses a cap on overrides. Each takes some 100 bytes.
pub(super) fn max_overrides(text: &str) -> Result<u32, ExpectedForm> {
    let overrides = text.parse().ok().filter(|overrides| *overrides <= 100_000_000);
    overrides.ok_or("expected a whole number from 0 to 100000000")
}

/// Parses an amount of memory, in bytes.
pub(super) fn size(text: &str) -> Result<NonZeroUsize, ExpectedForm> {
    const EXPECTED: ExpectedForm = "expected a size of at least 1KiB, such as 512KiB, 64MiB or 1GiB";
    let (number, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let scale = match unit {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(EXPECTED),
    };
    let bytes = number.parse().ok().and_then(|number: usize| number.checked_mul(scale));
    bytes.and_then(NonZeroUsize::new).ok_or(EXPECTED)
}

/// Parses a time to wait.
pub(super) fn time(text: &str) -> Result<Duration, ExpectedForm> {
    const EXPECTED: ExpectedForm = "expected a time from 1ms to 60s, such as 20ms or 1s";
    let (number, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let scale = match unit {
        "ms" => 1,
        "s" => 1_000,
        _ => return Err(EXPECTED),
    };
    let millis = number.parse().ok().and_then(|number: u64| number.checked_mul(scale));
    millis.filter(|millis| (1..=60_000).contains(millis)).map(Duration::from_millis).ok_or(EXPECTED)
}

/// Parses how long to wait for something.
pub(super) fn wait(text: &str) -> Result<Duration, ExpectedForm> {
    hold_length(text).map(HoldLength::duration)
}

/// Parses how long a hold lives without a renewal.
pub(super) fn hold_length(text: &str) -> Result<HoldLength, ExpectedForm> {
    let length = text.parse().ok().filter(|length: &HoldLength| length.duration() >= Duration::from_secs(1));
    length.ok_or("expected a time from 1s to 1h, such as 30s or 5m")
}

/// Parses the age of a connection, or the time that it may be silent.
pub(super) fn connection_age(text: &str) -> Result<Duration, ExpectedForm> {
    const EXPECTED: ExpectedForm = "expected a time from 1s to 365d, such as 30s, 5m, 12h or 7d";
    let (number, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let scale = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(EXPECTED),
    };
    let seconds = number.parse().ok().and_then(|number: u64| number.checked_mul(scale));
    seconds.filter(|seconds| (1..=365 * 86_400).contains(seconds)).map(Duration::from_secs).ok_or(EXPECTED)
}

/// Parses a share of a limit.
pub(super) fn share(text: &str) -> Result<LocalShare, LocalShareError> {
    text.parse()
}

/// Takes a text that may hold a password. It is checked later, because clap would repeat it in an error.
pub(super) fn secret(text: &str) -> Result<Secret, Infallible> {
    Ok(text.to_owned().into())
}

/// Parses a layout of keys, by name or as a template.
pub(super) fn layout(text: &str) -> Result<KeyLayout, UnknownLayout> {
    layout::read(text)
}

/// Parses the cost of a request.
pub(super) fn cost(text: &str) -> Result<u32, ExpectedForm> {
    text.parse().map_err(|_| "expected a whole number from 0 to 4294967295")
}

/// Parses the units in flight of a hold. One of none would hold nothing.
pub(super) fn units_in_flight(text: &str) -> Result<u32, ExpectedForm> {
    let units = text.parse().ok().filter(|units| (1..=InFlight::MAX_UNITS).contains(units));
    units.ok_or("expected a whole number from 1 to 1000")
}

/// Parses the name of a principal or a policy.
pub(super) fn name_of_file(text: &str) -> Result<String, ExpectedForm> {
    let name = text.trim();
    let is_name = Policy::is_name(name);
    is_name.then(|| name.to_owned()).ok_or("expected 1 to 64 letters, digits, `-`, `_` and `.`")
}

/// Parses a time of expiry.
pub(super) fn expiry(text: &str) -> Result<jiff::Timestamp, ExpectedForm> {
    text.parse().map_err(|_| "expected a time and its offset, such as 2027-01-01T00:00:00Z")
}

/// Parses a point in time.
pub(super) fn instant(text: &str) -> Result<Timestamp, ExpectedForm> {
    let time: jiff::Timestamp =
        text.parse().map_err(|_| "expected a time and its offset, such as 2026-11-21T16:00:00Z")?;
    Ok(Timestamp::from_unix_millis(time.as_millisecond()))
}

/// A service to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceAddress {
    /// Over TCP.
    Url(ServerUrl),
    /// At a Unix socket.
    Unix(SocketPath),
}

/// Parses a service to ask: a URL, or the path of a Unix socket.
pub(super) fn service(text: &str) -> Result<ServiceAddress, String> {
    match text.strip_prefix(UNIX) {
        Some(path) => path.parse().map(ServiceAddress::Unix).map_err(|error: AddressError| error.to_string()),
        None => server(text).map(ServiceAddress::Url).map_err(|error| match error {
            SERVER_FORM => {
                "expected http://HOST[:PORT], https://HOST[:PORT], HOST:PORT or unix:/PATH".to_owned()
            }
            error => error.to_owned(),
        }),
    }
}

impl ServiceAddress {
    pub(crate) const fn has_tls(&self) -> bool {
        matches!(self, Self::Url(ServerUrl { tls: true, .. }))
    }
}

impl fmt::Display for ServiceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => url.fmt(f),
            Self::Unix(path) => path.fmt(f),
        }
    }
}

/// The host and port of a service to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    /// Whether to use TLS.
    pub tls: bool,
    /// Its host and port.
    pub authority: Authority,
}

const SERVER_FORM: ExpectedForm = "expected http://HOST[:PORT], https://HOST[:PORT] or HOST:PORT";

/// Parses the host and port of a service to ask. A URL without a port has the default port of its scheme.
pub(crate) fn server(text: &str) -> Result<ServerUrl, ExpectedForm> {
    const EXPECTED: ExpectedForm = SERVER_FORM;
    let (default_port, authority) = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (Some(80), rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Some(443), rest),
        Some(_) => return Err(EXPECTED),
        None => (None, text),
    };
    let tls = default_port == Some(443);
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    if authority.contains('@') {
        return Err(
            "user and password are not supported: expected http://HOST[:PORT] or https://HOST[:PORT]",
        );
    }
    let parsed: Authority = authority.parse().map_err(|_| EXPECTED)?;
    let host = parsed.host();
    let authority = match (authority.strip_prefix(host), default_port) {
        (Some(""), Some(port)) => format!("{host}:{port}").parse().map_err(|_| EXPECTED)?,
        (Some(rest), _) if !host.is_empty() => match rest.strip_prefix(':').map(port) {
            Some(Some(1..)) => parsed,
            Some(_) => return Err("the port must be a whole number from 1 to 65535"),
            None => return Err(EXPECTED),
        },
        _ => return Err(EXPECTED),
    };
    Ok(ServerUrl { tls, authority })
}

impl ServerUrl {
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.authority)
    }
}

fn port(text: &str) -> Option<u16> {
    // `parse` accepts a plus sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_url_or_host_and_port() {
        let reads = |text: &str| server(text).unwrap().to_string();
        assert_eq!(reads("https://example.com"), "https://example.com:443");
        assert_eq!(reads("HTTPS://[::1]:8443/"), "https://[::1]:8443");
        assert_eq!(reads("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
        assert_eq!(reads("HTTP://example.com/"), "http://example.com:80");
        assert_eq!(reads("localhost:8080"), "http://localhost:8080");
        assert_eq!(reads("localhost:8080/"), "http://localhost:8080");
        assert_eq!(reads("http://[::1]:8080"), "http://[::1]:8080");
        assert_eq!(reads("[::1]:80"), "http://[::1]:80");
    }

    /// An invalid port was silently replaced by port 80.
    #[test]
    fn refuses_an_invalid_port_and_does_not_use_port_80() {
        for port in ["99999", "abc", "8080808", "", "0", "+80", "-1", "65536", "80:80"] {
            for scheme in ["", "http://"] {
                let text = format!("{scheme}127.0.0.1:{port}");
                assert!(server(&text).is_err(), "{text}");
            }
        }
        let error = server("http://127.0.0.1:99999").unwrap_err();
        assert_eq!(error, "the port must be a whole number from 1 to 65535");
    }

    #[test]
    fn refuses_unsupported_urls_with_a_reason() {
        assert!(server("http://user:pw@example.com").unwrap_err().starts_with("user and password"));
        for text in [
            "",
            "localhost",
            "http://",
            "https://",
            ":80",
            "http://:80",
            "ftp://a:1",
            "http://a/v1",
            "http://a?b",
        ] {
            assert_eq!(
                server(text),
                Err("expected http://HOST[:PORT], https://HOST[:PORT] or HOST:PORT"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_time_is_a_number_of_milliseconds_or_seconds() {
        assert_eq!(time("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(time("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(connection_age("365d"), Ok(Duration::from_secs(365 * 86_400)));
        assert_eq!(connection_age("5m"), Ok(Duration::from_secs(300)));
        for text in ["0s", "366d", "5", "5ms", "", "s", "18446744073709551615d"] {
            assert!(connection_age(text).is_err(), "{text}");
        }
        for text in
            ["", "20", "ms", "0ms", "61s", "60001ms", "1m", "1.5s", "-1s", "20 ms", "99999999999999999999s"]
        {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_listener_that_may_be_left_out_has_an_address_or_none() {
        assert_eq!(address_or_none("none"), Ok(OptionalAddress(None)));
        assert_eq!(
            address_or_none("127.0.0.1:80"),
            Ok(OptionalAddress(Some("127.0.0.1:80".parse().unwrap())))
        );
        assert_eq!(
            address_or_none("None").unwrap_err().to_string(),
            "expected IP:PORT, such as 127.0.0.1:8080, or unix:/PATH, or none"
        );
        assert!(address_or_none("").is_err() && address_or_none("unix:none").is_err());
    }

    #[test]
    fn a_service_is_a_url_or_a_socket() {
        for (text, read) in
            [("unix:/run/a.sock", "unix:/run/a.sock"), ("localhost:80", "http://localhost:80")]
        {
            assert_eq!(service(text).unwrap().to_string(), read);
        }
        assert!(service("nonsense").unwrap_err().ends_with("HOST:PORT or unix:/PATH"));
        assert!(service("unix://a/b").unwrap_err().contains("absolute path"));
        assert!(server("unix:/run/a.sock").is_err(), "xDS comes over TCP");
    }
}
