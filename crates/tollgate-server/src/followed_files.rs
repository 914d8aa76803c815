//! Files that are read again while the service runs: what they held when they were read last.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_policy::{ConfigError, Sources};

use crate::follow::{SECOND_LOOK, SLOW_WRITER};
use crate::look::{Files, Look};

/// Files that are read together, and the texts that they were read from last, valid or not; none, if one could not be
/// read.
///
/// There is no text in its `Debug`, which may hold secrets.
pub(crate) struct FollowedFiles {
    files: Files,
    /// What messages call them.
    name: Box<str>,
    sources: Option<Sources>,
    /// How long the texts are that are live, and where they lay.
    live: (usize, Vec<PathBuf>),
}

impl FollowedFiles {
    /// Reads the files for the first time. `parse` is given their texts.
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

    /// The files and folders as they were named.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        self.files.paths()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The files as they are now.
    pub(crate) fn look(&self) -> Look {
        Look::at(&self.files)
    }

    /// Whether there may be several files: then one that was put in its place whole says nothing of the others.
    pub(crate) fn are_several(&self) -> bool {
        self.sources.as_ref().is_none_or(|sources| sources.texts().count() > 1)
    }

    /// Whether the files were read with these texts last.
    pub(crate) fn are_known(&self, look: &Look) -> bool {
        self.sources.is_some() && self.sources.as_ref() == look.sources.as_ref().ok()
    }

    /// How long the files have to stay as they are before they count. What may be half of a file that is being written
    /// in place waits longer: it is shorter than the live one, ends within a line, or is not valid.
    pub(crate) fn rest(&self, look: &Look, is_valid: impl Fn(&Sources) -> bool) -> Duration {
        let (bytes, live) = &self.live;
        let is_whole = |sources: &Sources| {
            sources.bytes() >= *bytes && sources.texts().all(|text| text.ends_with('\n')) && is_valid(sources)
        };
        // Links that lead elsewhere were changed at once.
        let targets = look.targets();
        let is_swapped = look.sources.is_ok()
            && targets.len() == live.len()
            && targets.iter().zip(live).all(|(target, live)| target != live);
        if is_swapped || look.sources.as_ref().is_ok_and(is_whole) { SECOND_LOOK } else { SLOW_WRITER }
    }

    /// What the files say; from now on this is how they were read last.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or are not valid. If one cannot be read, no text is known: when it is back, it is news
    /// even as it was.
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
