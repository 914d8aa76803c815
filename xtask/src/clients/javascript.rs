//! The package for JavaScript. It is built in a copy, so that nothing is installed among the sources.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::ALL_SUITES;
use super::package::ClientProgram;
use crate::command::{CommandLine, command, target_directory};
use crate::{repository, system};

pub(super) const FOLDER: &str = "clients/javascript";

/// What [`further_suites`] plays.
pub(super) const ONLY_WITH_ALL: &str = "other versions of its frameworks, and other runtimes";

/// The apps of the proofs, with packages of their own.
const APPS: &str = "clients/javascript/test/proof";

/// What an installation adds to a copy.
const INSTALLED: [&str; 2] = ["node_modules", "installed.json"];

/// Copies the package, installs the packages that its lock file names, and compiles it.
pub(super) fn install_driver() -> Result<()> {
    system::NODE.require()?;
    let copy = copy()?;
    renew(&copy, FOLDER)?;
    install_packages(&copy)?;
    command("npm run --silent build").directory(copy).run()
}

/// Copies the apps of the proofs, installs what they need and the package as users do, and returns their folder.
pub(super) fn apps() -> Result<PathBuf> {
    install_driver()?;
    let apps = target_directory()?.join("clients/javascript-apps");
    renew(&apps, APPS)?;
    install_packages(&apps)?;
    let pack = command("npm pack --silent --ignore-scripts --pack-destination").argument(&apps);
    let archive = pack.directory(copy()?).read()?;
    command("npm install --silent --no-save --ignore-scripts --offline")
        .argument(apps.join(archive.trim()))
        .directory(apps.clone())
        .run()?;
    Ok(apps)
}

pub(super) fn drivers() -> Result<Vec<ClientProgram>> {
    Ok(vec![("javascript", command("node").argument(copy()?.join("test/conformance.mjs")))])
}

/// Installs the other versions of the frameworks, and the runtimes, if all suites run.
pub(super) fn install_suite() -> Result<()> {
    further_suites()?.into_iter().try_for_each(|suite| suite.argument("--install").run())
}

pub(super) fn suite() -> Result<Vec<CommandLine>> {
    let mut suites = vec![command("npm run --silent test").directory(copy()?)];
    suites.extend(further_suites()?);
    Ok(suites)
}

/// Returns what takes large downloads, and so only runs with all suites.
fn further_suites() -> Result<Vec<CommandLine>> {
    if std::env::var_os(ALL_SUITES).is_none() {
        return Ok(Vec::new());
    }
    let scripts = ["test/versions.mjs", "test/runtimes.mjs"];
    let copy = copy()?;
    Ok(scripts.map(|script| command("node").argument(script).directory(copy.clone())).to_vec())
}

fn copy() -> Result<PathBuf> {
    Ok(target_directory()?.join("clients/javascript"))
}

/// Replaces the files of a copy, but not what was installed.
fn renew(copy: &Path, folder: &str) -> Result<()> {
    for entry in fs::read_dir(copy).into_iter().flatten() {
        let path = entry?.path();
        if INSTALLED.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    for source in repository::files(&[folder])? {
        let target = copy.join(Path::new(&source).strip_prefix(folder)?);
        target.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::copy(&source, &target).with_context(|| format!("cannot copy {source}"))?;
    }
    Ok(())
}

/// Installs the packages that the lock file of a folder names, unless they are there.
fn install_packages(folder: &Path) -> Result<()> {
    let lock_file = fs::read_to_string(folder.join("package-lock.json"))
        .with_context(|| format!("{} has no lock file", folder.display()))?;
    let installed = folder.join("installed.json");
    if fs::read_to_string(&installed).ok().as_deref() == Some(lock_file.as_str()) {
        return Ok(());
    }
    // Fails if a package differs from the lock file.
    let install = command("npm ci --ignore-scripts --no-audit --no-fund --prefer-offline");
    install.directory(folder.to_owned()).run()?;
    fs::write(&installed, lock_file).with_context(|| format!("cannot write {}", installed.display()))
}
