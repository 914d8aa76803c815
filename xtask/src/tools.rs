//! Tools from Python's package index that contain a binary. They are installed under the target directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{command, program, target_directory};
use crate::system;

/// Exact versions and digests, so that only the reviewed files are installed.
const REQUIREMENTS: &str = "xtask/tools.txt";

/// Returns the path of an installed tool. Installs the tools if they are missing or have changed.
pub(crate) fn tool(name: &str) -> Result<PathBuf> {
    let folder = target_directory()?.join("tools");
    let (python, installed) = (folder.join("bin/python"), folder.join("installed.txt"));
    let wanted = fs::read_to_string(REQUIREMENTS).with_context(|| format!("cannot read {REQUIREMENTS}"))?;
    if fs::read_to_string(&installed).ok().as_deref() != Some(wanted.as_str()) {
        make_environment(&folder)?;
        program(&python)
            .arguments(["-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"])
            .arguments(["--only-binary", ":all:", "--requirement", REQUIREMENTS])
            .run()?;
        fs::write(&installed, wanted).with_context(|| format!("cannot write {}", installed.display()))?;
    }
    Ok(folder.join("bin").join(name))
}

/// Creates a Python virtual environment in this folder, if there is none yet.
pub(crate) fn make_environment(folder: &Path) -> Result<()> {
    if !program(&folder.join("bin/python")).arguments(["-m", "pip", "--version"]).succeeds() {
        system::PYTHON_VENV.require()?;
        command("python3 -m venv").argument(folder).run()?;
    }
    Ok(())
}
