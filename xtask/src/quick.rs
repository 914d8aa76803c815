//! `cargo xtask quick`: format, lints and tests of the crates that a change touches.
//!
//! A change of a crate's public interface can break the crates that depend on it, so those are linted too. Their tests
//! are left to `cargo xtask test`, like everything outside the crates.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::binaries;
use crate::command::{CommandLine, command};
use crate::servers;

/// Files that can affect the build of every crate.
const EVERYTHING: [&str; 4] = ["Cargo.toml", "Cargo.lock", "clippy.toml", ".cargo/config.toml"];

/// The crates of the workspace.
#[derive(Debug, Deserialize)]
struct Workspace {
    packages: Vec<WorkspacePackage>,
}

#[derive(Debug, Deserialize)]
struct WorkspacePackage {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// Set only for crates of this workspace.
    path: Option<PathBuf>,
}

/// Checks the changes since this commit, or since the last one. If nothing has changed, checks the last commit.
pub(crate) fn run(since: Option<&str>) -> Result<()> {
    let changed = changed_files(since)?;
    let workspace = Workspace::read()?;
    let touched = workspace.touched(&changed, &std::env::current_dir()?.canonicalize()?);
    eprintln!("{} changed files, in {}", changed.len(), listed(&touched));
    command("cargo fmt --all --check").run()?;
    if touched.is_empty() {
        return Ok(());
    }
    let linted = workspace.with_dependents(&touched);
    let lints = packages(command("cargo clippy --locked --all-targets --all-features"), &linted);
    run_line(&lints.arguments(["--", "-D", "warnings"]))?;
    // The tests of these three start servers.
    if ["tollgate-redis", "tollgate-server", "tollgate-testkit"].iter().any(|name| touched.contains(name)) {
        servers::require()?;
    }
    binaries::run(&binaries::build(&packages(command("cargo test --locked --all-features"), &touched))?)?;
    eprintln!("passed for {}; `cargo xtask test` checks the rest", listed(&touched));
    Ok(())
}

fn run_line(line: &CommandLine) -> Result<()> {
    eprintln!("$ {line}");
    line.run()
}

fn packages(line: CommandLine, names: &BTreeSet<&str>) -> CommandLine {
    names.iter().fold(line, |line, name| line.arguments(["--package", name]))
}

fn listed(names: &BTreeSet<&str>) -> String {
    if names.is_empty() {
        "no crate".to_owned()
    } else {
        names.iter().copied().collect::<Vec<_>>().join(", ")
    }
}

/// Returns the paths, from the root, of new and changed files.
fn changed_files(since: Option<&str>) -> Result<Vec<String>> {
    let lines = |line: CommandLine| Ok::<_, anyhow::Error>(line.read()?.lines().map(str::to_owned).collect());
    let diff = |base: &str| lines(command("git diff --name-only --no-renames").argument(base));
    let mut changed: Vec<String> = diff(since.unwrap_or("HEAD"))?;
    changed.extend::<Vec<_>>(lines(command("git ls-files --others --exclude-standard"))?);
    if changed.is_empty() && since.is_none() {
        changed = diff("HEAD~1")?;
    }
    Ok(changed)
}

impl Workspace {
    fn read() -> Result<Self> {
        let metadata = command("cargo metadata --locked --no-deps --format-version 1").read()?;
        serde_json::from_str(&metadata).context("cannot read what `cargo metadata` printed")
    }

    /// Returns the crates that have these files in their folders, or all crates.
    fn touched(&self, changed: &[String], root: &Path) -> BTreeSet<&str> {
        let everything = changed.iter().any(|file| EVERYTHING.contains(&file.as_str()));
        let has_changed = |package: &&WorkspacePackage| {
            let folder = package.manifest_path.parent();
            everything
                || changed.iter().any(|file| folder.is_some_and(|folder| root.join(file).starts_with(folder)))
        };
        self.packages.iter().filter(has_changed).map(|package| package.name.as_str()).collect()
    }

    /// Returns these crates and all that depend on them.
    fn with_dependents<'a>(&'a self, touched: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        let mut names = touched.clone();
        loop {
            let before = names.len();
            let depends = |package: &&WorkspacePackage| {
                package.dependencies.iter().any(|d| d.path.is_some() && names.contains(d.name.as_str()))
            };
            let dependents: Vec<_> =
                self.packages.iter().filter(depends).map(|package| package.name.as_str()).collect();
            names.extend(dependents);
            if names.len() == before {
                return names;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `service` depends on `library`, and both on an external crate.
    fn workspace() -> Workspace {
        let text = r#"{"packages": [
            {"name": "library", "manifest_path": "/repository/crates/library/Cargo.toml",
             "dependencies": [{"name": "serde", "path": null}]},
            {"name": "service", "manifest_path": "/repository/crates/service/Cargo.toml",
             "dependencies": [{"name": "serde", "path": null}, {"name": "library", "path": "/repository/crates/library"}]},
            {"name": "library-tests", "manifest_path": "/repository/crates/library-tests/Cargo.toml", "dependencies": []}
        ]}"#;
        serde_json::from_str(text).unwrap()
    }

    fn touched<'a>(workspace: &'a Workspace, files: &[&str]) -> Vec<&'a str> {
        let files: Vec<_> = files.iter().map(|&file| file.to_owned()).collect();
        workspace.touched(&files, Path::new("/repository")).into_iter().collect()
    }

    #[test]
    fn a_file_touches_the_crate_that_has_it() {
        let workspace = workspace();
        assert_eq!(touched(&workspace, &["crates/library/src/lib.rs"]), ["library"]);
        assert_eq!(touched(&workspace, &["README.md", "docs/semantics.md"]), [""; 0]);
    }

    #[test]
    fn the_lock_file_touches_every_crate() {
        assert_eq!(touched(&workspace(), &["Cargo.lock"]), ["library", "library-tests", "service"]);
    }

    #[test]
    fn dependents_are_those_in_the_workspace() {
        let workspace = workspace();
        let names = |touched: &'static str| {
            workspace.with_dependents(&[touched].into()).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(names("library"), ["library", "service"]);
        assert_eq!(names("service"), ["service"]);
    }
}
