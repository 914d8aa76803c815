//! The packages for Java, which Maven builds.

use anyhow::Result;

use super::package::ClientProgram;
use crate::command::{CommandLine, command};
use crate::system;

pub(super) const FOLDER: &str = "clients/java";

pub(super) fn install_driver() -> Result<()> {
    system::MAVEN.require()
}

pub(super) fn drivers() -> Result<Vec<ClientProgram>> {
    Ok(Vec::new())
}

pub(super) fn suite() -> Result<Vec<CommandLine>> {
    Ok(vec![command("mvn --batch-mode --quiet verify").directory(FOLDER.into())])
}
