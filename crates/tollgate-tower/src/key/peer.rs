//! The address of a connection.

use std::net::{IpAddr, SocketAddr};

#[cfg(feature = "tonic")]
use tonic::transport::server::TcpConnectInfo;

use super::{Extraction, Grouping, KeyExtractor, MissingIdentity, NO_PEER};
use crate::head::Head;

/// The address of the connection, grouped. Behind a proxy, that is the proxy's address, and all clients share one
/// limit.
///
/// It is in the request's extensions: a [`Peer`] from your own server; with the feature `axum`, its
/// `ConnectInfo<SocketAddr>` (`into_make_service_with_connect_info::<SocketAddr>()`) or, in tests without a connection,
/// its `MockConnectInfo<SocketAddr>` (an outer layer); with the feature `tonic`, its `TcpConnectInfo`. (If tonic
/// terminates TLS, an outer layer must leave a [`Peer`], taken from `TlsConnectInfo`.) Without one, the setup is
/// incomplete, and every request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PeerAddress {
    grouping: Grouping,
}

/// The address of a connection, as an extension of its requests, for your own servers.
///
/// ```
/// use tollgate_tower::Head;
/// use tollgate_tower::key::{Identity, KeyExtractor, Peer, PeerAddress};
///
/// # tollgate_testkit::block_on(async {
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Peer("192.0.2.7:49152".parse()?));
/// let Identity::Known(_) = PeerAddress::new().extract(Head::from(&request)).await? else { unreachable!() };
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

impl PeerAddress {
    /// Groups IPv6 addresses by their first 64 bits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how addresses are grouped.
    #[must_use]
    pub const fn grouped(self, grouping: Grouping) -> Self {
        Self { grouping }
    }
}

impl Peer {
    /// Returns the address of this request's connection, if it is in the extensions.
    #[must_use]
    #[inline]
    pub fn of(head: Head<'_>) -> Option<IpAddr> {
        if let Some(Self(address)) = head.extensions().get() {
            return Some(address.ip());
        }
        #[cfg(feature = "axum")]
        if let Some(info) = head.extensions().get::<axum::extract::ConnectInfo<SocketAddr>>() {
            return Some(info.0.ip());
        }
        #[cfg(feature = "axum")]
        if let Some(mock) =
            head.extensions().get::<axum::extract::connect_info::MockConnectInfo<SocketAddr>>()
        {
            return Some(mock.0.ip());
        }
        #[cfg(feature = "tonic")]
        if let Some(info) = head.extensions().get::<TcpConnectInfo>() {
            return info.remote_addr().map(|address| address.ip());
        }
        None
    }
}

impl KeyExtractor for PeerAddress {
    fn extract<'r>(&'r self, head: Head<'r>) -> Extraction<'r> {
        Extraction::Now(Ok(match Peer::of(head) {
            Some(address) => self.grouping.key(address).into(),
            None => MissingIdentity::by_setup(NO_PEER).into(),
        }))
    }

    fn counts_peers(&self) -> bool {
        true
    }
}
