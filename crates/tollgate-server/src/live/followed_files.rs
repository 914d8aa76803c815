//! Files that are reloaded while the service runs, with the texts of the last read.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_policy::{ConfigError, Sources};

use crate::live::follow::{SECOND_LOOK, SLOW_WRITER};
use crate::live::look::{Files, Look};

/// Files that are read together. They keep the texts of the last read, valid or not, or none if a file could not be
/// read.
///
/// `Debug` leaves out the texts, which may hold secrets.
pub(crate) struct FollowedFiles {
    files: Files,
    /// The name of the files in messages.
    name: Box<str>,
    sources: Option<Sources>,
    /// The length of the live texts, and the paths that they were read from.
    live: (usize, Vec<PathBuf>),
}

impl FollowedFiles {
    /// Reads the files for the first time and passes their texts to `parse`.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or are not valid.
    pub(crate) fn load<T>(
        files: Files,
        parse: impl FnOnce(&Sources) -> Result<T, ConfigError>,
    ) -> Result<(Self, T), ConfigError> {
        let names: Vec<String> = files.paths().iter().map(|path| path.display().to_string()).collect();
        let mut followed =
            Self { files, name: names.join(", ").into(), sources: None, live: (0, Vec::new()) };
        let content = followed.read(followed.look(), parse)?;
        Ok((followed, content))
    }

    /// The files and folders as the user named them.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        self.files.paths()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reads the files as they are now.
    pub(crate) fn look(&self) -> Look {
        Look::at(&self.files)
    }

    /// Returns whether there may be several files. One file that was renamed into place then shows nothing about the
    /// others.
    pub(crate) fn are_several(&self) -> bool {
        self.sources.as_ref().is_none_or(|sources| sources.texts().count() > 1)
    }

    /// Returns whether these are the texts of the last read.
    pub(crate) fn are_known(&self, look: &Look) -> bool {
        self.sources.is_some() && self.sources.as_ref() == look.sources.as_ref().ok()
    }

    /// Returns how long the files have to stay unchanged before they count. A file waits longer if it may be half of
    /// one that is being written: it is shorter than the live one, ends within a line, or is invalid.
    pub(crate) fn rest(&self, look: &Look, is_valid: impl Fn(&Sources) -> bool) -> Duration {
        let (bytes, live) = &self.live;
        let is_whole = |sources: &Sources| {
            sources.bytes() >= *bytes && sources.texts().all(|text| text.ends_with('\n')) && is_valid(sources)
        };
        // A changed link switches at once, so its file is whole.
        let targets = look.targets();
        let is_swapped = look.sources.is_ok()
            && targets.len() == live.len()
            && targets.iter().zip(live).all(|(target, live)| target != live);
        if is_swapped || look.sources.as_ref().is_ok_and(is_whole) { SECOND_LOOK } else { SLOW_WRITER }
    }

    /// Parses the files, and remembers their texts as the last read.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or is not valid. An unreadable file clears the texts, so that it counts as changed
    /// when it returns, even with the same text.
    pub(crate) fn read<T>(
        &mut self,
        look: Look,
        parse: impl FnOnce(&Sources) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        self.sources = None;
        let targets = look.targets();
        let sources = look.sources?;
        let content = parse(&sources);
        if content.is_ok() {
            self.live = (sources.bytes(), targets);
        }
        self.sources = Some(sources);
        content
    }
}

impl fmt::Debug for FollowedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowedFiles").field("files", &self.files).finish_non_exhaustive()
    }
}
