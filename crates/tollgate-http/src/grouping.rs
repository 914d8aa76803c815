//! The number of bits of an address that identify a client.

use std::net::{IpAddr, Ipv4Addr};

use thiserror::Error;

use tollgate::Key;

use crate::network::Network;

/// The number of leading bits of an address that identify a client. A client with an IPv6 address usually has a whole
/// /64, so counting single addresses would give it 2^64 limits.
///
/// The default is /32 and /64. An IPv4 address in IPv6 form counts as the IPv4 address: mapped (`::ffff:192.0.2.7`), or
/// from a translator with the well-known prefix of RFC 6052 (`64:ff9b::192.0.2.7`), whose clients share one /64.
///
/// ```
/// use tollgate_http::Grouping;
///
/// let grouping = Grouping::new(24, 56)?;
/// assert_eq!(grouping.network("192.0.2.7".parse()?), "192.0.2.0/24".parse()?);
/// assert_eq!(grouping.network("::ffff:192.0.2.7".parse()?), "192.0.2.0/24".parse()?);
/// assert_eq!(grouping.network("2001:db8::ff:1:2:3:4".parse()?), "2001:db8::/56".parse()?);
/// assert!(Grouping::new(33, 64).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grouping {
    ipv4: u8,
    ipv6: u8,
}

/// More bits than an address has. The fault of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an IPv4 address has 32 bits to group by, and an IPv6 address 128")]
pub struct GroupingError;

impl Grouping {
    /// Each address is a separate client.
    pub const WHOLE: Self = Self { ipv4: 32, ipv6: 128 };

    /// Groups by the leading bits of IPv4 and of IPv6 addresses.
    ///
    /// # Errors
    ///
    /// If that is more than 32 or 128.
    pub const fn new(ipv4: u8, ipv6: u8) -> Result<Self, GroupingError> {
        if ipv4 > 32 || ipv6 > 128 { Err(GroupingError) } else { Ok(Self { ipv4, ipv6 }) }
    }

    /// Returns the bits of an IPv4 address that identify a client.
    #[must_use]
    pub const fn ipv4(self) -> u8 {
        self.ipv4
    }

    /// Returns the bits of an IPv6 address that identify a client.
    #[must_use]
    pub const fn ipv6(self) -> u8 {
        self.ipv6
    }

    /// Returns the network of the client with this address.
    #[must_use]
    pub fn network(self, address: IpAddr) -> Network {
        let address = ipv4_within(address.to_canonical());
        let prefix = if address.is_ipv4() { self.ipv4 } else { self.ipv6 };
        Network::of(address, prefix)
    }

    /// Returns the key of the client with this address: the first address of its network.
    #[must_use]
    #[inline]
    pub fn key(self, address: IpAddr) -> Key<'static> {
        match address {
            // The usual case: the address itself.
            IpAddr::V4(address) if self.ipv4 == 32 => Key::from(address),
            address => Key::from(self.network(address).first()),
        }
    }
}

impl Default for Grouping {
    fn default() -> Self {
        Self { ipv4: 32, ipv6: 64 }
    }
}

/// The IPv4 address in one with a translator's well-known prefix.
fn ipv4_within(address: IpAddr) -> IpAddr {
    let IpAddr::V6(ipv6) = address else { return address };
    match ipv6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)).into()
        }
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bits_and_all_bits_are_groupings_too() {
        let (v4, v6): (IpAddr, IpAddr) =
            ([203, 0, 113, 255].into(), [0x2001, 0xdb8, 1, 2, 3, 4, 5, 6].into());
        let (all, none) = (Grouping::new(32, 128).unwrap(), Grouping::new(0, 0).unwrap());
        assert_eq!((all.network(v4).first(), all.network(v6).first()), (v4, v6));
        assert_eq!((all.key(v4), all.key(v6)), (Key::from(v4), Key::from(v6)));
        assert_eq!(none.network(v4), "0.0.0.0/0".parse().unwrap());
        assert_eq!(none.network(v6), "::/0".parse().unwrap());
    }

    /// Their /64 would make them all one client.
    #[test]
    fn clients_behind_a_translator_are_their_ipv4_addresses() {
        let of = |text: &str| Grouping::default().network(text.parse().unwrap()).first();
        assert_eq!(of("64:ff9b::192.0.2.7"), IpAddr::from([192, 0, 2, 7]));
        assert_ne!(of("64:ff9b::192.0.2.7"), of("64:ff9b::192.0.2.8"));
        // Other prefixes of translators cannot be recognized.
        assert_eq!(of("64:ff9b:1::192.0.2.7"), of("64:ff9b:1::192.0.2.8"));
        assert_eq!(of("64:ff9b::1:192.0.2.7"), "64:ff9b::".parse::<IpAddr>().unwrap());
    }
}
