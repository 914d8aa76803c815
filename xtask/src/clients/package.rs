//! The list of packages.

use anyhow::Result;

use super::{go, javascript, python};
use crate::command::{CommandLine, command};
use crate::system;

/// A package that calls the service, or an example that does.
#[derive(Debug)]
pub(super) struct ClientPackage {
    pub(super) name: &'static str,
    pub(super) folder: &'static str,
    /// Installs what its client program needs.
    pub(super) install_driver: fn() -> Result<()>,
    /// Returns its client program for the contract, if it has one.
    pub(super) driver: Option<fn() -> Result<CommandLine>>,
    /// Installs what its suite needs besides.
    pub(super) install_suite: fn() -> Result<()>,
    /// Returns the commands of its suite.
    pub(super) suite: fn() -> Result<Vec<CommandLine>>,
}

pub(super) const PACKAGES: [ClientPackage; 4] = [
    ClientPackage {
        name: "python",
        folder: python::FOLDER,
        install_driver: python::install_driver,
        driver: Some(python::driver),
        install_suite: python::install_suite,
        suite: python::suite,
    },
    ClientPackage {
        name: "go",
        folder: go::FOLDER,
        install_driver: go::install_driver,
        driver: Some(go::driver),
        install_suite: go::install_suite,
        suite: go::suite,
    },
    ClientPackage {
        name: "javascript",
        folder: javascript::FOLDER,
        install_driver: javascript::install_driver,
        driver: Some(javascript::driver),
        install_suite: || Ok(()),
        suite: javascript::suite,
    },
    ClientPackage {
        name: "elixir",
        folder: "examples/elixir",
        install_driver: || Ok(()),
        driver: None,
        install_suite: || system::ELIXIR.require(),
        suite: || Ok(vec![command("elixir examples/elixir/test.exs")]),
    },
];
