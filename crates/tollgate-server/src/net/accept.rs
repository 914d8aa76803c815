//! Accepts connections from a listening socket: their cap, and their end.

use std::future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use crate::access::peer::ConnectionPeer;
use crate::metrics::OpenConnections;
use crate::net::connections_per_peer::{Peer, PeerConnection, Peers};
use crate::net::drain::Phase;
use crate::net::handshake::ListenerTls;
use crate::net::protocol::Protocol;
use crate::net::socket::{ListeningSocket, is_of_one_connection};
use crate::net::stream::PlainStream;
use crate::observe::log_gap::LogGap;

/// The pause after the system has failed to accept a connection, for example because file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The time that one log line covers for all failures to accept, or for all waits for room.
const LOG_GAP: Duration = Duration::from_secs(60);

/// A bound socket, and the settings for its connections.
pub(crate) struct Acceptor<P> {
    socket: ListeningSocket,
    max_connections: u32,
    connections: Connections<P>,
    failure_logged: LogGap,
    full_logged: LogGap,
    /// The connections of each client, if they are limited.
    peers: Option<Peers>,
    refusal_logged: LogGap,
}

/// A place for one connection, held until it has ended.
type ConnectionPlace = (OwnedSemaphorePermit, Option<PeerConnection>);

/// The settings that all connections of one socket share.
struct Connections<P> {
    protocol: Arc<P>,
    tls: Option<Arc<ListenerTls>>,
    open: OpenConnections,
    phase: Phase,
}

/// The client already has its maximum number of connections.
struct TooManyConnections;

impl<P: Protocol> Acceptor<P> {
    pub(crate) fn new(
        socket: ListeningSocket,
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
        while let Some((stream, peer, permit)) = self.accept(&permits).await {
            match self.place_of(peer) {
                Ok(peer) => self.connections.spawn(stream, (permit, peer)),
                Err(TooManyConnections) => self.note_refused(),
            }
        }
        for stream in self.socket.into_waiting() {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { break };
            self.connections.spawn(stream, (permit, None));
        }
        // Once all permits are back here, every connection has ended.
        let _ = permits.acquire_many(self.max_connections).await;
    }

    /// Waits for room and accepts the next connection; `None` when the service drains.
    async fn accept(&self, permits: &Arc<Semaphore>) -> Option<(PlainStream, Peer, OwnedSemaphorePermit)> {
        let next = async {
            if permits.available_permits() == 0 {
                self.note_full();
            }
            // The semaphore is never closed, so there is no error.
            let Ok(permit) = Arc::clone(permits).acquire_owned().await else { future::pending().await };
            loop {
                match self.socket.accept().await {
                    Ok((stream, peer)) => return (stream, peer, permit),
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) => {
                        if self.failure_logged.passes(LOG_GAP) {
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

    /// Counts another connection of this client, if it may have one.
    fn place_of(&self, peer: Peer) -> Result<Option<PeerConnection>, TooManyConnections> {
        self.peers.as_ref().map(|peers| peers.one_of(peer).ok_or(TooManyConnections)).transpose()
    }

    fn note_refused(&self) {
        self.connections.open.refused();
        if self.refusal_logged.passes(LOG_GAP) {
            let listener = self.connections.open.listener();
            warn!(
                listener,
                "a client has all connections of --max-connections-per-peer open: further ones are closed"
            );
        }
    }

    fn note_full(&self) {
        self.connections.open.full();
        if self.full_logged.passes(LOG_GAP) {
            let (listener, max_connections) = (self.connections.open.listener(), self.max_connections);
            warn!(listener, max_connections, "all connections are in use: further ones wait until one ends");
        }
    }
}

impl<P: Protocol> Connections<P> {
    /// Serves a connection in its own task, which frees the place at its end.
    fn spawn(&self, stream: PlainStream, place: ConnectionPlace) {
        // Clients wait for each answer.
        stream.set_nodelay();
        let (protocol, phase, place) =
            (Arc::clone(&self.protocol), self.phase.clone(), (self.open.one(), place));
        // Separate tasks, so that the one for plain streams does not reserve memory for TLS.
        match (stream, self.tls.clone()) {
            (PlainStream::Tcp(stream), Some(tls)) => tokio::spawn(async move {
                if let Some((stream, peer)) = tls.accept(stream, &phase).await {
                    protocol.serve(stream, peer, phase).await;
                }
                drop(place);
            }),
            // A Unix socket has no TLS.
            (stream, _) => tokio::spawn(async move {
                protocol.serve(stream, ConnectionPeer::default(), phase).await;
                drop(place);
            }),
        };
    }
}
