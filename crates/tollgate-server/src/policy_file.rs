//! The file of policies: what it said when it was read last.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_policy::{Config, ConfigError, Printable, StoreSettings, Warning};
use tollgate_redis::KeyLayout;
use tracing::warn;

use crate::layout::{Keys, StoreFlags};
use crate::look::Look;

/// A file of policies, and the text that it was read from last, valid or not; none, if it could not be read.
#[derive(Debug)]
pub(crate) struct PolicyFile {
    path: PathBuf,
    /// The file's name as messages say it.
    name: Box<str>,
    text: Option<String>,
    /// How long the text is that is live, and where it lay.
    live: (usize, Option<PathBuf>),
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
        let name = path.display().to_string().into();
        let live = (0, None);
        let mut file =
            Self { path: path.into(), name, text: None, live, warned: [].into(), store: None, keys: None };
        let look = file.look();
        let target = look.target().map(Path::to_path_buf);
        let text = look.text?;
        let config = Config::parse_checked(&file.name, &text, |config| {
            let (keys, problems) = Keys::of_file(config, flags);
            file.keys = keys;
            problems
        })?;
        file.live = (text.len(), target);
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

    /// The file as it is now.
    pub(crate) fn look(&self) -> Look {
        Look::at(&self.path)
    }

    /// Whether the file was read with this text last.
    pub(crate) fn is_known(&self, look: &Look) -> bool {
        self.text.is_some() && self.text.as_ref() == look.text.as_ref().ok()
    }

    /// How long the file has to stay as it is before it counts. What may be half of a file that is being written in
    /// place waits longer: it is shorter than the live one, ends within a line, or is not valid.
    pub(crate) fn rest(&self, look: &Look) -> Duration {
        const SECOND_LOOK: Duration = Duration::from_millis(100);
        const SLOW_WRITER: Duration = Duration::from_secs(2);
        let (bytes, target) = (self.live.0, self.live.1.as_deref());
        let is_whole =
            |text: &String| text.len() >= bytes && text.ends_with('\n') && self.config(text).is_ok();
        // A link that leads elsewhere was changed at once.
        let is_swapped = look.text.is_ok() && look.target() != target;
        if is_swapped || look.text.as_ref().is_ok_and(is_whole) { SECOND_LOOK } else { SLOW_WRITER }
    }

    /// What the file says; from now on this is how it was read last.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not valid. If it cannot be read, no text is known: when it is back, it is news even
    /// as it was.
    pub(crate) fn read(&mut self, look: Look) -> Result<Config, ConfigError> {
        self.text = None;
        let target = look.target().map(Path::to_path_buf);
        let text = look.text?;
        let config = self.config(&text);
        if config.is_ok() {
            self.live = (text.len(), target);
        }
        self.text = Some(text);
        config
    }

    fn config(&self, text: &str) -> Result<Config, ConfigError> {
        Config::parse_checked(&self.name, text, |config| {
            self.keys.as_ref().map_or_else(Vec::new, |keys| keys.problems(config))
        })
    }

    /// Logs what is probably a mistake and was not one before, wherever it stood.
    pub(crate) fn log_warnings(&mut self, warnings: &[Warning]) {
        let is_same =
            |one: &Warning, other: &Warning| (one.policy(), one.kind()) == (other.policy(), other.kind());
        for warning in warnings {
            if !self.warned.iter().any(|warned| is_same(warned, warning)) {
                warn!("{}:{warning}", Printable(&self.name));
            }
        }
        self.warned = warnings.into();
    }

    /// Whether the file names another store than the one in use.
    pub(crate) fn has_another_store(&self, config: &Config) -> bool {
        self.store.as_ref() != config.store()
    }
}
