//! Listening sockets, and how many connections the system keeps until they are accepted.

use std::fs;
use std::net::SocketAddr;

use anyhow::Context;
use tokio::net::{TcpListener, TcpSocket};

use crate::args::Flag;

/// Connections that may wait at once: one more is dropped, and its client tries again only after a second. The usual
/// 128 are fewer than one burst of a large client.
const BACKLOG: u32 = 4096;

/// Listens on the address that this flag names.
pub(crate) fn listen_on(address: SocketAddr, flag: &'static str) -> anyhow::Result<TcpListener> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A process that has just ended leaves connections behind, which keep nobody from the address.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().with_context(|| format!("cannot listen on {address} (`{}`)", Flag(flag)))
}

/// How many connections the system lets wait, where it tells.
pub(crate) fn backlog() -> Option<u32> {
    let most = fs::read_to_string("/proc/sys/net/core/somaxconn").ok()?;
    most.trim().parse().ok().map(|most: u32| most.min(BACKLOG))
}
