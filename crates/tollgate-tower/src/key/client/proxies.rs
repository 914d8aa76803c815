//! Trusted proxies.

use std::net::IpAddr;

use tollgate_http::{Network, NetworkError};

/// The proxies whose headers are trusted.
///
/// List only the proxies. A client with one of these addresses can choose the address it is counted by. If clients are
/// in the same network, list the proxies' hosts one by one.
///
/// ```
/// use tollgate_tower::key::TrustedProxies;
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
pub struct TrustedProxies(Trust);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Trust {
    Networks(Box<[Network]>),
    Nearest(usize),
}

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
        Self(Trust::Nearest(count))
    }

    /// Returns whether the proxy with this address is trusted, with this many proxies between it and the service.
    #[must_use]
    pub fn believe(&self, address: IpAddr, between: usize) -> bool {
        match &self.0 {
            Trust::Networks(networks) => {
                let host = Network::host(address);
                networks.iter().any(|network| network.covers(&host))
            }
            Trust::Nearest(count) => between < *count,
        }
    }
}

impl FromIterator<Network> for TrustedProxies {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        Self(Trust::Networks(networks.into_iter().collect()))
    }
}
