//! What a suite depends on when it passes, as one digest in a file of its folder.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::package::ClientPackage;
use crate::command::{CommandLine, command};
use crate::repository;

/// What every suite depends on besides its folder: the contract, the service as its page describes it, the page whose
/// programs the suites run, and the commands of the suites.
const SHARED: [&str; 4] = ["docs/clients.md", "docs/http.md", "docs/test-your-app.md", "xtask/src/clients"];

/// The name of the file in the folder of a package.
const FILE: &str = ".tested";

/// The digest of all files that a suite depends on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SuiteStamp(String);

impl SuiteStamp {
    /// Computes the stamp of the files as they are now.
    pub(super) fn of(package: &ClientPackage) -> Result<Self> {
        Self::of_files(Path::new("."), package.folder)
    }

    fn of_files(root: &Path, folder: &str) -> Result<Self> {
        let git = |words: &str| command(words).directory(root.to_owned());
        let [contract, page, programs, commands] = SHARED;
        let mut paths = repository::files_under(root, &[folder, contract, page, programs, commands])?;
        let stamp = Path::new(folder).join(FILE);
        paths.retain(|path| Path::new(path) != stamp);
        ensure!(paths.iter().any(|path| Path::new(path).starts_with(folder)), "{folder} has no files");
        for path in &paths {
            // git would read another path.
            ensure!(!path.contains('\n') && !path.starts_with('"'), "a file has the name {path:?}");
        }
        let names: String = paths.iter().map(|path| format!("{path}\n")).collect();
        let digests = feed(&git("git hash-object --stdin-paths"), &names)?;
        ensure!(digests.lines().count() == paths.len(), "git did not read every file of {folder}");
        let digest = feed(&git("git hash-object --stdin"), &format!("{names}{digests}"))?;
        Ok(Self(digest.trim().to_owned()))
    }

    /// Runs a suite, and returns the stamp of what it has tested. Fails if that has changed meanwhile.
    pub(super) fn of_run(package: &ClientPackage, suite: impl FnOnce() -> Result<()>) -> Result<Self> {
        Self::of_run_in(Path::new("."), package.folder, suite)
    }

    fn of_run_in(root: &Path, folder: &str, suite: impl FnOnce() -> Result<()>) -> Result<Self> {
        let before = Self::of_files(root, folder)?;
        suite()?;
        let is_same = Self::of_files(root, folder)? == before;
        ensure!(is_same, "no stamp for {folder}: a file has changed while its suite ran; run it again");
        Ok(before)
    }

    /// Returns the stamp that is kept in the folder of the package, if there is one.
    pub(super) fn read(package: &ClientPackage) -> Result<Option<Self>> {
        match fs::read_to_string(path(package)) {
            Ok(text) => Ok(Some(Self(text.trim().to_owned()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path(package).display())),
        }
    }

    /// Keeps the stamp.
    pub(super) fn write(&self, package: &ClientPackage) -> Result<()> {
        let path = path(package);
        fs::write(&path, format!("{}\n", self.0)).with_context(|| format!("cannot write {}", path.display()))
    }
}

fn path(package: &ClientPackage) -> PathBuf {
    Path::new(package.folder).join(FILE)
}

/// Runs a command with this text as its standard input, and returns its output.
fn feed(line: &CommandLine, text: &str) -> Result<String> {
    let mut child = line.spawn_dialog()?;
    let mut input = child.stdin.take().context("a command has no input")?;
    let text = text.to_owned();
    // In a thread, because the command may answer before it has read everything.
    let writing = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().with_context(|| format!("cannot run `{line}`"))?;
    ensure!(output.status.success(), "this command failed ({}): {line}", output.status);
    writing.join().ok().context("a writer was lost sight of")?.context("a command did not read its input")?;
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` did not answer in UTF-8"))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A repository with two packages and their contract.
    fn repository() -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in ["docs", "clients/python", "clients/go", "xtask/src/clients"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        command("git init --quiet").directory(root.path().to_owned()).run().unwrap();
        for (name, text) in [
            ("docs/clients.md", "1. a rule"),
            ("clients/python/client.py", "one"),
            ("clients/go/client.go", "one"),
        ] {
            fs::write(root.path().join(name), text).unwrap();
        }
        root
    }

    #[test]
    fn a_file_that_changes_while_the_suite_runs_is_not_stamped_as_tested() {
        let root = repository();
        let run =
            |suite: &dyn Fn() -> Result<()>| SuiteStamp::of_run_in(root.path(), "clients/python", suite);
        assert_eq!(run(&|| Ok(())).unwrap(), SuiteStamp::of_files(root.path(), "clients/python").unwrap());
        let edit = || Ok(fs::write(root.path().join("clients/python/client.py"), "two")?);
        assert_eq!(
            run(&edit).unwrap_err().to_string(),
            "no stamp for clients/python: a file has changed while its suite ran; run it again"
        );
    }

    #[test]
    fn a_stamp_follows_the_files_that_a_suite_depends_on() {
        let root = repository();
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        let stamp = || SuiteStamp::of_files(root.path(), "clients/python").unwrap();
        let first = stamp();
        write("clients/python/.tested", "any");
        write("clients/go/client.go", "two");
        assert_eq!(stamp(), first, "neither the stamp itself nor another package counts");
        write("clients/python/client.py", "two");
        let second = stamp();
        assert_ne!(second, first);
        write("docs/clients.md", "1. another rule");
        let mut third = stamp();
        assert_ne!(third, second);
        for name in
            ["docs/http.md", "docs/test-your-app.md", "xtask/src/clients/python.rs", "clients/python/ä"]
        {
            write(name, "new");
            assert_ne!(stamp(), third, "{name}");
            third = stamp();
        }
        fs::rename(root.path().join("clients/python/client.py"), root.path().join("clients/python/b.py"))
            .unwrap();
        assert_ne!(stamp(), third, "the names count");
    }
}
