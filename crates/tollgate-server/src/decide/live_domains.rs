//! The limits of Envoy's service that are live, kept in step with their files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate_envoy::{Domains, SameDomain, Warning};
use tollgate_policy::ConfigError;

use crate::decide::envoy::EnvoyEngine;
use crate::live::followed_files::FollowedFiles;
use crate::live::look::{Files, Look};
use crate::live::reload::Subject;
use crate::observe::warning_log;

/// The files of all domains.
#[derive(Debug)]
pub(crate) struct DomainFiles {
    files: FollowedFiles,
    same_domain: SameDomain,
    /// Warnings that were logged already.
    warned: Box<[Warning]>,
}

/// The limits of an engine, and their files.
pub(crate) struct LiveDomains<S> {
    engine: Arc<EnvoyEngine<S>>,
    files: DomainFiles,
}

impl DomainFiles {
    /// Reads the files of a folder for the first time.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or are not valid.
    pub(crate) fn load(folder: PathBuf, same_domain: SameDomain) -> Result<(Self, Domains), ConfigError> {
        let (files, domains) = FollowedFiles::load(Files::Policies(vec![folder]), |sources| {
            Domains::parse(sources, same_domain)
        })?;
        Ok((Self { files, same_domain, warned: [].into() }, domains))
    }

    pub(crate) const fn files(&self) -> &FollowedFiles {
        &self.files
    }

    /// Logs probable mistakes, unless they are those of the last call, and only the first of very many.
    fn log_warnings(&mut self, domains: &Domains) {
        if *self.warned != *domains.warnings() {
            self.warned = domains.warnings().into();
            warning_log::log_first(self.warned.iter(), self.files.name(), "correct these to see them");
        }
    }
}

impl<S> LiveDomains<S> {
    pub(crate) fn new(engine: Arc<EnvoyEngine<S>>, mut files: DomainFiles) -> Self {
        files.log_warnings(&engine.live());
        Self { engine, files }
    }
}

impl<S: Send + Sync + 'static> Subject for LiveDomains<S> {
    const NAME: &'static str = "domains";

    type Content = Domains;

    fn files(&self) -> &FollowedFiles {
        &self.files.files
    }

    fn rest(&self, look: &Look) -> Duration {
        let same_domain = self.files.same_domain;
        self.files.files.rest(look, |sources| Domains::parse(sources, same_domain).is_ok())
    }

    fn read(&mut self, look: Look) -> Result<Domains, ConfigError> {
        let same_domain = self.files.same_domain;
        self.files.files.read(look, |sources| Domains::parse(sources, same_domain))
    }

    fn make_live(&mut self, domains: Domains) -> Option<String> {
        self.files.log_warnings(&domains);
        let told = told(&domains);
        self.engine.replace(domains).then_some(told)
    }

    fn version(&self) -> u64 {
        self.engine.version()
    }
}

/// Returns the number of limits and domains, for people.
pub(crate) fn told(domains: &Domains) -> String {
    let (limits, names) = (domains.limits(), domains.names().count());
    let several = |count: usize| if count == 1 { "" } else { "s" };
    format!("{limits} limit{} of {names} domain{}", several(limits), several(names))
}
