//! Who may use the listeners, and how their connections are protected.

use std::sync::Arc;

use super::background::BackgroundTasks;
use crate::access::listener::{Access, AllowedHosts, ListenerKind};
use crate::access::principals::{LivePrincipals, Principal, PrincipalFile};
use crate::live::reload::{Reload, Reloads};
use crate::metrics::PrincipalFigures;
use crate::tls::{Security, ServerTls};

/// Who may use the listeners, and how their connections are protected.
pub(super) struct Admission {
    access: Access,
    /// The protection of listeners whose callers prove themselves, if that is possible.
    security: Security,
    /// The protection of listeners whose callers have no certificate.
    unproven: Security,
    /// Whether everyone may use the scopes of a listener.
    pub(super) is_open: bool,
    /// Whether a principal has a token.
    pub(super) asks_token: bool,
}

impl Admission {
    /// Follows the file of principals, if there is one. Also returns their figures.
    pub(super) fn start(
        principals: Option<(PrincipalFile, Vec<Principal>)>,
        allowed_hosts: AllowedHosts,
        tls: Option<&ServerTls>,
        background: &mut BackgroundTasks,
    ) -> anyhow::Result<(Self, Option<PrincipalFigures>)> {
        let is_mutual = tls.is_some_and(ServerTls::is_mutual);
        let unproven = if tls.is_some() { Security::Tls } else { Security::Plain };
        let security = if is_mutual { Security::Mutual } else { unproven };
        let is_open = principals.is_none() && !is_mutual;
        let asks_token = principals.iter().flat_map(|(_, all)| all).any(Principal::has_token);
        let (access, figures) = match principals {
            None if is_mutual => (Access::Everybody, None),
            None => (Access::Hosts(allowed_hosts), None),
            Some((file, principals)) => {
                let (principals, live) = LivePrincipals::new(&file, principals, security);
                let reloads = Arc::new(Reloads::new(file, principals));
                let figures =
                    PrincipalFigures { live: Arc::clone(&live), reloads: Arc::clone(reloads.state()) };
                background.follow(reloads)?;
                (Access::Principals(live), Some(figures))
            }
        };
        Ok((Self { access, security, unproven, is_open, asks_token }, figures))
    }

    /// Returns who may use a listener of this kind, and the protection of its connections.
    pub(super) fn of(&self, kind: ListenerKind) -> (Access, Security) {
        match kind {
            ListenerKind::Checks | ListenerKind::Admin | ListenerKind::Grpc => {
                (self.access.clone(), self.security)
            }
            // A scraper has no certificate.
            ListenerKind::Metrics => (Access::Everybody, self.unproven),
            ListenerKind::Probes => (Access::Everybody, Security::Plain),
        }
    }
}
