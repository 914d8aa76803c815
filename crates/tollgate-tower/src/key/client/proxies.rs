//! Which proxies are believed.

use std::net::IpAddr;

use tollgate::{Network, NetworkError};

/// The proxies that are believed when they say whom they have heard from.
///
/// Name the proxies and nothing else. Whoever has one of these addresses can be counted as anybody: if clients live in
/// the same network, name the hosts of the proxies one by one.
///
/// ```
/// use tollgate_tower::key::TrustedProxies;
///
/// let proxies = TrustedProxies::parse(["192.0.2.10", "2001:db8:1::/48"])?;
/// assert!(proxies.contain("192.0.2.10".parse()?));
/// assert!(proxies.contain("::ffff:192.0.2.10".parse()?));
/// assert!(!proxies.contain("192.0.2.11".parse()?));
/// assert!(TrustedProxies::parse(["192.0.2.10/8"]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedProxies(Box<[Network]>);

impl TrustedProxies {
    /// The proxies with addresses in these networks, each written as an address with or without a prefix length.
    ///
    /// # Errors
    ///
    /// If one of them is no network.
    pub fn parse<'t>(networks: impl IntoIterator<Item = &'t str>) -> Result<Self, NetworkError> {
        networks.into_iter().map(str::parse).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the proxy with this address is believed.
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        let host = Network::host(address);
        self.0.iter().any(|network| network.covers(&host))
    }
}

impl FromIterator<Network> for TrustedProxies {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        Self(networks.into_iter().collect())
    }
}
