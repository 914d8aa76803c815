//! What a package that calls the service has for the tests.

use anyhow::Result;

use crate::command::CommandLine;

/// A client program and its name.
pub(super) type ClientProgram = (&'static str, CommandLine);

/// A package that calls the service, or an example that does.
#[derive(Debug)]
pub(super) struct ClientPackage {
    pub(super) name: &'static str,
    pub(super) folder: &'static str,
    /// Installs what its client program needs.
    pub(super) install_driver: fn() -> Result<()>,
    /// Returns its client programs for the contract, if it has any, each with its name.
    pub(super) drivers: fn() -> Result<Vec<ClientProgram>>,
    /// Installs what its suite needs besides.
    pub(super) install_suite: fn() -> Result<()>,
    /// Returns the commands of its suite.
    pub(super) suite: fn() -> Result<Vec<CommandLine>>,
    /// What of its suite only runs if all suites do, because it takes large downloads.
    pub(super) only_with_all: Option<&'static str>,
}
