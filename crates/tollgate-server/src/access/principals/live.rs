//! The live principals, kept in step with their file, and warnings about probable mistakes in it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tracing::warn;

use super::{Credential, Principal, PrincipalFile, Principals, SharedPrincipals};
use crate::live::record::Changes;
use crate::live::target::LiveTarget;
use crate::tls;
use crate::tls::Security;

/// See the [module](self).
pub(crate) struct LivePrincipals {
    live: SharedPrincipals,
    version: u64,
    /// The security of the listeners that ask for them.
    security: Security,
}

impl LivePrincipals {
    pub(crate) fn new(
        file: &PrincipalFile,
        principals: Vec<Principal>,
        security: Security,
    ) -> (Self, SharedPrincipals) {
        let live = Arc::new(ArcSwap::from_pointee(Principals::new(principals, None)));
        let principals = Self { live: Arc::clone(&live), version: 1, security };
        principals.warn_of_certificates(file.name());
        (principals, live)
    }

    /// Warns about certificate names that no client certificate can match.
    fn warn_of_certificates(&self, file: &str) {
        let principals = self.live.load();
        let certificates = principals.entries.iter().filter_map(|entry| match &entry.principal.credential {
            Credential::Certificate(san) => Some((&*entry.principal.name, &**san)),
            Credential::Token(_) => None,
        });
        if self.security != Security::Mutual {
            if let Some(names) = Changes::of(certificates.map(|(name, _)| format!("`{name}`"))) {
                let principals = names.joined(", ");
                warn!(
                    file,
                    principals,
                    "`san` lets nobody in: clients present certificates only with `--tls-client-ca`"
                );
            }
            return;
        }
        for (principal, san) in certificates {
            match tls::shown_name(san) {
                Some(shown) if *shown == *san => {}
                Some(shown) => {
                    warn!(file, principal, "`san` lets nobody in: certificates show this name as `{shown}`");
                }
                None => warn!(
                    file,
                    principal,
                    "`san` lets nobody in: it is neither a URI nor a host, an address or an e-mail address"
                ),
            }
        }
    }
}

impl LiveTarget for LivePrincipals {
    const NAME: &'static str = "principals";

    type Content = Vec<Principal>;

    fn go_live(&mut self, principals: Vec<Principal>, source: &str) -> Option<Changes> {
        let before = self.live.load_full();
        let changes = before.changes(&principals)?;
        self.live.store(Arc::new(Principals::new(principals, Some(&before))));
        self.version += 1;
        self.warn_of_certificates(source);
        Some(changes)
    }

    fn version(&self) -> u64 {
        self.version
    }
}
