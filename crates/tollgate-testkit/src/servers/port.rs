//! Ports that no other test takes.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

/// A TCP port on the loopback, ours until it is dropped, also while nothing listens on it.
///
/// Holding the UDP port of the same number is what keeps others of our kind away, of this process or of another:
/// no server here uses UDP, and the system gives it back when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Port {
    held: UdpSocket,
}

/// Below the ports that systems give to outgoing connections. Those would take the port of a server that is down,
/// and a client that asks for it again and again would at some time be connected to itself.
const FIRST: u16 = 15_000;
const COUNT: u16 = 15_000;

impl Port {
    /// A port on which no program listens and that no other test has reserved.
    pub(super) fn reserve() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        for _ in 0..COUNT {
            // Processes start at different places, so that they seldom try the same.
            let place = u32::from(NEXT.fetch_add(1, Ordering::Relaxed)) + process::id().wrapping_mul(97);
            let port = FIRST + (place % u32::from(COUNT)) as u16;
            let Ok(held) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) else { continue };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Self { held };
            }
        }
        panic!("no port from {FIRST} to {} is free", FIRST + (COUNT - 1));
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.held.local_addr().expect("a bound socket has an address")
    }

    pub(super) fn number(&self) -> u16 {
        self.address().port()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn nobody_gets_a_port_that_another_holds() {
        let ports: Vec<_> = (0..200).map(|_| Port::reserve()).collect();
        let numbers: HashSet<_> = ports.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), ports.len());
        for port in &ports {
            assert!(UdpSocket::bind(port.address()).is_err(), "another process could reserve {port:?}");
            TcpListener::bind(port.address()).unwrap();
        }
    }
}
