//! The package for Go, and its sub-modules.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::package::ClientProgram;
use crate::command::{CommandLine, command, program, target_directory};
use crate::{repository, system};

pub(super) const FOLDER: &str = "clients/go";

/// What a test leaves out unless it sees in its environment that all suites run.
pub(super) const ONLY_WITH_ALL: &str = "the concurrent tests of ulule/limiter";

pub(super) fn install_driver() -> Result<()> {
    system::GO_WITH_TOOLCHAINS
        .require()
        .context("the clients for Go need Go 1.21 or newer; https://go.dev/dl/ has it")
}

/// Builds the client program.
pub(super) fn drivers() -> Result<Vec<ClientProgram>> {
    let path = target_directory()?.join("clients/go-driver");
    let build = command("go build -o").argument(&path).argument("./internal/conformance");
    build.directory(FOLDER.into()).run()?;
    Ok(vec![("go", program(&path))])
}

pub(super) fn install_suite() -> Result<()> {
    modules()?.into_iter().try_for_each(|module| command("go mod download").directory(module).run())
}

/// Vets and tests every module. A result that Go has kept counts only for the same service, so none is used.
pub(super) fn suite() -> Result<Vec<CommandLine>> {
    let commands = |module: PathBuf| {
        ["go vet ./...", "go test -count=1 ./..."].map(|line| command(line).directory(module.clone()))
    };
    Ok(modules()?.into_iter().flat_map(commands).collect())
}

/// Returns the folders of the modules.
fn modules() -> Result<Vec<PathBuf>> {
    let files = repository::files(&[FOLDER])?;
    let files = files.iter().map(Path::new).filter(|path| path.ends_with("go.mod"));
    let modules: Vec<PathBuf> = files.filter_map(|path| Some(path.parent()?.to_owned())).collect();
    ensure!(!modules.is_empty(), "{FOLDER} has no module");
    Ok(modules)
}
