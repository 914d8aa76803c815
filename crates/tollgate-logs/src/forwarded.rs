//! `X-Forwarded-For`, read from its end as the service reads it.
//!
//! Each proxy appends the address that it has heard from, so the end is from the nearest one, and the start may be from
//! the client. The rule is that of `tollgate_tower::key::ClientAddress`; a test compares the two.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tollgate_http::Network;

/// An entry of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hop {
    Address(IpAddr),
    /// It does not say the address: `unknown`, an obfuscated identifier, garbage.
    Hidden,
    /// It names nobody, and the service refuses such a request.
    Empty,
}

/// The client of a request behind proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// The peer of the connection.
    Peer,
    Address(IpAddr),
    /// The address that was reached last is a trusted proxy's, and the entry before it is hidden. `None` is the peer.
    Behind(Option<IpAddr>),
    /// A trusted proxy left its entry empty.
    Unnamed,
}

/// The entries from the nearest proxy on.
pub(crate) fn hops(header: &[u8]) -> impl Iterator<Item = Hop> {
    header.rsplit(|&byte| byte == b',').map(hop)
}

fn hop(entry: &[u8]) -> Hop {
    match entry.trim_ascii() {
        b"" => Hop::Empty,
        entry => node(entry).map_or(Hop::Hidden, Hop::Address),
    }
}

/// The first address, on the way to the client, that is not a trusted proxy's.
pub(crate) fn client(peer: &[u8], header: &[u8], trusted: &[Network]) -> Client {
    let (mut client, mut reached) = (Client::Peer, node(peer));
    for hop in hops(header) {
        let is_trusted = reached.is_some_and(|address| {
            let host = Network::host(address);
            trusted.iter().any(|network| network.covers(&host))
        });
        match hop {
            _ if !is_trusted => break,
            Hop::Address(address) => (client, reached) = (Client::Address(address), Some(address)),
            Hop::Hidden => return Client::Behind(reached.filter(|_| client != Client::Peer)),
            Hop::Empty => return Client::Unnamed,
        }
    }
    client
}

/// The address of a node, with or without a port, IPv6 in brackets or bare, with a zone.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        return (port.is_empty() || is_port(port)).then_some(ipv6(address)?.into());
    }
    let (address, port) = text.split_at(text.find(':').unwrap_or(text.len()));
    match address.parse::<Ipv4Addr>() {
        Ok(address) => (port.is_empty() || is_port(port)).then_some(address.into()),
        Err(_) => Some(ipv6(text)?.into()),
    }
}

fn ipv6(text: &str) -> Option<Ipv6Addr> {
    match text.split_once('%') {
        None => text.parse().ok(),
        Some((_, "")) => None,
        Some((address, _zone)) => address.parse().ok(),
    }
}

/// `:` and a port: a number, or an obfuscated one of RFC 7239, such as `_p`.
fn is_port(text: &str) -> bool {
    let Some(port) = text.strip_prefix(':') else { return false };
    let is_number = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_obfuscated = port.strip_prefix('_').is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    });
    is_number || is_obfuscated
}
