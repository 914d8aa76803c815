//! The list of packages.

use super::package::ClientPackage;
use super::{go, java, javascript, python};
use crate::command::command;
use crate::system;

pub(super) const PACKAGES: [ClientPackage; 5] = [
    ClientPackage {
        name: "python",
        folder: python::FOLDER,
        install_driver: python::install_driver,
        drivers: python::drivers,
        install_suite: python::install_suite,
        suite: python::suite,
        only_with_all: None,
    },
    ClientPackage {
        name: "go",
        folder: go::FOLDER,
        install_driver: go::install_driver,
        drivers: go::drivers,
        install_suite: go::install_suite,
        suite: go::suite,
        only_with_all: Some(go::ONLY_WITH_ALL),
    },
    ClientPackage {
        name: "javascript",
        folder: javascript::FOLDER,
        install_driver: javascript::install_driver,
        drivers: javascript::drivers,
        install_suite: javascript::install_suite,
        suite: javascript::suite,
        only_with_all: Some(javascript::ONLY_WITH_ALL),
    },
    ClientPackage {
        name: "java",
        folder: java::FOLDER,
        install_driver: java::install_driver,
        drivers: java::drivers,
        install_suite: java::install_suite,
        suite: java::suite,
        only_with_all: Some(java::ONLY_WITH_ALL),
    },
    ClientPackage {
        name: "elixir",
        folder: "examples/elixir",
        install_driver: || Ok(()),
        drivers: || Ok(Vec::new()),
        install_suite: || system::ELIXIR.require(),
        suite: || Ok(vec![command("elixir examples/elixir/test.exs")]),
        only_with_all: None,
    },
];
