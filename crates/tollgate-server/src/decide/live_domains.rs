//! The limits of Envoy's service that are live.

use std::sync::Arc;

use tollgate_envoy::Domains;
use tollgate_policy::Generation;

use crate::decide::domain_files::summary;
use crate::decide::envoy::DomainEngine;
use crate::live::record::Changes;
use crate::live::target::LiveTarget;

/// The limits of an engine.
pub(crate) struct LiveDomains {
    engine: Arc<DomainEngine>,
}

impl LiveDomains {
    pub(crate) const fn new(engine: Arc<DomainEngine>) -> Self {
        Self { engine }
    }
}

impl LiveTarget for LiveDomains {
    const NAME: &'static str = "domains";

    type Content = Domains;

    fn go_live(&mut self, domains: Domains, _: &str) -> Option<Changes> {
        let summary = summary(&domains);
        // Before it is live, so that nobody waits for it.
        let _ = domains.generation();
        if self.engine.replace(domains) { Changes::of([summary]) } else { None }
    }

    fn version(&self) -> u64 {
        self.engine.version()
    }

    fn generation(&self) -> Option<Generation> {
        self.engine.generation()
    }
}
