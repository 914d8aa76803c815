//! The policy files, and the checks that the service adds to those of their format.

use std::collections::HashMap;
use std::path::PathBuf;

use tollgate_policy::{Config, ConfigError, Sources, StoreSettings, Warning, WarningKind};
use tollgate_redis::KeyLayout;
use tracing::warn;

use crate::live::text_files::{FileFormat, TextFiles, TextPaths};
use crate::observe::live_warnings::{LiveWarning, LiveWarnings};
use crate::observe::warning_log;
use crate::store::fit::{StoreFit, StoreFlags};
use crate::store::joined_values;

/// Policy files that are read together.
pub(crate) type PolicyFiles = TextFiles<PolicyFormat>;

/// The policies that the service accepts, and what the log has said of them.
#[derive(Debug)]
pub(crate) struct PolicyFormat {
    /// The name of each file in messages.
    names: Box<[Box<str>]>,
    /// Warnings that were logged already.
    warned: Box<[Warning]>,
    /// The same, for the live page.
    live_warnings: LiveWarnings,
    /// The store that the service started with.
    store: Option<StoreSettings>,
    /// The store of the last read.
    last_store: Option<StoreSettings>,
    /// The policies that the store can count. The files may hold no others.
    fit: StoreFit,
}

impl PolicyFiles {
    /// Reads the files for the first time. Flags override the store in the files.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or are not valid.
    pub(crate) fn load(paths: &[PathBuf], flags: &StoreFlags<'_>) -> Result<(Self, Config), ConfigError> {
        Self::first(TextPaths::Policies(paths.into()), |sources| {
            let config = Config::parse_sources(sources, |config| StoreFit::of_file(config, flags).1)?;
            let (fit, _) = StoreFit::of_file(&config, flags);
            let (names, store) = (config.files().into(), config.store().cloned());
            let last_store = store.clone();
            let (warned, live_warnings) = Default::default();
            Ok((PolicyFormat { names, warned, live_warnings, store, last_store, fit }, config))
        })
    }

    /// Returns the layout of the store's keys, unless it is Tollgate's own.
    pub(crate) fn layout(&self) -> Option<&KeyLayout> {
        self.format().fit.layout()
    }

    /// Returns what the store can count.
    pub(crate) fn fit(&self) -> &StoreFit {
        &self.format().fit
    }

    /// Returns probable mistakes in these files, with this store.
    pub(crate) fn warnings(&self, config: &Config) -> Box<[Warning]> {
        self.format().warnings(config)
    }

    /// Returns probable mistakes in the live policies, now and later.
    pub(crate) fn live_warnings(&self) -> LiveWarnings {
        self.format().live_warnings.clone()
    }

    /// Logs these probable mistakes, unless they were logged before.
    pub(crate) fn log_warnings(&mut self, warnings: &[Warning]) {
        let (format, name) = self.format_mut();
        format.log_warnings(warnings, name);
    }
}

impl PolicyFormat {
    fn warnings(&self, config: &Config) -> Box<[Warning]> {
        joined_values::with_those_of_file(config, self.fit.layout())
    }

    /// Logs probable mistakes that were not there before, and only the first of very many. A mistake that only moved is
    /// not new.
    fn log_warnings(&mut self, warnings: &[Warning], name: &str) {
        let mut warned = HashMap::<&str, Vec<&WarningKind>>::new();
        for warning in &self.warned {
            warned.entry(warning.policy()).or_default().push(warning.kind());
        }
        let is_new = |warning: &&Warning| {
            warned.get(warning.policy()).is_none_or(|kinds| !kinds.contains(&warning.kind()))
        };
        let with_file = |warning: &Warning| {
            let file = self.names.get(warning.at().file as usize).map_or("", AsRef::as_ref);
            format!("{file}:{warning}")
        };
        let new = warnings.iter().filter(is_new).map(with_file);
        warning_log::log_first(new, name, "`tollgate check-config` lists them");
        self.warned = warnings.into();
        self.live_warnings.replace(warnings.iter().map(LiveWarning::from));
    }

    /// Returns whether the files name another store than the one in use, and did not at the last call.
    fn change_to_another_store(&mut self, config: &Config) -> bool {
        let is_same = self.last_store.as_ref() == config.store();
        if !is_same {
            self.last_store = config.store().cloned();
        }
        !is_same && self.store.as_ref() != config.store()
    }
}

impl FileFormat for PolicyFormat {
    type Content = Config;

    fn parse(&self, sources: &Sources) -> Result<Config, ConfigError> {
        Config::parse_sources(sources, |config| self.fit.problems(config))
    }

    fn note(&mut self, config: &Config, file: &str) {
        self.names = config.files().into();
        if self.change_to_another_store(config) {
            warn!(file, "`store:` has changed; the change takes effect at the next start");
        }
        self.log_warnings(&self.warnings(config), file);
    }
}
