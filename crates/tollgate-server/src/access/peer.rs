//! What a connection proves about its peer.

use crate::access::last_token::LastToken;

/// The other end of a connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionPeer {
    /// The subject alternative names of the verified client certificate; empty without one. Host names are in lower
    /// case and addresses in their canonical form, and a name of one kind never reads like one of another.
    pub(crate) names: Box<[Box<str>]>,
    /// The last token of the connection.
    pub(crate) last_token: LastToken,
}
