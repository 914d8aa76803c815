//! How much of an address is one client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;
use tollgate::Key;

/// How many leading bits make addresses one client: whoever has an IPv6 address usually has a whole /64, so counted
/// one by one they would have a limit for each of 2^64 addresses.
///
/// The default is /32 and /64. An IPv4 address that came as IPv6 (`::ffff:192.0.2.7`) is the IPv4 address.
///
/// ```
/// use tollgate_tower::key::Grouping;
///
/// let grouping = Grouping::new(24, 56)?;
/// assert_eq!(grouping.network("192.0.2.7".parse()?), "192.0.2.0".parse::<std::net::IpAddr>()?);
/// assert_eq!(grouping.network("::ffff:192.0.2.7".parse()?), "192.0.2.0".parse::<std::net::IpAddr>()?);
/// assert_eq!(grouping.network("2001:db8::ff:1:2:3:4".parse()?), "2001:db8::".parse::<std::net::IpAddr>()?);
/// assert!(Grouping::new(33, 64).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grouping {
    ipv4: u8,
    ipv6: u8,
}

/// More bits than an address has. The fault of whoever wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an IPv4 address has 32 bits to group by, and an IPv6 address 128")]
pub struct GroupingError;

impl Grouping {
    /// So many leading bits of an IPv4 address, and so many of an IPv6 address.
    ///
    /// # Errors
    ///
    /// If that is more than 32 or 128.
    pub const fn new(ipv4: u8, ipv6: u8) -> Result<Self, GroupingError> {
        if ipv4 > 32 || ipv6 > 128 { Err(GroupingError) } else { Ok(Self { ipv4, ipv6 }) }
    }

    /// The first address of the client's network.
    #[must_use]
    pub fn network(self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.ipv4)).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.ipv6)).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        }
    }

    /// The key of the client that has this address.
    #[must_use]
    pub fn key(self, address: IpAddr) -> Key<'static> {
        Key::from(self.network(address))
    }
}

impl Default for Grouping {
    fn default() -> Self {
        Self { ipv4: 32, ipv6: 64 }
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
        assert_eq!((all.network(v4), all.network(v6)), (v4, v6));
        assert_eq!(none.network(v4), IpAddr::from([0; 4]));
        assert_eq!(none.network(v6), IpAddr::from([0_u16; 8]));
    }
}
