//! Programs that tests start besides our own: the servers of shared stores, and a browser. They must be installed, but
//! need not run.
//!
//! Debian starts a server as soon as it is installed. The tests neither use nor disturb it: their servers listen on
//! other ports.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::command::command;
use crate::steps::CheckOutcome;
use crate::system::{self, SystemPackage};

const REDIS: SystemPackage =
    SystemPackage { name: "redis-server", probe: r#"command -v "${TOLLGATE_REDIS_SERVER:-redis-server}""# };
const VALKEY: SystemPackage = SystemPackage {
    name: "valkey-server",
    probe: r#"command -v "${TOLLGATE_VALKEY_SERVER:-valkey-server}""#,
};

/// For the test of attacks by a page of another site.
const CHROMIUM: SystemPackage =
    SystemPackage { name: "chromium-headless-shell", probe: "command -v chromium-headless-shell" };

/// The packages with all of them.
pub(crate) const ALL: [SystemPackage; 3] = [REDIS, VALKEY, CHROMIUM];

/// The source of Valkey on Debian 12, which is older than Valkey.
const BACKPORTS: &str = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm-backports main";
const BACKPORTS_FILE: &str = "/etc/apt/sources.list.d/bookworm-backports.list";

/// Makes sure that all are installed: installs them as root, otherwise prints the command.
pub(crate) fn require() -> Result<CheckOutcome> {
    REDIS.require()?;
    if !VALKEY.is_installed() && needs_backports() {
        add_backports()?;
    }
    VALKEY.require()?;
    CHROMIUM.require()?;
    Ok(CheckOutcome::Passed)
}

/// Whether this is Debian 12 without its backports.
fn needs_backports() -> bool {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let has_them = command("grep --recursive --quiet --no-messages bookworm-backports")
        .arguments(["/etc/apt/sources.list", "/etc/apt/sources.list.d"]);
    is_debian_12(&release) && !has_them.succeeds()
}

fn is_debian_12(release: &str) -> bool {
    let says = |line: &str| release.lines().any(|said| said == line);
    says("ID=debian") && says("VERSION_CODENAME=bookworm")
}

fn add_backports() -> Result<()> {
    if !system::may_install() {
        bail!(
            "valkey-server is missing; install it with: echo '{BACKPORTS}' | sudo tee {BACKPORTS_FILE} && \
             sudo apt-get update && sudo {}",
            VALKEY.install()
        );
    }
    eprintln!("adding {BACKPORTS_FILE}: {BACKPORTS}");
    fs::write(BACKPORTS_FILE, format!("{BACKPORTS}\n"))
        .with_context(|| format!("cannot write {BACKPORTS_FILE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_12_is_told_from_its_descendants_and_successors() {
        assert!(is_debian_12("NAME=\"Debian GNU/Linux\"\nVERSION_CODENAME=bookworm\nID=debian\n"));
        assert!(!is_debian_12("VERSION_CODENAME=trixie\nID=debian\n"));
        assert!(!is_debian_12("VERSION_CODENAME=bookworm\nID=mint\nID_LIKE=debian\n"));
    }

    #[test]
    fn a_program_that_the_environment_names_counts_as_installed() {
        let probe =
            |program| command("sh -c").argument(VALKEY.probe).environment("TOLLGATE_VALKEY_SERVER", program);
        assert!(probe("/bin/sh").succeeds());
        assert!(!probe("/nowhere/valkey-server").succeeds());
    }
}
