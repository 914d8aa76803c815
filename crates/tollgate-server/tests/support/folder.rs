//! A temporary folder for the files of a test.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// A temporary folder, removed at the end.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder can be made"))
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("text").to_owned()
    }

    /// Writes a file in one step: no reader sees half of it, even if this process is stopped meanwhile.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let (path, new) = (self.path(name), self.path(&format!("{name}.new")));
        fs::write(&new, text).expect("a file can be written");
        fs::rename(&new, &path).expect("it can be renamed");
        path
    }
}
