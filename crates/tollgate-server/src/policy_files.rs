//! The files of policies: what they say, and what has to hold for them beyond that.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_policy::{Config, ConfigError, Printable, Sources, StoreSettings, Warning};
use tollgate_redis::KeyLayout;
use tracing::warn;

use crate::fit::{StoreFit, StoreFlags};
use crate::followed_files::FollowedFiles;
use crate::look::{Files, Look};

/// The files of policies that are read together.
#[derive(Debug)]
pub(crate) struct PolicyFiles {
    files: FollowedFiles,
    /// What messages call each of them.
    names: Box<[Box<str>]>,
    /// Of what the log has warned.
    warned: Box<[Warning]>,
    /// The store that the service was started with.
    store: Option<StoreSettings>,
    /// Which policies it can count: all have to be among them.
    fit: StoreFit,
}

impl PolicyFiles {
    /// Reads the files for the first time. Flags override what they say of their store.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or are not valid.
    pub(crate) fn load(paths: &[PathBuf], flags: &StoreFlags<'_>) -> Result<(Self, Config), ConfigError> {
        let (files, config) = FollowedFiles::load(Files::Policies(paths.into()), |sources| {
            Config::parse_sources(sources, |config| StoreFit::of_file(config, flags).1)
        })?;
        let (fit, _) = StoreFit::of_file(&config, flags);
        let (names, store) = (config.files().into(), config.store().cloned());
        Ok((Self { files, names, warned: [].into(), store, fit }, config))
    }

    /// The layout of the store's keys, if it is not our own.
    pub(crate) fn layout(&self) -> Option<&KeyLayout> {
        self.fit.layout()
    }

    pub(crate) fn files(&self) -> &FollowedFiles {
        &self.files
    }

    pub(crate) fn name(&self) -> &str {
        self.files.name()
    }

    /// How long the files have to stay as they are before they count.
    pub(crate) fn rest(&self, look: &Look) -> Duration {
        self.files.rest(look, |sources| parse(sources, &self.fit).is_ok())
    }

    /// What the files say; from now on this is how they were read last.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or are not valid.
    pub(crate) fn read(&mut self, look: Look) -> Result<Config, ConfigError> {
        let config = self.files.read(look, |sources| parse(sources, &self.fit))?;
        self.names = config.files().into();
        Ok(config)
    }

    /// Logs what is probably a mistake and was not one before, wherever it stood.
    pub(crate) fn log_warnings(&mut self, warnings: &[Warning]) {
        let is_same =
            |one: &Warning, other: &Warning| (one.policy(), one.kind()) == (other.policy(), other.kind());
        for warning in warnings {
            if !self.warned.iter().any(|warned| is_same(warned, warning)) {
                let file = self.names.get(warning.at().file as usize).map_or("", AsRef::as_ref);
                warn!("{}:{warning}", Printable(file));
            }
        }
        self.warned = warnings.into();
    }

    /// Whether they name another store than the one in use.
    pub(crate) fn has_another_store(&self, config: &Config) -> bool {
        self.store.as_ref() != config.store()
    }
}

fn parse(sources: &Sources, fit: &StoreFit) -> Result<Config, ConfigError> {
    Config::parse_sources(sources, |config| fit.problems(config))
}
