//! The files of the limits of Envoy's service.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_envoy::{Domains, SameDomain, Warning};
use tollgate_policy::ConfigError;

use crate::live::followed_files::FollowedFiles;
use crate::live::look::{Files, Look};
use crate::observe::warning_log;

/// The files of all domains.
#[derive(Debug)]
pub(crate) struct DomainFiles {
    files: FollowedFiles,
    same_domain: SameDomain,
    /// Warnings that were logged already.
    warned: Box<[Warning]>,
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

    pub(crate) fn rest(&self, look: &Look) -> Duration {
        self.files.rest(look, |sources| Domains::parse(sources, self.same_domain).is_ok())
    }

    pub(crate) fn read(&mut self, look: Look) -> Result<Domains, ConfigError> {
        let same_domain = self.same_domain;
        self.files.read(look, |sources| Domains::parse(sources, same_domain))
    }

    /// Logs probable mistakes, unless they are those of the last call, and only the first of very many.
    pub(crate) fn log_warnings(&mut self, domains: &Domains) {
        if *self.warned != *domains.warnings() {
            self.warned = domains.warnings().into();
            warning_log::log_first(self.warned.iter(), self.files.name(), "correct these to see them");
        }
    }
}

/// Returns the number of limits and domains, for people.
pub(crate) fn summary(domains: &Domains) -> String {
    let (limits, names) = (domains.limits(), domains.names().count());
    let several = |count: usize| if count == 1 { "" } else { "s" };
    format!("{limits} limit{} of {names} domain{}", several(limits), several(names))
}
