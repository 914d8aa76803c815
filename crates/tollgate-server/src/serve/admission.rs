//! Who may use the listeners, and how their connections are protected.

use std::sync::Arc;

use super::background::BackgroundTasks;
use crate::access::listener::{Access, AllowedHosts, ListenerKind, TlsScope};
use crate::access::principals::{LivePrincipals, Principal, PrincipalFile, SharedPrincipals};
use crate::live::reload::{Reload, Reloads};
use crate::metrics::PrincipalFigures;
use crate::tls::{Security, ServerTls};

/// Who may use the listeners, and how their connections are protected.
pub(super) struct Admission {
    principals: Option<SharedPrincipals>,
    allowed_hosts: AllowedHosts,
    /// The protection of listeners that speak TLS and whose callers prove themselves, if that is possible.
    security: Security,
    tls_scope: TlsScope,
    /// Whether a principal has a token.
    pub(super) asks_token: bool,
}

impl Admission {
    /// Follows the file of principals, if there is one. Also returns their figures.
    pub(super) fn start(
        principals: Option<(PrincipalFile, Vec<Principal>)>,
        allowed_hosts: AllowedHosts,
        tls: Option<&ServerTls>,
        tls_scope: TlsScope,
        background: &mut BackgroundTasks,
    ) -> anyhow::Result<(Self, Option<PrincipalFigures>)> {
        let security = match tls {
            None => Security::Plain,
            Some(tls) if tls.is_mutual() => Security::Mutual,
            Some(_) => Security::Tls,
        };
        let asks_token = principals.iter().flat_map(|(_, all)| all).any(Principal::has_token);
        let (principals, figures) = match principals {
            None => (None, None),
            Some((file, principals)) => {
                let (principals, live) = LivePrincipals::new(&file, principals, security);
                let reloads = Arc::new(Reloads::new(file, principals));
                let figures =
                    PrincipalFigures { live: Arc::clone(&live), reloads: Arc::clone(reloads.state()) };
                background.follow(reloads)?;
                (Some(live), Some(figures))
            }
        };
        Ok((Self { principals, allowed_hosts, security, tls_scope, asks_token }, figures))
    }

    /// Returns who may use a listener of this kind, and the protection of its connections.
    pub(super) fn of(&self, kind: ListenerKind) -> (Access, Security) {
        let security = if self.tls_scope.has(kind) { self.security } else { Security::Plain };
        match kind {
            ListenerKind::Checks | ListenerKind::Admin | ListenerKind::Grpc => {
                (self.access(security), security)
            }
            // A scraper has no certificate.
            ListenerKind::Metrics if security == Security::Mutual => (Access::Everybody, Security::Tls),
            ListenerKind::Metrics | ListenerKind::Probes => (Access::Everybody, security),
        }
    }

    /// Returns whether everyone may use the scopes of a listener of this kind.
    pub(super) fn is_open(&self, kind: ListenerKind) -> bool {
        matches!(self.of(kind), (Access::Hosts(_), _))
    }

    fn access(&self, security: Security) -> Access {
        match &self.principals {
            Some(principals) => Access::Principals(Arc::clone(principals)),
            None if security == Security::Mutual => Access::Everybody,
            None => Access::Hosts(self.allowed_hosts.clone()),
        }
    }
}
