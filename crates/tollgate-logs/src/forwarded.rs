//! `X-Forwarded-For`, read from its end as the service reads it.
//!
//! Each proxy appends the address that it has heard from, so the end is from the nearest one, and the start may be from
//! the client.

use std::iter;
use std::net::IpAddr;

use tollgate_http::{ClientHop, ForwardedHeader, Hop, TrustedProxies};

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
    ForwardedHeader::XForwardedFor.hops(iter::once(header))
}

/// The first address, on the way to the client, that is not a trusted proxy's.
pub(crate) fn client(peer: &[u8], header: &[u8], trusted: &TrustedProxies) -> Client {
    // No proxy is known by a name.
    let Hop::Address(peer) = Hop::of(peer) else { return Client::Peer };
    match trusted.client_hop(peer, hops(header)) {
        Ok(ClientHop { entry: 0, hides_client: false, .. }) => Client::Peer,
        Ok(ClientHop { address, hides_client: false, .. }) => Client::Address(address),
        Ok(ClientHop { address, entry, .. }) => Client::Behind((entry > 0).then_some(address)),
        Err(_) => Client::Unnamed,
    }
}
