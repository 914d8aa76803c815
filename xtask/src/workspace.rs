//! The crates of the workspace, as `cargo metadata` describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::command::command;

/// Files that can affect the build of every crate.
const EVERYTHING: [&str; 4] = ["Cargo.toml", "Cargo.lock", "clippy.toml", ".cargo/config.toml"];

/// The crates of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    packages: Vec<WorkspacePackage>,
}

#[derive(Debug, Deserialize)]
struct WorkspacePackage {
    name: String,
    manifest_path: PathBuf,
    features: BTreeMap<String, Vec<String>>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// Set only for crates of this workspace.
    path: Option<PathBuf>,
}

impl Workspace {
    pub(crate) fn read() -> Result<Self> {
        let metadata = command("cargo metadata --locked --no-deps --format-version 1").read()?;
        serde_json::from_str(&metadata).context("cannot read what `cargo metadata` printed")
    }

    /// Returns the crates that have these files in their folders, or all crates.
    pub(crate) fn touched(&self, changed: &[String], root: &Path) -> BTreeSet<&str> {
        let everything = changed.iter().any(|file| EVERYTHING.contains(&file.as_str()));
        let has_changed = |package: &&WorkspacePackage| {
            let folder = package.manifest_path.parent();
            everything
                || changed.iter().any(|file| folder.is_some_and(|folder| root.join(file).starts_with(folder)))
        };
        self.packages.iter().filter(has_changed).map(|package| package.name.as_str()).collect()
    }

    /// Returns these crates and all that depend on them.
    pub(crate) fn with_dependents<'a>(&'a self, touched: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
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

    /// Returns all features of the crates with these names, as cargo takes them on its command line.
    pub(crate) fn features(&self, is_chosen: impl Fn(&str) -> bool) -> Vec<String> {
        let chosen = self.packages.iter().filter(|package| is_chosen(&package.name));
        let features = chosen.flat_map(|package| {
            package.features.keys().map(move |feature| format!("{}/{feature}", package.name))
        });
        features.filter(|feature| !feature.ends_with("/default")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `service` depends on `library`, and both on an external crate.
    fn workspace() -> Workspace {
        let text = r#"{"packages": [
            {"name": "library", "manifest_path": "/repository/crates/library/Cargo.toml",
             "features": {}, "dependencies": [{"name": "serde", "path": null}]},
            {"name": "service", "manifest_path": "/repository/crates/service/Cargo.toml",
             "features": {}, "dependencies": [{"name": "serde", "path": null}, {"name": "library", "path": "/repository/crates/library"}]},
            {"name": "library-tests", "manifest_path": "/repository/crates/library-tests/Cargo.toml", "features": {}, "dependencies": []}
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
