//! Where a protocol is answered, and what whoever reaches it may do there.

use std::net::SocketAddr;

use crate::scope::{Scope, Scopes};

/// One bound address and what it grants.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    /// Its name in the log, in metrics and in the description of the service.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) purpose: &'static str,
    /// The flag that says where it is.
    pub(crate) flag: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) scopes: Scopes,
}

impl Listener {
    /// For callers: their own checks.
    pub(crate) const fn public(address: SocketAddr) -> Self {
        Self {
            name: "public",
            purpose: "A caller's own checks",
            flag: "--listen",
            address,
            scopes: Scopes::of([Scope::Check, Scope::Peek]),
        }
    }

    /// For administrators: what reads or changes more.
    pub(crate) const fn admin(address: SocketAddr) -> Self {
        Self {
            name: "admin",
            purpose: "What reads or changes more than the caller's own check",
            flag: "--admin-listen",
            address,
            scopes: Scopes::of([Scope::Change, Scope::Read, Scope::Keys, Scope::Policies]),
        }
    }

    /// Whether whoever reaches it may do what needs this scope.
    pub(crate) const fn grants(&self, scope: Option<Scope>) -> bool {
        match scope {
            Some(scope) => self.scopes.has(scope),
            None => true,
        }
    }
}
