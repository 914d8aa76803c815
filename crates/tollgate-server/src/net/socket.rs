//! Listening sockets, and the number of connections that the system queues for them.

use std::net::{Ipv6Addr, SocketAddr};
use std::{fs, io, iter};

use anyhow::Context;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

use super::connections_per_peer::Peer;
use super::socket_file::{self, SocketFile};
use super::stream::PlainStream;
use crate::access::address::{ListenAddress, SocketMode};
use crate::args::Flag;

/// The maximum number of queued connections. A further one is dropped, and its client only retries after a second. The
/// usual 128 are fewer than one burst of a large client.
const BACKLOG: u32 = 4096;

/// A socket that listens.
#[derive(Debug)]
pub(crate) enum ListeningSocket {
    Tcp(TcpListener),
    // In this order, because a dropped file is removed, and the socket must still be open then.
    Unix(SocketFile, UnixListener),
}

impl ListeningSocket {
    /// Listens on the address of this flag. A Unix socket gets this mode.
    ///
    /// # Errors
    ///
    /// If the system does not allow it, or another process or file has the address.
    pub(crate) async fn bind(
        address: &ListenAddress,
        unix_mode: SocketMode,
        flag: &'static str,
    ) -> anyhow::Result<Self> {
        let bound = match address {
            ListenAddress::Tcp(address) => listen(*address).map(Self::Tcp).map_err(anyhow::Error::from),
            ListenAddress::Unix(path) => {
                let listening = socket_file::listen(path, unix_mode, BACKLOG).await;
                listening.map(|(socket, file)| Self::Unix(file, socket)).map_err(anyhow::Error::from)
            }
        };
        bound.with_context(|| format!("cannot listen on {address} (`{}`)", Flag(flag)))
    }

    /// Returns its address, with the port that the system chose.
    pub(crate) fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(socket) => socket.local_addr().map(ListenAddress::Tcp),
            Self::Unix(file, _) => Ok(ListenAddress::Unix(file.path().clone())),
        }
    }

    /// Accepts the next connection.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no connection was accepted.
    pub(super) async fn accept(&self) -> io::Result<(PlainStream, Peer)> {
        match self {
            Self::Tcp(socket) => {
                let (stream, address) = socket.accept().await?;
                Ok((PlainStream::Tcp(stream), Peer::at(address.ip())))
            }
            Self::Unix(_, socket) => {
                let (stream, _) = socket.accept().await?;
                let user = stream.peer_cred().ok().map(|credentials| credentials.uid());
                Ok((PlainStream::Unix(stream), Peer::User(user)))
            }
        }
    }

    /// Stops listening. Returns the connections that wait in the system's queue. Their clients believe that they are
    /// connected. The runtime notices them late, so this asks the system itself.
    ///
    /// The system resets a connection over TCP that is established between the last look and the end of the listener.
    /// Nobody finds a Unix socket then: its file is removed first.
    pub(super) fn into_waiting(self) -> Vec<PlainStream> {
        match self {
            Self::Tcp(socket) => {
                let Ok(socket) = socket.into_std() else { return Vec::new() };
                let streams = taken(|| socket.accept()).map(|stream| {
                    stream.set_nonblocking(true)?;
                    TcpStream::from_std(stream).map(PlainStream::Tcp)
                });
                streams.flatten().collect()
            }
            Self::Unix(file, socket) => {
                drop(file);
                let Ok(socket) = socket.into_std() else { return Vec::new() };
                let streams = taken(|| socket.accept()).map(|stream| {
                    stream.set_nonblocking(true)?;
                    UnixStream::from_std(stream).map(PlainStream::Unix)
                });
                streams.flatten().collect()
            }
        }
    }
}

/// Listens on an address of TCP.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of a process that has just ended do not block the address.
    socket.set_reuseaddr(true)?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // All addresses, whatever the system's default is: those of IPv4 too.
        SockRef::from(&socket).set_only_v6(false)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Returns how many connections the system queues, if it reports this.
pub(crate) fn backlog() -> Option<u32> {
    let most = fs::read_to_string("/proc/sys/net/core/somaxconn").ok()?;
    most.trim().parse().ok().map(|most: u32| most.min(BACKLOG))
}

/// Collects what `accept` returns until it fails, and passes over broken connections. `accept` must not block: if
/// nothing waits, it fails.
fn taken<T, A>(mut accept: impl FnMut() -> io::Result<(T, A)>) -> impl Iterator<Item = T> {
    let accepted = iter::from_fn(move || match accept() {
        Ok((stream, _)) => Some(Some(stream)),
        Err(error) if is_of_one_connection(&error) => Some(None),
        Err(_) => None,
    });
    accepted.flatten()
}

/// Returns whether the error concerns only the connection that was accepted.
pub(super) fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that left before it was accepted ended the loop, and the drain reset the clients behind it.
    #[test]
    fn a_connection_that_is_broken_ends_nothing() {
        use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        let mut answers = [
            Ok((1, ())),
            Err(ConnectionAborted),
            Err(Interrupted),
            Ok((2, ())),
            Err(WouldBlock),
            Ok((3, ())),
        ]
        .into_iter();
        let accept = || answers.next().unwrap().map_err(io::Error::from);
        assert_eq!(taken(accept).collect::<Vec<_>>(), [1, 2]);
    }
}
