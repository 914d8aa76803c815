//! Trusted proxies, and the clients in front of them.

use std::net::IpAddr;

use thiserror::Error;

use super::header::Hop;
use crate::network::{Network, NetworkError};

/// The proxies whose headers are trusted.
///
/// List only the proxies. A client with one of these addresses can choose the address it is counted by. If clients are
/// in the same network, list the proxies' hosts one by one.
///
/// ```
/// use tollgate_http::TrustedProxies;
///
/// let proxies = TrustedProxies::parse(["192.0.2.10", "2001:db8:1::/48"])?;
/// assert!(proxies.believe("192.0.2.10".parse()?, 0));
/// assert!(proxies.believe("::ffff:192.0.2.10".parse()?, 1));
/// assert!(!proxies.believe("192.0.2.11".parse()?, 0));
/// assert!(TrustedProxies::parse(["192.0.2.10/8"]).is_err());
///
/// // A load balancer of the cloud and a proxy of one's own, whatever their addresses are today.
/// let proxies = TrustedProxies::nearest(2);
/// assert!(proxies.believe("192.0.2.11".parse()?, 1));
/// assert!(!proxies.believe("192.0.2.11".parse()?, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedProxies(TrustRule);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TrustRule {
    Networks(Box<[Network]>),
    Nearest(usize),
}

/// The address that a request counts for, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientHop {
    /// The address, as it was written.
    pub address: IpAddr,
    /// Its entry, counted from 1 at the nearest proxy's; 0 if it is the peer of the connection.
    pub entry: usize,
    /// Whether the entry before it is hidden. The address is then a trusted proxy's, not the client's.
    pub hides_client: bool,
}

/// An entry that a trusted proxy should have filled in names nobody, for this reason: `has an empty entry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the header {0}")]
pub struct InvalidHop(pub &'static str);

impl TrustedProxies {
    /// Trusts the proxies in these networks, each written as an address with or without a prefix length.
    ///
    /// # Errors
    ///
    /// If one of them is not a network.
    pub fn parse<'t>(networks: impl IntoIterator<Item = &'t str>) -> Result<Self, NetworkError> {
        networks.into_iter().map(str::parse).collect()
    }

    /// Trusts this many proxies in front of the service, whatever their addresses, for load balancers whose addresses
    /// change.
    ///
    /// Every request must come through all of them. A client that bypasses one can choose the address it is counted by,
    /// so the network must not let anyone else connect.
    #[must_use]
    pub fn nearest(count: usize) -> Self {
        Self(TrustRule::Nearest(count))
    }

    /// Returns whether the proxy with this address is trusted, with this many proxies between it and the service.
    #[must_use]
    pub fn believe(&self, address: IpAddr, between: usize) -> bool {
        match &self.0 {
            TrustRule::Networks(networks) => {
                let host = Network::host(address);
                networks.iter().any(|network| network.covers(&host))
            }
            TrustRule::Nearest(count) => between < *count,
        }
    }

    /// Returns the address of the client whose request came over a connection from `peer`: the first address, on the
    /// way to the client, that is not a trusted proxy's. If an entry is hidden, the last address before it counts.
    ///
    /// # Errors
    ///
    /// If an entry that a trusted proxy should have filled in is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_http::{ForwardedHeader, TrustedProxies};
    ///
    /// let proxies = TrustedProxies::parse(["10.0.0.0/24"])?;
    /// let lines: [&[u8]; 1] = [b"198.51.100.1, 192.0.2.7, 10.0.0.2"];
    /// let hops = || ForwardedHeader::XForwardedFor.hops(lines.into_iter());
    /// assert_eq!(proxies.client("10.0.0.1".parse()?, hops())?, "192.0.2.7".parse::<std::net::IpAddr>()?);
    /// assert_eq!(proxies.client("203.0.113.9".parse()?, hops())?, "203.0.113.9".parse::<std::net::IpAddr>()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn client(&self, peer: IpAddr, hops: impl IntoIterator<Item = Hop>) -> Result<IpAddr, InvalidHop> {
        self.client_hop(peer, hops).map(|hop| hop.address.to_canonical())
    }

    /// Returns the same address as [`client`](Self::client) as it was written, and the entry that has it.
    ///
    /// # Errors
    ///
    /// The same as [`client`](Self::client).
    pub fn client_hop(
        &self,
        peer: IpAddr,
        hops: impl IntoIterator<Item = Hop>,
    ) -> Result<ClientHop, InvalidHop> {
        self.first_untrusted(peer, 0, hops)
    }

    /// Returns the address of the client of a proxy that asks about a request before it lets it through. That proxy is
    /// trusted, whatever its own address is; those in front of it as usual.
    ///
    /// `None` if the first entry does not name the address from which that proxy was reached.
    ///
    /// # Errors
    ///
    /// The same as [`client`](Self::client).
    pub fn client_asked_about(
        &self,
        hops: impl IntoIterator<Item = Hop>,
    ) -> Result<Option<IpAddr>, InvalidHop> {
        let mut hops = hops.into_iter();
        match hops.next().unwrap_or(Hop::Hidden) {
            // The proxy that asks is between this address and the service.
            Hop::Address(address) => {
                self.first_untrusted(address, 1, hops).map(|hop| Some(hop.address.to_canonical()))
            }
            Hop::Hidden => Ok(None),
            Hop::Invalid(reason) => Err(InvalidHop(reason)),
        }
    }

    /// The first address from `from` on that is not trusted, with this many proxies between `from` and the service.
    fn first_untrusted(
        &self,
        from: IpAddr,
        between: usize,
        hops: impl IntoIterator<Item = Hop>,
    ) -> Result<ClientHop, InvalidHop> {
        let mut reached = ClientHop { address: from, entry: between, hides_client: false };
        for hop in hops {
            match hop {
                _ if !self.believe(reached.address, reached.entry) => break,
                Hop::Address(address) => reached = ClientHop { address, entry: reached.entry + 1, ..reached },
                Hop::Hidden => return Ok(ClientHop { hides_client: true, ..reached }),
                Hop::Invalid(reason) => return Err(InvalidHop(reason)),
            }
        }
        Ok(reached)
    }
}

impl FromIterator<Network> for TrustedProxies {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        Self(TrustRule::Networks(networks.into_iter().collect()))
    }
}
