//! The file of policies: what it said when it was read last.

use std::path::{Path, PathBuf};

use tollgate_policy::{Config, ConfigError, StoreSettings, Warning};
use tollgate_redis::KeyLayout;
use tracing::warn;

use crate::layout::{Keys, StoreFlags};

/// A file of policies, and the text that it was read from last, valid or not; none, if it could not be read.
#[derive(Debug)]
pub(crate) struct PolicyFile {
    path: PathBuf,
    /// The file's name as messages say it.
    name: Box<str>,
    text: Option<String>,
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
        let name = path.display().to_string().into();
        let mut file = Self { path: path.into(), name, text: None, store: None, keys: None };
        let text = file.read()?;
        let config = Config::parse_checked(&file.name, &text, |config| {
            let (keys, problems) = Keys::of_file(config, flags);
            file.keys = keys;
            problems
        })?;
        file.text = Some(text);
        file.store = config.store().cloned();
        Ok((file, config))
    }

    /// The layout of the store's keys, if it is not our own.
    pub(crate) fn layout(&self) -> Option<&KeyLayout> {
        self.keys.as_ref().map(Keys::layout)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The text of the file as it is now.
    ///
    /// # Errors
    ///
    /// If it cannot be read. No text is known then: when it is back, it is news even as it was.
    pub(crate) fn read(&mut self) -> Result<String, ConfigError> {
        Config::read(&self.path).inspect_err(|_| self.text = None)
    }

    /// Whether the file was read with this text last.
    pub(crate) fn is_known(&self, text: &str) -> bool {
        self.text.as_deref() == Some(text)
    }

    /// What the text says; from now on it is the one that was read last.
    ///
    /// # Errors
    ///
    /// If it is not valid.
    pub(crate) fn parse(&mut self, text: String) -> Result<Config, ConfigError> {
        let config = Config::parse_checked(&self.name, &text, |config| {
            self.keys.as_ref().map_or_else(Vec::new, |keys| keys.problems(config))
        });
        self.text = Some(text);
        config
    }

    /// Logs what is probably a mistake.
    pub(crate) fn log_warnings(&self, warnings: &[Warning]) {
        for warning in warnings {
            warn!("{}:{warning}", self.name);
        }
    }

    /// Whether the file names another store than the one in use.
    pub(crate) fn has_another_store(&self, config: &Config) -> bool {
        self.store.as_ref() != config.store()
    }
}
