//! System packages that are needed besides Rust: installed if that is allowed, otherwise requested.

use std::io::{self, IsTerminal};

use anyhow::{Context, Result, bail, ensure};

use crate::command::{CommandLine, command};

/// One or several packages of Debian and its descendants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemPackage {
    pub(crate) name: &'static str,
    /// Shell words that succeed if the package is installed.
    pub(crate) probe: &'static str,
}

/// For a client on node, with its package manager.
pub(crate) const NODE: SystemPackage =
    SystemPackage { name: "nodejs npm", probe: "node --version && npm --version" };
pub(crate) const PYTHON: SystemPackage = SystemPackage { name: "python3", probe: "command -v python3" };
pub(crate) const PYTHON_VENV: SystemPackage =
    SystemPackage { name: "python3-venv", probe: "python3 -c 'import ensurepip'" };
pub(crate) const GO: SystemPackage = SystemPackage { name: "golang-go", probe: "command -v go" };
/// A Go that fetches the version which a module asks for.
pub(crate) const GO_WITH_TOOLCHAINS: SystemPackage = SystemPackage {
    name: "golang-go",
    probe: r"go version | grep --extended-regexp --quiet 'go(1\.(2[1-9]|[3-9][0-9])|[2-9])'",
};
pub(crate) const ELIXIR: SystemPackage = SystemPackage { name: "elixir", probe: "command -v elixir" };
/// A compiler of Java 17 or newer, and a Maven that uses it.
pub(crate) const MAVEN: SystemPackage = SystemPackage {
    name: "default-jdk-headless maven",
    probe: r"javac --version && mvn --version | grep --extended-regexp --quiet '^Java version: (1[7-9]|[2-9][0-9])'",
};
/// For limitador's Redis client.
pub(crate) const OPENSSL: SystemPackage =
    SystemPackage { name: "libssl-dev pkg-config", probe: "pkg-config --exists openssl" };
pub(crate) const GOACCESS: SystemPackage = SystemPackage { name: "goaccess", probe: "command -v goaccess" };
pub(crate) const H2LOAD: SystemPackage = SystemPackage { name: "nghttp2-client", probe: "command -v h2load" };
/// Counts the instructions of a program.
pub(crate) const VALGRIND: SystemPackage = SystemPackage { name: "valgrind", probe: "command -v valgrind" };
pub(crate) const WRK: SystemPackage = SystemPackage { name: "wrk", probe: "command -v wrk" };

impl SystemPackage {
    /// Makes sure that it is installed: installs it as root, otherwise prints the command.
    pub(crate) fn require(self) -> Result<()> {
        if self.is_installed() {
            return Ok(());
        }
        let install = self.install();
        if !may_install() {
            bail!("{} is missing; install it with: sudo {install}", self.name);
        }
        // The lists may be missing or old; packages that install without them still do.
        let _ = command("apt-get update").run();
        install.run()?;
        if !self.is_installed() {
            bail!("{} was installed and is still not found", self.name);
        }
        Ok(())
    }

    pub(crate) fn is_installed(self) -> bool {
        command("sh -c").argument(self.probe).succeeds()
    }

    /// Returns the command that installs it.
    pub(crate) fn install(self) -> CommandLine {
        let names = self.name.split_whitespace();
        command("apt-get install --yes --no-install-recommends").arguments(names)
    }
}

/// Prints which of these packages are missing and will be installed. At a terminal, asks whether to install them.
pub(crate) fn announce(packages: &[SystemPackage]) -> Result<()> {
    let missing: Vec<_> = packages.iter().filter(|package| !package.is_installed()).collect();
    if missing.is_empty() || !may_install() {
        return Ok(());
    }
    let names = missing.iter().map(|package| package.name).collect::<Vec<_>>().join(" ");
    eprintln!("installing system packages that are missing: {names}");
    if !io::stdin().is_terminal() {
        return Ok(());
    }
    eprint!("continue? [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).context("no answer")?;
    ensure!(answer.trim().eq_ignore_ascii_case("y"), "nothing was installed");
    Ok(())
}

/// Whether this is root, on a system that has `apt-get`.
pub(crate) fn may_install() -> bool {
    command("apt-get --version").succeeds() && command("id -u").read().is_ok_and(|id| id.trim() == "0")
}
