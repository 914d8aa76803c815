//! The file of policies: what it says, and what has to hold for it beyond that.

use std::path::Path;
use std::time::Duration;

use tollgate_policy::{Config, ConfigError, Printable, StoreSettings, Warning};
use tollgate_redis::KeyLayout;
use tracing::warn;

use crate::followed_file::FollowedFile;
use crate::layout::{Keys, StoreFlags};
use crate::look::Look;

/// A file of policies.
#[derive(Debug)]
pub(crate) struct PolicyFile {
    file: FollowedFile,
    /// Of what the log has warned.
    warned: Box<[Warning]>,
    /// The store that the service was started with.
    store: Option<StoreSettings>,
    /// How its keys are written, if not in our own way: all policies must be countable under them.
    keys: Option<Keys>,
}

impl PolicyFile {
    /// Reads the file for the first time. Flags go before what it says of its store.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not valid.
    pub(crate) fn load(path: &Path, flags: &StoreFlags<'_>) -> Result<(Self, Config), ConfigError> {
        let mut keys = None;
        let (file, config) = FollowedFile::load(path, |name, text| {
            Config::parse_checked(name, text, |config| {
                let (of_file, problems) = Keys::of_file(config, flags);
                keys = of_file;
                problems
            })
        })?;
        let store = config.store().cloned();
        Ok((Self { file, warned: [].into(), store, keys }, config))
    }

    /// The layout of the store's keys, if it is not our own.
    pub(crate) fn layout(&self) -> Option<&KeyLayout> {
        self.keys.as_ref().map(Keys::layout)
    }

    pub(crate) fn file(&self) -> &FollowedFile {
        &self.file
    }

    pub(crate) fn name(&self) -> &str {
        self.file.name()
    }

    /// How long the file has to stay as it is before it counts.
    pub(crate) fn rest(&self, look: &Look) -> Duration {
        self.file.rest(look, |name, text| parse(name, text, self.keys.as_ref()).is_ok())
    }

    /// What the file says; from now on this is how it was read last.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not valid.
    pub(crate) fn read(&mut self, look: Look) -> Result<Config, ConfigError> {
        self.file.read(look, |name, text| parse(name, text, self.keys.as_ref()))
    }

    /// Logs what is probably a mistake and was not one before, wherever it stood.
    pub(crate) fn log_warnings(&mut self, warnings: &[Warning]) {
        let is_same =
            |one: &Warning, other: &Warning| (one.policy(), one.kind()) == (other.policy(), other.kind());
        for warning in warnings {
            if !self.warned.iter().any(|warned| is_same(warned, warning)) {
                warn!("{}:{warning}", Printable(self.name()));
            }
        }
        self.warned = warnings.into();
    }

    /// Whether the file names another store than the one in use.
    pub(crate) fn has_another_store(&self, config: &Config) -> bool {
        self.store.as_ref() != config.store()
    }
}

fn parse(name: &str, text: &str, keys: Option<&Keys>) -> Result<Config, ConfigError> {
    Config::parse_checked(name, text, |config| keys.map_or_else(Vec::new, |keys| keys.problems(config)))
}
