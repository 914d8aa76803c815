//! What the service is built from: ready objects, made of what the user wrote.

use std::net::SocketAddr;

use tollgate::{CountDenied, MemoryStore};

use crate::args::{LogFormat, ServeArgs, WhenFull};
use crate::policy::{Policy, PolicyError};

/// Everything [`Server::bind`](crate::Server::bind) needs.
#[derive(Debug)]
pub struct Settings {
    pub(crate) policy: Policy,
    pub(crate) store: MemoryStore,
    pub(crate) when_full: WhenFull,
    pub(crate) listen: SocketAddr,
    pub(crate) admin_listen: SocketAddr,
    pub(crate) max_connections: u32,
    /// How log lines are written.
    pub log_format: LogFormat,
}

impl Settings {
    /// Resolves what the user wrote.
    ///
    /// # Errors
    ///
    /// If the quotas or the key's attributes contradict each other.
    pub fn new(args: ServeArgs) -> Result<Self, PolicyError> {
        let count_denied = if args.count_denied { CountDenied::Yes } else { CountDenied::No };
        Ok(Self {
            policy: Policy::new(args.limits, args.key, count_denied)?,
            store: MemoryStore::builder().max_keys(args.max_keys.get()).build(),
            when_full: args.when_full,
            listen: args.listen,
            admin_listen: args.admin_listen,
            max_connections: args.max_connections.get(),
            log_format: args.log_format,
        })
    }
}
