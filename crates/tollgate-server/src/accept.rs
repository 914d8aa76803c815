//! From a listening socket to connections: the cap on them, and the end of listening.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use std::{future, io, iter, net};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollgate::{Clock, SystemClock};
use tracing::warn;

use crate::caller::Peer;
use crate::log_gap::LogGap;
use crate::metrics::OpenConnections;
use crate::peers::{OfPeer, Peers};
use crate::phase::Phase;
use crate::protocol::Protocol;
use crate::tls::ListenerTls;

/// How long to wait when the system gives no connection, as when there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// For as long as one log line says that the system gives no connection, or that all are taken.
const LOG_GAP: Duration = Duration::from_secs(60);

/// A bound socket and what becomes of its connections.
pub(crate) struct Acceptor<P> {
    socket: TcpListener,
    max_connections: u32,
    connections: Connections<P>,
    failure_logged: LogGap,
    full_logged: LogGap,
    /// Those of each client, if they are to be few.
    peers: Option<Peers>,
    refusal_logged: LogGap,
}

/// A place for one connection, held until it has ended.
type Place = (OwnedSemaphorePermit, Option<OfPeer>);

/// What the connections of one socket have in common.
struct Connections<P> {
    protocol: Arc<P>,
    tls: Option<Arc<ListenerTls>>,
    open: OpenConnections,
    phase: Phase,
}

/// The client has as many connections as it may.
struct Refused;

impl<P: Protocol> Acceptor<P> {
    pub(crate) fn new(
        socket: TcpListener,
        max_connections: u32,
        peers: Option<Peers>,
        protocol: P,
        tls: Option<ListenerTls>,
        open: OpenConnections,
        phase: Phase,
    ) -> Self {
        let connections = Connections { protocol: Arc::new(protocol), tls: tls.map(Arc::new), open, phase };
        let (failure_logged, full_logged, refusal_logged) = Default::default();
        Self { socket, max_connections, connections, failure_logged, full_logged, peers, refusal_logged }
    }

    /// Serves until the service drains and the last connection has ended.
    pub(crate) async fn run(self) {
        let permits = Arc::new(Semaphore::new(self.max_connections as usize));
        while let Some((stream, address, permit)) = self.accept(&permits).await {
            match self.place_of(address) {
                Ok(of_peer) => self.connections.spawn(stream, (permit, of_peer)),
                Err(Refused) => self.note_refused(),
            }
        }
        let waiting = self.waiting();
        drop(self.socket);
        for stream in waiting {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { break };
            self.connections.spawn(stream, (permit, None));
        }
        // Whoever holds all permits knows that every connection has given its own back.
        let _ = permits.acquire_many(self.max_connections).await;
    }

    /// The next connection, once there is room for one; none when the service drains.
    async fn accept(
        &self,
        permits: &Arc<Semaphore>,
    ) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let next = async {
            if permits.available_permits() == 0 {
                self.note_full();
            }
            // An error would say that the semaphore is closed, which nobody does.
            let Ok(permit) = Arc::clone(permits).acquire_owned().await else { future::pending().await };
            loop {
                match self.socket.accept().await {
                    Ok((stream, address)) => return (stream, address, permit),
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) => {
                        if self.failure_logged.passes(SystemClock.now(), LOG_GAP) {
                            let listener = self.connections.open.listener();
                            warn!(listener, %error, "cannot accept connections");
                        }
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = self.connections.phase.draining() => None,
            accepted = next => Some(accepted),
        }
    }

    /// One more connection of this client, if it may have one.
    fn place_of(&self, address: SocketAddr) -> Result<Option<OfPeer>, Refused> {
        self.peers.as_ref().map(|peers| peers.one_of(address.ip()).ok_or(Refused)).transpose()
    }

    fn note_refused(&self) {
        self.connections.open.refused();
        if self.refusal_logged.passes(SystemClock.now(), LOG_GAP) {
            let listener = self.connections.open.listener();
            warn!(
                listener,
                "a client has all connections of --max-connections-per-peer: further ones are closed"
            );
        }
    }

    fn note_full(&self) {
        self.connections.open.full();
        if self.full_logged.passes(SystemClock.now(), LOG_GAP) {
            let (listener, max_connections) = (self.connections.open.listener(), self.max_connections);
            warn!(listener, max_connections, "every connection is taken: further ones wait until one ends");
        }
    }

    /// The connections that the system has accepted for us already: their clients cannot know that nobody took
    /// them. The runtime learns of them with a delay, so the system itself is asked. One that is established
    /// between this and the end of the listener is reset by the system, which has no way to prevent it.
    fn waiting(&self) -> Vec<TcpStream> {
        let mut waiting = Vec::new();
        let Ok(listener) = self.socket.as_fd().try_clone_to_owned().map(net::TcpListener::from) else {
            return waiting;
        };
        for stream in taken(|| listener.accept()) {
            let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
            waiting.extend(stream);
        }
        waiting
    }
}

impl<P: Protocol> Connections<P> {
    /// Serves a connection in a task of its own and gives its place back when it has ended.
    fn spawn(&self, stream: TcpStream, place: Place) {
        // Answers are small and each is wanted at once.
        let _ = stream.set_nodelay(true);
        let (protocol, phase, place) =
            (Arc::clone(&self.protocol), self.phase.clone(), (self.open.one(), place));
        // Two tasks of their own: one that serves a plain stream has no room for an encrypted one.
        match self.tls.clone() {
            None => tokio::spawn(async move {
                protocol.serve(stream, Peer::default(), phase).await;
                drop(place);
            }),
            Some(tls) => tokio::spawn(async move {
                if let Some((stream, peer)) = tls.accept(stream, &phase).await {
                    protocol.serve(stream, peer, phase).await;
                }
                drop(place);
            }),
        };
    }
}

/// What `accept` gives until it fails for another reason than that one connection is broken. It must not block: when
/// nothing waits, that is an error.
fn taken<T, A>(mut accept: impl FnMut() -> io::Result<(T, A)>) -> impl Iterator<Item = T> {
    let accepted = iter::from_fn(move || match accept() {
        Ok((stream, _)) => Some(Some(stream)),
        Err(error) if is_of_one_connection(&error) => Some(None),
        Err(_) => None,
    });
    accepted.flatten()
}

/// Whether only the connection that was to be accepted is broken.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that had gone before it was accepted ended the loop, and who waited behind it was reset by the drain.
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
