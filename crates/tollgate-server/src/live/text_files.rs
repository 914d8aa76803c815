//! Text files that are reloaded while the service runs, in some format.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_policy::{ConfigError, Sources};

use super::file_stamp::FileStamp;
use super::reload::{FileSource, WAIT_IF_HALF, WAIT_IF_WHOLE};
use crate::observe::with_sources::WithSources;

/// The paths of files that are read together.
#[derive(Debug, Clone)]
pub(crate) enum TextPaths {
    /// One file.
    One(PathBuf),
    /// Policy files, and folders of them.
    Policies(Vec<PathBuf>),
}

/// What texts define.
pub(crate) trait FileFormat: Send + 'static {
    type Content;

    /// # Errors
    ///
    /// If the texts are not valid.
    fn parse(&self, sources: &Sources) -> Result<Self::Content, ConfigError>;

    /// Called with the valid content of a reload, before it becomes live. `file` is the name of the files in messages.
    fn note(&mut self, _content: &Self::Content, _file: &str) {}
}

/// Files that are read together. They keep the texts that were parsed last, valid or not, or none if a file could not
/// be read.
///
/// `Debug` leaves out the texts, which may hold secrets.
pub(crate) struct TextFiles<F> {
    paths: TextPaths,
    /// The name of the files in messages.
    name: Box<str>,
    format: F,
    sources: Option<Sources>,
    /// The length of the live texts, and the paths that they were read from.
    live: (usize, Vec<PathBuf>),
}

/// The texts of files at one moment, or the reason why one of them cannot be read.
#[derive(Debug)]
pub(crate) struct TextReading {
    sources: Result<Sources, ConfigError>,
    /// One for each file that can be opened.
    stamps: Vec<FileStamp>,
}

/// The error in texts, with all its causes.
pub(crate) struct TextError(ConfigError);

impl<F: FileFormat> TextFiles<F> {
    /// Reads the files for the first time. `parse` returns their format and their content.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or are not valid.
    pub(crate) fn first(
        paths: TextPaths,
        parse: impl FnOnce(&Sources) -> Result<(F, F::Content), ConfigError>,
    ) -> Result<(Self, F::Content), ConfigError> {
        let names: Vec<String> = paths.as_slice().iter().map(|path| path.display().to_string()).collect();
        let reading = paths.read();
        let targets = reading.targets();
        let sources = reading.sources?;
        let (format, content) = parse(&sources)?;
        let live = (sources.bytes(), targets);
        Ok((Self { paths, name: names.join(", ").into(), format, sources: Some(sources), live }, content))
    }

    /// The files and folders as the user named them.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        self.paths.as_slice()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn format(&self) -> &F {
        &self.format
    }

    /// Returns the format, and the name of the files.
    pub(crate) const fn format_mut(&mut self) -> (&mut F, &str) {
        (&mut self.format, &self.name)
    }
}

impl<F: FileFormat> FileSource for TextFiles<F> {
    type Reading = TextReading;

    type Content = F::Content;

    type Error = TextError;

    fn name(&self) -> &str {
        &self.name
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.paths.as_slice().into()
    }

    fn read(&self) -> TextReading {
        self.paths.read()
    }

    fn is_same(&self, earlier: &TextReading, later: &TextReading) -> bool {
        earlier.stamps == later.stamps && earlier.sources.as_ref().ok() == later.sources.as_ref().ok()
    }

    fn is_known(&self, reading: &TextReading) -> bool {
        self.sources.is_some() && self.sources.as_ref() == reading.sources.as_ref().ok()
    }

    fn are_several(&self) -> bool {
        self.sources.as_ref().is_none_or(|sources| sources.texts().count() > 1)
    }

    /// A file waits longer if it may be half of one that is being written: it is shorter than the live one, ends within
    /// a line, or is invalid.
    fn wait(&self, reading: &TextReading) -> Duration {
        let (bytes, live) = &self.live;
        let is_whole = |sources: &Sources| {
            sources.bytes() >= *bytes
                && sources.texts().all(|text| text.ends_with('\n'))
                && self.format.parse(sources).is_ok()
        };
        // A link changes in one step, so the file behind it is whole.
        let targets = reading.targets();
        let is_swapped = reading.sources.is_ok()
            && targets.len() == live.len()
            && targets.iter().zip(live).all(|(target, live)| target != live);
        let is_whole = is_swapped || reading.sources.as_ref().is_ok_and(is_whole);
        if is_whole { WAIT_IF_WHOLE } else { WAIT_IF_HALF }
    }

    /// An unreadable file clears the texts, so that it counts as changed when it returns, even with the same text.
    fn parse(&mut self, reading: TextReading) -> Result<F::Content, TextError> {
        self.sources = None;
        let targets = reading.targets();
        let sources = reading.sources.map_err(TextError)?;
        let content = self.format.parse(&sources);
        if let Ok(content) = &content {
            self.live = (sources.bytes(), targets);
            self.format.note(content, &self.name);
        }
        self.sources = Some(sources);
        content.map_err(TextError)
    }
}

impl TextPaths {
    /// The files and folders as the user named them.
    fn as_slice(&self) -> &[PathBuf] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::Policies(paths) => paths,
        }
    }

    /// Reads the files now. It never waits for a writer: anything but a regular file, such as a pipe, is refused.
    fn read(&self) -> TextReading {
        let mut stamps = Vec::new();
        let mut open = |path: &Path| {
            let (file, stamp) = FileStamp::open(path)?;
            stamps.push(stamp);
            Ok(file)
        };
        let sources = match self {
            Self::One(path) => {
                let name = path.display().to_string();
                let file = open(path)
                    .map_err(|source| ConfigError::Unreadable { file: name.as_str().into(), source });
                file.and_then(|file| Ok(Sources::of(&name, Sources::text_of(&name, file)?)))
            }
            Self::Policies(paths) => Sources::read_by(paths, open),
        };
        TextReading { sources, stamps }
    }
}

impl TextReading {
    /// Returns the paths of the files that can be opened, with links resolved.
    fn targets(&self) -> Vec<PathBuf> {
        self.stamps.iter().map(|stamp| stamp.target().to_path_buf()).collect()
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        WithSources(&self.0).fmt(f)
    }
}

impl<F> fmt::Debug for TextFiles<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextFiles").field("paths", &self.paths).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::live::captured_log::CapturedLog;
    use crate::live::cause::Cause;
    use crate::live::record::Changes;
    use crate::live::reload::{Glance, Reload, Reloads, reload};
    use crate::live::target::{LiveTarget, ReloadResult};

    /// Every text is valid.
    struct AnyText;

    impl FileFormat for AnyText {
        type Content = ();

        fn parse(&self, _: &Sources) -> Result<(), ConfigError> {
            Ok(())
        }
    }

    /// Panics when a text goes live, so many times.
    struct PanickingTarget {
        panics: u32,
        live: u64,
    }

    impl LiveTarget for PanickingTarget {
        const NAME: &'static str = "texts";

        type Content = ();

        fn go_live(&mut self, (): (), _: &str) -> Option<Changes> {
            if self.panics > 0 {
                self.panics -= 1;
                panic!("a bug of ours");
            }
            self.live += 1;
            Changes::of(["a change".to_owned()])
        }

        fn version(&self) -> u64 {
            self.live
        }
    }

    fn panicking(path: &Path, panics: u32) -> Reloads<TextFiles<AnyText>, PanickingTarget> {
        std::fs::write(path, "one\n").unwrap();
        let (files, ()) = TextFiles::first(TextPaths::One(path.into()), |_| Ok((AnyText, ()))).unwrap();
        Reloads::new(files, PanickingTarget { panics, live: 1 })
    }

    /// The texts of such a file counted as live: no later look read it again, and its age was 0.
    #[test]
    fn a_file_whose_reload_panicked_is_read_again_at_the_next_look() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.yaml");
        let reloads = Arc::new(panicking(&path, 1));
        std::fs::write(&path, "two\n").unwrap();
        let panicked = Arc::clone(&reloads);
        std::thread::spawn(move || panicked.reload(Cause::Interval)).join().unwrap_err();
        let Glance::Changed(reading, _) = reloads.glance(None, false, Cause::Interval) else {
            panic!("the file is not live");
        };
        assert!(matches!(reloads.glance(Some(&reading), true, Cause::Interval), Glance::Settled));
        // It is known from now on.
        assert_eq!(reloads.reload(Cause::Watch).unwrap(), ReloadResult::Unchanged(2));
        assert_eq!(reloads.state().counts(), [("replaced", 1), ("unchanged", 0), ("failed", 0)]);
    }

    /// The caller got 503, and the log had no line of ours about the reason.
    #[tokio::test]
    async fn panics_in_reloads_by_request_are_logged_once_a_second() {
        let captured = CapturedLog::default();
        let _log = captured.start();
        let folder = tempfile::tempdir().unwrap();
        let reloads: Arc<dyn Reload> = Arc::new(panicking(&folder.path().join("file.yaml"), 3));
        for _ in 0..3 {
            assert!(reload(Arc::clone(&reloads), Cause::Request).await.is_none());
        }
        let log = captured.text();
        assert!(log.contains("ERROR") && log.contains("cause=\"request\""), "{log}");
        assert!(log.contains("a bug of ours"), "{log}");
        assert!(log.matches("a reload ended unexpectedly").count() <= 2, "{log}");
        assert!(reload(reloads, Cause::Request).await.is_some_and(|reloaded| reloaded.is_ok()));
    }
}
