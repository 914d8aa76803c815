//! Sockets and connections, independent of the protocols on them: their acceptance, their number, their timeouts and
//! their end.

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod connection;
pub(crate) mod connections_per_peer;
pub(crate) mod drain;
pub(crate) mod handshake;
pub(crate) mod lingering_close;
pub(crate) mod open_files;
pub(crate) mod protocol;
pub(crate) mod resources;
pub(crate) mod socket;
mod socket_file;
pub(crate) mod stream;
pub(crate) mod timeouts;
pub(crate) mod until_sent;
