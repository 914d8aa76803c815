//! The limits of Envoy's service that are live, kept in step with their files.

use std::sync::Arc;
use std::time::Duration;

use tollgate_envoy::Domains;
use tollgate_policy::ConfigError;

use crate::decide::domain_files::{DomainFiles, summary};
use crate::decide::envoy::EnvoyEngine;
use crate::live::followed_files::FollowedFiles;
use crate::live::look::Look;
use crate::live::reload::Subject;

/// The limits of an engine, and their files.
pub(crate) struct LiveDomains {
    engine: Arc<EnvoyEngine>,
    files: DomainFiles,
}

impl LiveDomains {
    pub(crate) fn new(engine: Arc<EnvoyEngine>, mut files: DomainFiles) -> Self {
        files.log_warnings(&engine.live());
        Self { engine, files }
    }
}

impl Subject for LiveDomains {
    const NAME: &'static str = "domains";

    type Content = Domains;

    fn files(&self) -> &FollowedFiles {
        self.files.files()
    }

    fn rest(&self, look: &Look) -> Duration {
        self.files.rest(look)
    }

    fn read(&mut self, look: Look) -> Result<Domains, ConfigError> {
        self.files.read(look)
    }

    fn make_live(&mut self, domains: Domains) -> Option<String> {
        self.files.log_warnings(&domains);
        let summary = summary(&domains);
        self.engine.replace(domains).then_some(summary)
    }

    fn version(&self) -> u64 {
        self.engine.version()
    }
}
