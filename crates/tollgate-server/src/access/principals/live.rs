//! The live principals, kept in step with their file, and warnings about probable mistakes in it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tollgate_policy::ConfigError;
use tracing::warn;

use super::{Credential, Principal, PrincipalFile, Principals, SharedPrincipals};
use crate::live::followed_files::FollowedFiles;
use crate::live::look::Look;
use crate::live::reload::{Subject, in_short};
use crate::tls;
use crate::tls::Security;

/// See the [module](self).
pub(crate) struct LivePrincipals {
    file: PrincipalFile,
    live: SharedPrincipals,
    version: u64,
    /// The security of the listeners that ask for them.
    security: Security,
}

impl LivePrincipals {
    pub(crate) fn new(
        file: PrincipalFile,
        principals: Vec<Principal>,
        security: Security,
    ) -> (Self, SharedPrincipals) {
        let live = Arc::new(ArcSwap::from_pointee(Principals::new(principals, None)));
        let principals = Self { file, live: Arc::clone(&live), version: 1, security };
        principals.warn_of_certificates();
        (principals, live)
    }

    /// Warns about certificate names that no client certificate can match.
    fn warn_of_certificates(&self) {
        let (principals, file) = (self.live.load(), self.file.files().name());
        let certificates = principals.entries.iter().filter_map(|entry| match &entry.principal.credential {
            Credential::Certificate(san) => Some((&*entry.principal.name, &**san)),
            Credential::Token(_) => None,
        });
        if self.security != Security::Mutual {
            let names: Vec<&str> = certificates.map(|(name, _)| name).collect();
            if !names.is_empty() {
                let principals = in_short(names.iter().map(|name| format!("`{name}`")), ", ");
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

impl Subject for LivePrincipals {
    const NAME: &'static str = "principals";

    type Content = Vec<Principal>;

    fn files(&self) -> &FollowedFiles {
        self.file.files()
    }

    fn rest(&self, look: &Look) -> Duration {
        self.file.rest(look)
    }

    fn read(&mut self, look: Look) -> Result<Vec<Principal>, ConfigError> {
        self.file.read(look)
    }

    fn make_live(&mut self, principals: Vec<Principal>) -> Option<String> {
        let before = self.live.load_full();
        let changes = before.changes(&principals)?;
        self.live.store(Arc::new(Principals::new(principals, Some(&before))));
        self.version += 1;
        self.warn_of_certificates();
        Some(changes)
    }

    fn version(&self) -> u64 {
        self.version
    }
}
