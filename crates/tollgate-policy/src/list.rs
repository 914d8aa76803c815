//! Lists of values and networks in separate files.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::index::Table;
use crate::{Network, Value, condition};

/// The values or networks of a file in the folder of the policy file. A look-up takes about as long in a list of a
/// hundred thousand entries as in one of ten.
///
/// `Debug` shows only the file's name. Clones share the list.
#[derive(Clone, PartialEq, Eq)]
pub struct List {
    file: Box<str>,
    entries: Arc<Entries>,
}

#[derive(PartialEq, Eq)]
enum Entries {
    /// Texts as they are.
    Texts(Table<()>),
    /// Addresses of each family, from the first to the last of each range. Ranges are sorted and disjoint.
    Networks { ipv4: Box<[(u32, u32)]>, ipv6: Box<[(u128, u128)]> },
}

impl List {
    pub(crate) fn of_texts(file: &str, mut texts: Vec<Box<str>>) -> Self {
        // So that the same list is the same whatever its order.
        texts.sort_unstable();
        texts.dedup();
        let slots = texts.iter().map(|text| (text.as_ref(), ())).collect();
        Self { file: file.into(), entries: Arc::new(Entries::Texts(Table::new(slots))) }
    }

    pub(crate) fn of_networks(file: &str, networks: &[Network]) -> Self {
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        for network in networks {
            let bits = u32::from(network.prefix());
            match network.first() {
                IpAddr::V4(first) => {
                    let first = first.to_bits();
                    ipv4.push((first, first | u32::MAX.checked_shr(bits).unwrap_or(0)));
                }
                IpAddr::V6(first) => {
                    let first = first.to_bits();
                    ipv6.push((first, first | u128::MAX.checked_shr(bits).unwrap_or(0)));
                }
            }
        }
        let entries = Entries::Networks { ipv4: apart(ipv4), ipv6: apart(ipv6) };
        Self { file: file.into(), entries: Arc::new(entries) }
    }

    /// Returns the name of the file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the key under which a test names it.
    pub(crate) fn key(&self) -> &'static str {
        match *self.entries {
            Entries::Texts(_) => "one_of_from",
            Entries::Networks { .. } => "cidr_from",
        }
    }

    /// Returns its texts in no particular order, unless it has networks.
    pub(crate) fn texts(&self) -> Option<impl Iterator<Item = &str>> {
        match &*self.entries {
            Entries::Texts(texts) => Some(texts.iter().map(|(text, ())| text)),
            Entries::Networks { .. } => None,
        }
    }

    /// Returns its ranges of addresses, each with its first and its last one. Texts have none.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (IpAddr, IpAddr)> {
        let (ipv4, ipv6) = match &*self.entries {
            Entries::Texts(_) => Default::default(),
            Entries::Networks { ipv4, ipv6 } => (ipv4.as_ref(), ipv6.as_ref()),
        };
        let ipv4 = ipv4.iter().map(|(first, last)| {
            (IpAddr::from(Ipv4Addr::from_bits(*first)), IpAddr::from(Ipv4Addr::from_bits(*last)))
        });
        let ipv6 = ipv6.iter().map(|(first, last)| {
            (IpAddr::from(Ipv6Addr::from_bits(*first)), IpAddr::from(Ipv6Addr::from_bits(*last)))
        });
        ipv4.chain(ipv6)
    }

    /// Returns whether this value is in it.
    pub(crate) fn has(&self, value: Value<'_>) -> bool {
        match &*self.entries {
            Entries::Texts(texts) => value.any(|text| texts.get(text).is_some()),
            Entries::Networks { ipv4, ipv6 } => {
                value.texts().filter_map(condition::address).any(|address| match address.to_canonical() {
                    IpAddr::V4(address) => is_in(ipv4, address.to_bits()),
                    IpAddr::V6(address) => is_in(ipv6, address.to_bits()),
                })
            }
        }
    }
}

/// Sorts ranges, and joins those that touch.
fn apart<T: Copy + Ord>(mut ranges: Vec<(T, T)>) -> Box<[(T, T)]> {
    ranges.sort_unstable();
    let mut apart: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match apart.last_mut().filter(|(_, end)| first <= *end) {
            Some((_, end)) => *end = last.max(*end),
            None => apart.push((first, last)),
        }
    }
    apart.into()
}

fn is_in<T: Copy + Ord>(ranges: &[(T, T)], address: T) -> bool {
    let next = ranges.partition_point(|(first, _)| *first <= address);
    let before = next.checked_sub(1).and_then(|before| ranges.get(before));
    before.is_some_and(|(_, last)| address <= *last)
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List").field("file", &self.file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at every network, at the ends of each and next to them.
    #[test]
    fn an_address_is_found_in_the_ranges_that_have_it() {
        let texts = [
            "10.0.0.0/8",
            "10.1.0.0/16",
            "192.0.2.7",
            "192.0.2.8/29",
            "255.255.255.255",
            "0.0.0.0",
            "2001:db8::/32",
            "2001:db9::1",
            "::/128",
            "ffff:ffff::/32",
            "::ffff:203.0.113.0/120",
        ];
        let networks: Vec<Network> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let list = List::of_networks("t", &networks);
        let reversed: Vec<Network> = networks.iter().rev().copied().collect();
        assert_eq!(list, List::of_networks("t", &reversed));
        let ends = texts.iter().flat_map(|text| {
            let network: Network = text.parse().unwrap();
            let first = match network.first() {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            };
            let bits = u32::from(network.prefix()) + if network.first().is_ipv4() { 96 } else { 0 };
            let first = first.to_bits();
            let last = first | u128::MAX.checked_shr(bits).unwrap_or(0);
            [first, first.wrapping_sub(1), last, last.wrapping_add(1), first.wrapping_add(3)]
        });
        for address in ends {
            let address = IpAddr::from(Ipv6Addr::from_bits(address)).to_canonical();
            let expected = networks.iter().any(|network| network.covers(&Network::host(address)));
            assert_eq!(list.has(Value::of("ip", &*address.to_string())), expected, "{address}");
        }
        assert!(!list.has(Value::of("ip", "nowhere")));
        assert!(!List::of_networks("t", &[]).has(Value::of("ip", "10.0.0.1")));
        let all = List::of_networks("t", &["::/0".parse().unwrap()]);
        assert!(all.has(Value::of("ip", "2001:db8::1")) && !all.has(Value::of("ip", "10.0.0.1")));
    }
}
