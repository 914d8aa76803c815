//! `X-Forwarded-For`, read from its end as the service reads it.
//!
//! Each proxy appends the address that it has heard from, so the end is from the nearest one, and the start may be from
//! the client. The rule is that of `tollgate_http::TrustedProxies`; a test compares the two.

use std::net::IpAddr;

use tollgate_http::{Hop, Network};

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
    header.rsplit(|&byte| byte == b',').map(Hop::of)
}

/// The first address, on the way to the client, that is not a trusted proxy's.
pub(crate) fn client(peer: &[u8], header: &[u8], trusted: &[Network]) -> Client {
    let peer = match Hop::of(peer) {
        Hop::Address(address) => Some(address),
        Hop::Hidden | Hop::Invalid(_) => None,
    };
    let (mut client, mut reached) = (Client::Peer, peer);
    for hop in hops(header) {
        let is_trusted = reached.is_some_and(|address| {
            let host = Network::host(address);
            trusted.iter().any(|network| network.covers(&host))
        });
        match hop {
            _ if !is_trusted => break,
            Hop::Address(address) => (client, reached) = (Client::Address(address), Some(address)),
            Hop::Hidden => return Client::Behind(reached.filter(|_| client != Client::Peer)),
            Hop::Invalid(_) => return Client::Unnamed,
        }
    }
    client
}
