//! What a suite depends on when it passes, as one digest in a file of its folder.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::package::ClientPackage;
use crate::command::{CommandLine, command};

/// The contract: every suite depends on it.
const CONTRACT: &str = "docs/clients.md";

/// The name of the file in the folder of a package.
const FILE: &str = ".tested";

/// The digest of all files that a suite depends on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SuiteStamp(String);

impl SuiteStamp {
    /// Computes the stamp of the files as they are now: those of the package and the contract.
    pub(super) fn of(package: &ClientPackage) -> Result<Self> {
        Self::of_files(Path::new("."), package.folder)
    }

    fn of_files(root: &Path, folder: &str) -> Result<Self> {
        let git = |words: &str| command(words).directory(root.to_owned());
        let list = git("git ls-files --cached --others --exclude-standard --").arguments([folder, CONTRACT]);
        let list = list.read()?;
        let stamp = Path::new(folder).join(FILE);
        let mut paths: Vec<&str> = list.lines().filter(|path| Path::new(path) != stamp).collect();
        // A file that is tracked may have been removed.
        paths.retain(|path| root.join(path).is_file());
        paths.sort_unstable();
        paths.dedup();
        ensure!(paths.len() > 1, "{folder} has no files");
        let names: String = paths.iter().map(|path| format!("{path}\n")).collect();
        let digests = feed(&git("git hash-object --stdin-paths"), &names)?;
        ensure!(digests.lines().count() == paths.len(), "git did not read every file of {folder}");
        let digest = feed(&git("git hash-object --stdin"), &format!("{names}{digests}"))?;
        Ok(Self(digest.trim().to_owned()))
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
    use super::*;

    #[test]
    fn a_stamp_follows_the_files_of_the_folder_and_the_contract() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        for folder in ["docs", "clients/python", "clients/go"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        command("git init --quiet").directory(root.path().to_owned()).run().unwrap();
        write("docs/clients.md", "1. a rule");
        write("clients/python/client.py", "one");
        write("clients/go/client.go", "one");
        let stamp = || SuiteStamp::of_files(root.path(), "clients/python").unwrap();
        let first = stamp();
        write("clients/python/.tested", "any");
        write("clients/go/client.go", "two");
        assert_eq!(stamp(), first, "neither the stamp itself nor another package counts");
        write("clients/python/client.py", "two");
        let second = stamp();
        assert_ne!(second, first);
        write("docs/clients.md", "1. another rule");
        let third = stamp();
        assert_ne!(third, second);
        fs::rename(root.path().join("clients/python/client.py"), root.path().join("clients/python/b.py"))
            .unwrap();
        assert_ne!(stamp(), third, "the names count");
    }
}
