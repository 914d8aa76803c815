//! The address of a client behind proxies.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_http::{ForwardedHeader, Grouping, Hop, InvalidHop, TrustedProxies};

use super::{Extraction, InvalidIdentity, KeyExtractor, MissingIdentity, NO_PEER, Peer};
use crate::head::Head;

/// The client's address according to trusted proxies, grouped.
///
/// # What it trusts
///
/// The address of the connection (see [`PeerAddress`](super::PeerAddress)). If that is not a trusted proxy, it is the
/// client, and the header is not read. If it is, the header's last entry is the address that this proxy has heard from.
/// If that is a trusted proxy as well, the entry before it counts, and so on, until an address is not a trusted
/// proxy's. So whatever a client sends, it is counted by the address from which it reached the first trusted proxy. Its
/// own entries are before that one and are never read.
///
/// If an entry is missing or not an address (`unknown`, an obfuscated identifier, garbage), the last address that was
/// reached counts. That is a trusted proxy's, so all clients that a proxy hides share one limit. An empty entry, as in
/// `192.0.2.7,,10.0.0.1`, names nobody: the request is [invalid](InvalidIdentity), and does not pass as the proxy.
///
/// Each trusted proxy must append to this header or replace it. A proxy that passes it on unchanged lets clients choose
/// their address.
///
/// Some proxies send the client's address in [a separate header](Self::named_by) instead.
///
/// # What is missing
///
/// Without an address of the connection, the setup is incomplete, and no request passes. For connections without one,
/// such as a Unix socket that only the proxy can reach, the server can leave a [`Peer`] with a trusted address.
///
/// # Examples
///
/// ```
/// use tollgate::Key;
/// use tollgate_tower::Head;
/// use tollgate_tower::key::{ClientAddress, ForwardedHeader, Identity, KeyExtractor, Peer, TrustedProxies};
///
/// # tollgate_testkit::block_on(async {
/// let proxies = TrustedProxies::parse(["10.0.0.0/24"])?;
/// let by = ClientAddress::behind(proxies, ForwardedHeader::XForwardedFor);
///
/// // The client says that it is 198.51.100.1, and the proxy that it has heard from 192.0.2.7.
/// let mut request = http::Request::get("/").header("x-forwarded-for", "198.51.100.1, 192.0.2.7").body(())?;
/// request.extensions_mut().insert(Peer("10.0.0.1:49152".parse()?));
///
/// let client: std::net::IpAddr = "192.0.2.7".parse()?;
/// assert_eq!(by.extract(Head::from(&request)).await?, Identity::Known(Key::from(client)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAddress {
    proxies: TrustedProxies,
    header: ClientHeader,
    grouping: Grouping,
}

/// How proxies name the client.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ClientHeader {
    /// One after another, in the header of this name.
    List(ForwardedHeader, HeaderName),
    /// The client alone.
    Single(HeaderName),
}

impl ClientAddress {
    /// Reads the client from this header of these proxies; groups IPv6 addresses by their first 64 bits.
    #[must_use]
    pub fn behind(proxies: TrustedProxies, header: ForwardedHeader) -> Self {
        let header = ClientHeader::List(header, HeaderName::from_static(header.name()));
        Self { proxies, header, grouping: Grouping::default() }
    }

    /// Reads the client from a header that contains only its address, such as `X-Real-IP`, `CF-Connecting-IP` or
    /// `True-Client-IP`. Groups IPv6 addresses by their first 64 bits.
    ///
    /// The proxy of the connection must replace the header, whatever the client sent. If the header is missing or not
    /// an address, the proxy is counted. A header that is empty, or occurs twice because it was not replaced, is
    /// [invalid](InvalidIdentity).
    ///
    /// # Examples
    ///
    /// ```
    /// use http::HeaderName;
    /// use tollgate_tower::Head;
    /// use tollgate_tower::key::{ClientAddress, Peer, TrustedProxies};
    ///
    /// let proxies = TrustedProxies::parse(["10.0.0.0/24"])?;
    /// let by = ClientAddress::named_by(proxies, HeaderName::from_static("x-real-ip"));
    /// let mut request = http::Request::get("/").header("x-real-ip", "192.0.2.7").body(())?;
    /// request.extensions_mut().insert(Peer("10.0.0.1:49152".parse()?));
    /// assert_eq!(by.of(Head::from(&request))?, Some("192.0.2.7".parse()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn named_by(proxies: TrustedProxies, header: HeaderName) -> Self {
        Self { proxies, header: ClientHeader::Single(header), grouping: Grouping::default() }
    }

    /// Sets how addresses are grouped.
    #[must_use]
    pub fn grouped(self, grouping: Grouping) -> Self {
        Self { grouping, ..self }
    }

    /// Returns the client's address, not grouped; `None` without an address of the connection.
    ///
    /// # Errors
    ///
    /// If an entry that a trusted proxy should have filled in is empty.
    pub fn of(&self, head: Head<'_>) -> Result<Option<IpAddr>, InvalidIdentity> {
        let Some(peer) = Peer::of(head) else { return Ok(None) };
        let address = match &self.header {
            ClientHeader::List(header, name) => {
                self.proxies.client(peer, header.hops(lines(head.headers(), name)))
            }
            ClientHeader::Single(name) => self.proxies.client(peer, [only_hop(head.headers(), name)]),
        };
        address.map(Some).map_err(|reason| self.header.invalid(reason))
    }

    /// Returns the address of the client of a proxy that asks about a request before it lets it through. The proxy is
    /// trusted, whatever its own address is; those in front of it as usual. The address is not grouped.
    ///
    /// `None` if the header does not name the address that the proxy has heard from.
    ///
    /// # Errors
    ///
    /// The same as [`of`](Self::of).
    ///
    /// # Examples
    ///
    /// ```
    /// use http::HeaderMap;
    /// use tollgate_tower::key::{ClientAddress, ForwardedHeader, TrustedProxies};
    ///
    /// let proxies = TrustedProxies::parse(["10.0.0.0/24"])?;
    /// let by = ClientAddress::behind(proxies, ForwardedHeader::XForwardedFor);
    /// let mut headers = HeaderMap::new();
    /// assert_eq!(by.asked_about(&headers)?, None);
    /// headers.insert("x-forwarded-for", "198.51.100.1, 192.0.2.7".parse()?);
    /// assert_eq!(by.asked_about(&headers)?, Some("192.0.2.7".parse()?));
    /// headers.append("x-forwarded-for", "10.0.0.1".parse()?);
    /// assert_eq!(by.asked_about(&headers)?, Some("192.0.2.7".parse()?));
    /// headers.insert("x-forwarded-for", "192.0.2.7,,10.0.0.1".parse()?);
    /// assert!(by.asked_about(&headers).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn asked_about(&self, headers: &HeaderMap) -> Result<Option<IpAddr>, InvalidIdentity> {
        let address = match &self.header {
            ClientHeader::List(header, name) => {
                self.proxies.client_asked_about(header.hops(lines(headers, name)))
            }
            ClientHeader::Single(name) => self.proxies.client_asked_about([only_hop(headers, name)]),
        };
        address.map_err(|reason| self.header.invalid(reason))
    }
}

impl ClientHeader {
    #[cold]
    fn invalid(&self, InvalidHop(reason): InvalidHop) -> InvalidIdentity {
        let (Self::List(_, name) | Self::Single(name)) = self;
        InvalidIdentity::malformed(format!("header `{name}` {reason}"))
    }
}

/// The lines of this header.
fn lines<'r>(headers: &'r HeaderMap, name: &HeaderName) -> impl DoubleEndedIterator<Item = &'r [u8]> {
    headers.get_all(name).into_iter().map(HeaderValue::as_bytes)
}

/// The address that this header holds. If it is there twice, even with the same value, the proxy did not replace it.
fn only_hop(headers: &HeaderMap, name: &HeaderName) -> Hop {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Hop::Hidden,
        (Some(value), None) => Hop::of(value.as_bytes()),
        (Some(_), Some(_)) => Hop::Invalid("is given more than once"),
    }
}

impl KeyExtractor for ClientAddress {
    fn extract<'r>(&'r self, head: Head<'r>) -> Extraction<'r> {
        Extraction::Now(self.of(head).map(|address| match address {
            Some(address) => self.grouping.key(address).into(),
            None => MissingIdentity::by_setup(NO_PEER).into(),
        }))
    }
}
