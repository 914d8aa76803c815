//! The listeners of the service: first their sockets, then what each grants and to whom.

use std::sync::Arc;

use super::admission::Admission;
use super::background::Task;
use crate::access::listener::{Listener, ListenerKind};
use crate::net::accept::Acceptor;
use crate::net::connections_per_peer::Peers;
use crate::net::handshake::ListenerTls;
use crate::net::open_files::Caps;
use crate::net::protocol::Protocol;
use crate::net::resources::Resources;
use crate::net::socket::ListeningSocket;
use crate::settings::Addresses;
use crate::tls::{Security, ServerTls};

/// The bound sockets of all listeners, in the order in which they are announced.
pub(super) struct Sockets(Vec<(ListenerKind, ListeningSocket)>);

/// A listener with its socket.
pub(super) struct BoundListener {
    pub(super) listener: Listener,
    socket: ListeningSocket,
    max_connections: u32,
}

/// What accepts the connections of all listeners.
pub(super) struct Acceptors<'a> {
    pub(super) resources: &'a Resources,
    pub(super) tls: Option<Arc<ServerTls>>,
    pub(super) max_connections_per_peer: Option<u32>,
}

impl ListenerKind {
    /// Whether it is for checks, which are as many as callers want.
    const fn is_for_checks(self) -> bool {
        matches!(self, Self::Checks | Self::Grpc)
    }
}

impl Sockets {
    /// Binds the address of each listener.
    ///
    /// # Errors
    ///
    /// If an address cannot be bound.
    pub(super) async fn bind(addresses: &Addresses) -> anyhow::Result<Self> {
        let mut bound = Vec::new();
        for (kind, address) in addresses.iter() {
            let socket = ListeningSocket::bind(address, addresses.unix_mode, kind.flag()).await?;
            bound.push((kind, socket));
        }
        Ok(Self(bound))
    }

    /// Returns how many connections each may have, under this limit of open files.
    pub(super) fn caps(&self, max_connections: u32, open_files: Option<u64>) -> Caps {
        let (mut checks, mut others) = (0, 0);
        for (kind, _) in &self.0 {
            if kind.is_for_checks() { checks += 1 } else { others += 1 }
        }
        Caps::fitted(max_connections, others, checks, open_files)
    }

    /// Returns the listeners, with those admitted to each.
    ///
    /// # Errors
    ///
    /// If the system does not tell the address of a socket.
    pub(super) fn into_listeners(
        self,
        admission: &Admission,
        caps: Caps,
    ) -> anyhow::Result<Vec<BoundListener>> {
        let bound = self.0.into_iter().map(|(kind, socket)| {
            let (access, security) = admission.of(kind);
            let listener = Listener::new(kind, socket.address()?, access, security);
            let max_connections = if kind.is_for_checks() { caps.public } else { caps.admin };
            Ok(BoundListener { listener, socket, max_connections })
        });
        bound.collect()
    }
}

impl Acceptors<'_> {
    /// Returns the task that accepts the connections of a listener and speaks this protocol on them.
    pub(super) fn task<P: Protocol>(&self, bound: BoundListener, protocol: P) -> Task {
        let BoundListener { listener, socket, max_connections } = bound;
        let Resources { phase, metrics, budget } = self.resources;
        let open = metrics.connections(listener.name);
        let phase = phase.of_listener(open.clone(), max_connections, budget.clone());
        let peers = self.max_connections_per_peer.map(Peers::new);
        let handshakes = metrics.handshakes(listener.name);
        let tls = self.tls.clone().filter(|_| listener.security != Security::Plain);
        let tls = tls.map(|tls| ListenerTls::new(tls, listener.security, P::ALPN, handshakes));
        Box::pin(Acceptor::new(socket, max_connections, peers, protocol, tls, open, phase).run())
    }
}
