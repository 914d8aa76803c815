//! Networks of addresses, for matching in policies and for trusted proxies.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

/// All addresses that begin with the same bits, such as `10.0.0.0/8` or `2001:db8::/32`.
///
/// IPv4-mapped addresses of IPv6 (`::ffff:10.0.0.1`) are read as IPv4 addresses. So an IPv6 network never contains an
/// IPv4 address, not even `::/0`.
///
/// Networks are ordered by their first address, and wider ones come first.
///
/// # Examples
///
/// ```
/// use tollgate_http::Network;
///
/// let network: Network = "10.0.0.0/8".parse()?;
/// assert!(network.covers(&Network::host("::ffff:10.1.2.3".parse()?)));
/// assert!("10.0.0.1/8".parse::<Network>().is_err(), "this is a host, not a network");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    first: IpAddr,
    prefix: u8,
}

/// An invalid network. The fault of its author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The address is invalid, or the prefix length is.
    #[error("expected an address, with or without a prefix length, such as 10.0.0.0/8")]
    Invalid,
    /// Bits are set after the prefix. The field is the network that was probably meant.
    #[error("bits are set after the prefix: did you mean {0}?")]
    HostBits(Network),
}

impl Network {
    /// Returns the network of this address with a prefix of this many bits, at most the address's length.
    #[must_use]
    pub fn of(address: IpAddr, prefix: u8) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32_u32.saturating_sub(prefix.into())).unwrap_or(0);
                Self { first: Ipv4Addr::from_bits(address.to_bits() & mask).into(), prefix: prefix.min(32) }
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128_u32.saturating_sub(prefix.into())).unwrap_or(0);
                Self { first: Ipv6Addr::from_bits(address.to_bits() & mask).into(), prefix: prefix.min(128) }
            }
        }
    }

    /// Returns the address alone.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        Self::of(address, u8::MAX)
    }

    /// Returns its first address.
    #[must_use]
    pub const fn first(&self) -> IpAddr {
        self.first
    }

    /// Returns the length of its prefix.
    #[must_use]
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Returns whether this network contains the other.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.first.is_ipv4() == other.first.is_ipv4()
            && self.prefix <= other.prefix
            && Self::of(other.first, self.prefix).first == self.first
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Invalid)?;
        let prefix = match prefix {
            Some(prefix) if prefix.bytes().all(|byte| byte.is_ascii_digit()) => {
                prefix.parse().map_err(|_| NetworkError::Invalid)?
            }
            Some(_) => return Err(NetworkError::Invalid),
            None => u8::MAX,
        };
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if text.contains('/') && prefix > bits {
            return Err(NetworkError::Invalid);
        }
        // The first 96 bits of a mapped network only say that it is IPv4.
        let is_mapped = address.is_ipv6() && address.to_canonical().is_ipv4();
        let prefix = match prefix.checked_sub(96) {
            Some(prefix) if is_mapped => prefix,
            None if is_mapped => return Err(NetworkError::Invalid),
            _ => prefix,
        };
        let network = Self::of(address, prefix);
        if network.first != address.to_canonical() {
            return Err(NetworkError::HostBits(network));
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    fn holds(wide: &str, address: &str) -> bool {
        network(wide).covers(&Network::host(address.parse().unwrap()))
    }

    #[test]
    fn a_network_holds_the_addresses_that_begin_with_its_bits() {
        assert!(holds("10.0.0.0/8", "10.255.255.255"));
        assert!(!holds("10.0.0.0/8", "11.0.0.0"));
        assert!(holds("0.0.0.0/0", "255.255.255.255"));
        assert!(holds("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(!holds("2001:db8::/32", "2001:db9::"));
        assert!(holds("192.0.2.7", "192.0.2.7"));
        assert!(!holds("192.0.2.7", "192.0.2.6"));
    }

    #[test]
    fn mapped_addresses_are_those_of_ipv4() {
        assert!(holds("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(!holds("::/0", "::ffff:10.1.2.3"));
        assert_eq!(network("::ffff:10.0.0.0/104"), network("10.0.0.0/8"));
    }

    #[test]
    fn refuses_invalid_networks() {
        for text in
            ["", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "::/129", "::/256", "10/8", "::ffff:0:0/95"]
        {
            assert_eq!(text.parse::<Network>(), Err(NetworkError::Invalid), "{text}");
        }
        assert_eq!("10.0.0.1/8".parse::<Network>(), Err(NetworkError::HostBits(network("10.0.0.0/8"))));
    }
}
