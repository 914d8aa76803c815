//! A file that is read again while the service runs: what it held when it was read last.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_policy::ConfigError;

use crate::follow::{SECOND_LOOK, SLOW_WRITER};
use crate::look::Look;

/// A file, and the text that it was read from last, valid or not; none, if it could not be read.
///
/// There is no text in its `Debug`, which may hold secrets.
pub(crate) struct FollowedFile {
    path: PathBuf,
    /// The file's name as messages say it.
    name: Box<str>,
    text: Option<String>,
    /// How long the text is that is live, and where it lay.
    live: (usize, Option<PathBuf>),
}

impl FollowedFile {
    /// Reads the file for the first time. `parse` is given its name and its text.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not valid.
    pub(crate) fn load<T>(
        path: &Path,
        parse: impl FnOnce(&str, &str) -> Result<T, ConfigError>,
    ) -> Result<(Self, T), ConfigError> {
        let name = path.display().to_string().into();
        let mut file = Self { path: path.into(), name, text: None, live: (0, None) };
        let content = file.read(file.look(), parse)?;
        Ok((file, content))
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
    pub(crate) fn rest(&self, look: &Look, is_valid: impl Fn(&str, &str) -> bool) -> Duration {
        let (bytes, target) = (self.live.0, self.live.1.as_deref());
        let is_whole =
            |text: &String| text.len() >= bytes && text.ends_with('\n') && is_valid(&self.name, text);
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
    pub(crate) fn read<T>(
        &mut self,
        look: Look,
        parse: impl FnOnce(&str, &str) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        self.text = None;
        let target = look.target().map(Path::to_path_buf);
        let text = look.text?;
        let content = parse(&self.name, &text);
        if content.is_ok() {
            self.live = (text.len(), target);
        }
        self.text = Some(text);
        content
    }
}

impl fmt::Debug for FollowedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowedFile").field("path", &self.path).finish_non_exhaustive()
    }
}
