//! Counts the open connections of each client.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Connections by client. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    max: u32,
    open: Arc<Mutex<HashMap<Peer, u32>>>,
}

/// A client, as far as its connection shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    /// The first address of a client's network.
    Network(IpAddr),
    /// A user of this machine, by number; `None` if the system does not tell it.
    User(Option<u32>),
}

/// One connection of a client, which counts until it is dropped.
#[derive(Debug)]
pub(crate) struct PeerConnection {
    peer: Peer,
    open: Arc<Mutex<HashMap<Peer, u32>>>,
}

impl Peers {
    /// Allows this many connections for each client.
    pub(crate) fn new(max: u32) -> Self {
        Self { max, open: Arc::default() }
    }

    /// Counts another connection of this client; `None` if it has too many.
    pub(crate) fn one_of(&self, peer: Peer) -> Option<PeerConnection> {
        // No change under this lock can be left half made; nor below.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(peer).or_default();
        if *count == self.max {
            return None;
        }
        *count += 1;
        Some(PeerConnection { peer, open: Arc::clone(&self.open) })
    }
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = open.entry(self.peer) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

impl Peer {
    /// Returns the client at an address: for IPv6, the whole /64, which one client usually has.
    pub(crate) fn at(address: IpAddr) -> Self {
        Self::Network(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
            v4 => v4,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_places_and_leaves_those_of_others() {
        let peers = Peers::new(2);
        let one_of = |address: &str| peers.one_of(Peer::at(address.parse().unwrap()));
        let first = one_of("192.0.2.1").unwrap();
        let mapped = one_of("::ffff:192.0.2.1").unwrap();
        assert!(one_of("192.0.2.1").is_none());
        let other = one_of("192.0.2.2").unwrap();
        drop(first);
        let again = one_of("192.0.2.1").unwrap();
        let v6 = [one_of("2001:db8::1").unwrap(), one_of("2001:db8::ffff:2").unwrap()];
        assert!(one_of("2001:db8::3").is_none(), "a /64 is one client");
        let next_v6 = one_of("2001:db8:0:1::1").unwrap();
        let user = [(); 2].map(|()| peers.one_of(Peer::User(Some(0))).unwrap());
        assert!(peers.one_of(Peer::User(Some(0))).is_none(), "a user of this machine is one client");
        drop((mapped, other, again, v6, next_v6, user));
        assert!(peers.open.lock().unwrap().is_empty(), "nobody is remembered");
    }
}
