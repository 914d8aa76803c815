//! The package for JavaScript. It is built in a copy, so that nothing is installed among the sources.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::package::ClientProgram;
use crate::command::{CommandLine, command, target_directory};
use crate::{repository, system};

pub(super) const FOLDER: &str = "clients/javascript";

/// Copies the package, installs the packages that its lock file names, and compiles it.
pub(super) fn install_driver() -> Result<()> {
    system::NODE.require()?;
    let copy = copy()?;
    let lock_file = fs::read_to_string(Path::new(FOLDER).join("package-lock.json"))
        .with_context(|| format!("{FOLDER} has no lock file"))?;
    copy_sources(&copy)?;
    let installed = copy.join("installed.json");
    if fs::read_to_string(&installed).ok().as_deref() != Some(lock_file.as_str()) {
        // Fails if a package differs from the lock file.
        command("npm ci --ignore-scripts --no-audit --no-fund --prefer-offline")
            .directory(copy.clone())
            .run()?;
        fs::write(&installed, lock_file)?;
    }
    command("npm run --silent build").directory(copy).run()
}

pub(super) fn drivers() -> Result<Vec<ClientProgram>> {
    Ok(vec![("javascript", command("node").argument(copy()?.join("test/conformance.mjs")))])
}

pub(super) fn suite() -> Result<Vec<CommandLine>> {
    Ok(vec![command("npm run --silent test").directory(copy()?)])
}

fn copy() -> Result<PathBuf> {
    Ok(target_directory()?.join("clients/javascript"))
}

/// Replaces the sources of the copy.
fn copy_sources(copy: &Path) -> Result<()> {
    for entry in fs::read_dir(copy).into_iter().flatten() {
        let path = entry?.path();
        let is_kept = ["node_modules", "installed.json"].iter().any(|name| path.ends_with(name));
        if is_kept {
            continue;
        }
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    for source in repository::files(&[FOLDER])? {
        let target = copy.join(Path::new(&source).strip_prefix(FOLDER)?);
        target.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::copy(&source, &target).with_context(|| format!("cannot copy {source}"))?;
    }
    Ok(())
}
