//! The files of the limits of Envoy's service.

use std::path::PathBuf;

use tollgate_envoy::{Domains, SameDomain, Warning};
use tollgate_policy::{ConfigError, Sources};

use crate::live::text_files::{FileFormat, TextFiles, TextPaths};
use crate::observe::live_warnings::{LiveWarning, LiveWarnings};
use crate::observe::warning_log;

/// The files of all domains.
pub(crate) type DomainFiles = TextFiles<DomainFormat>;

/// How several files with one domain are read, and what the log has said of them.
#[derive(Debug)]
pub(crate) struct DomainFormat {
    same_domain: SameDomain,
    /// Warnings that were logged already.
    warned: Box<[Warning]>,
    /// The same, for the live page.
    live_warnings: LiveWarnings,
}

impl DomainFiles {
    /// Reads the files of a folder for the first time.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or are not valid.
    pub(crate) fn load(folder: PathBuf, same_domain: SameDomain) -> Result<(Self, Domains), ConfigError> {
        Self::first(TextPaths::Policies(vec![folder]), |sources| {
            let (warned, live_warnings) = Default::default();
            let format = DomainFormat { same_domain, warned, live_warnings };
            Ok((format, Domains::parse(sources, same_domain)?))
        })
    }

    /// Returns probable mistakes in the live limits, now and later.
    pub(crate) fn live_warnings(&self) -> LiveWarnings {
        self.format().live_warnings.clone()
    }

    /// Logs probable mistakes, unless they are those of the last call, and only the first of very many.
    pub(crate) fn log_warnings(&mut self, domains: &Domains) {
        let (format, name) = self.format_mut();
        format.note(domains, name);
    }
}

impl FileFormat for DomainFormat {
    type Content = Domains;

    fn parse(&self, sources: &Sources) -> Result<Domains, ConfigError> {
        Domains::parse(sources, self.same_domain)
    }

    fn note(&mut self, domains: &Domains, file: &str) {
        if *self.warned != *domains.warnings() {
            self.warned = domains.warnings().into();
            self.live_warnings.replace(self.warned.iter().map(LiveWarning::from));
            warning_log::log_first(self.warned.iter(), file, "correct these to see them");
        }
    }
}

/// Returns the number of limits and domains, for people.
pub(crate) fn summary(domains: &Domains) -> String {
    let (limits, names) = (domains.limits(), domains.names().count());
    let several = |count: usize| if count == 1 { "" } else { "s" };
    format!("{limits} limit{} of {names} domain{}", several(limits), several(names))
}
