//! The package for Python.

use std::path::PathBuf;

use anyhow::Result;

use super::package::ClientProgram;
use crate::command::{CommandLine, command, program, target_directory};
use crate::system;
use crate::tools;

pub(super) const FOLDER: &str = "clients/python";

/// What the tests need, in exact versions and with their digests.
const REQUIREMENTS: &str = "clients/python/requirements.txt";

/// The client needs nothing but Python.
pub(super) fn install_driver() -> Result<()> {
    system::PYTHON.require()
}

pub(super) fn drivers() -> Result<Vec<ClientProgram>> {
    let python = command("python3 clients/python/tests/conformance.py");
    let python = without_traces(python).environment("PYTHONPATH", "clients/python/src");
    Ok(vec![("python", python.clone()), ("python with asyncio", python.argument("--asyncio"))])
}

pub(super) fn install_suite() -> Result<()> {
    tools::install_into(&suite_folder()?, REQUIREMENTS.as_ref())?;
    // As users install it, with its entry points.
    program(&suite_folder()?.join("bin/python"))
        .arguments(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall"])
        .arguments(["--no-deps", "--no-build-isolation", "--no-index", FOLDER])
        .run()
}

/// Returns the path of a Python that has the package, and what its tests need.
pub(super) fn suite_python() -> Result<PathBuf> {
    install_suite()?;
    Ok(suite_folder()?.join("bin/python"))
}

pub(super) fn suite() -> Result<Vec<CommandLine>> {
    let python = program(&suite_folder()?.join("bin/python"));
    let pytest = python.arguments(["-m", "pytest", "-p", "no:cacheprovider", "--quiet"]);
    Ok(vec![without_traces(pytest).directory(FOLDER.into())])
}

/// Leaves no files in the folder of the sources.
fn without_traces(python: CommandLine) -> CommandLine {
    python.environment("PYTHONDONTWRITEBYTECODE", "1")
}

fn suite_folder() -> Result<PathBuf> {
    Ok(target_directory()?.join("clients/python-suite"))
}
