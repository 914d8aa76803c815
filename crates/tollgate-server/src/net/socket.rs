//! Listening sockets, and the number of connections that the system queues for them.

use std::fs;
use std::net::{Ipv6Addr, SocketAddr};

use anyhow::Context;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};

use crate::args::Flag;

/// The maximum number of queued connections. A further one is dropped, and its client only retries after a second. The
/// usual 128 are fewer than one burst of a large client.
const BACKLOG: u32 = 4096;

/// Listens on the address of this flag.
pub(crate) fn listen_on(address: SocketAddr, flag: &'static str) -> anyhow::Result<TcpListener> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // Connections of a process that has just ended do not block the address.
        socket.set_reuseaddr(true)?;
        if address.ip() == Ipv6Addr::UNSPECIFIED {
            // All addresses, whatever the system's default is: those of IPv4 too.
            SockRef::from(&socket).set_only_v6(false)?;
        }
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().with_context(|| format!("cannot listen on {address} (`{}`)", Flag(flag)))
}

/// Returns how many connections the system queues, if it reports this.
pub(crate) fn backlog() -> Option<u32> {
    let most = fs::read_to_string("/proc/sys/net/core/somaxconn").ok()?;
    most.trim().parse().ok().map(|most: u32| most.min(BACKLOG))
}
