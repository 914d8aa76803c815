//! The package for Debian: builds it, unpacks it, and starts its service as its unit does.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::command::{CommandLine, command, program, target_directory};

/// The version that the proof is known to work with.
const CARGO_DEB: &str = "3.8.0";

const UNIT: &str = "usr/lib/systemd/system/tollgate.service";
const SETTINGS: &str = "etc/default/tollgate";
const COMPLETIONS: &str = "usr/share/bash-completion/completions/tollgate";
const PAGE: &str = "usr/share/man/man1/tollgate-serve.1.gz";

/// What the package installs, in a folder of its own.
pub(crate) struct UnpackedPackage(PathBuf);

/// Packs what [`dist`](crate::dist) has built, and unpacks the package.
pub(crate) fn unpack() -> Result<UnpackedPackage> {
    let folder = target_directory()?.join("debian");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let package = folder.join("tollgate.deb");
    program(&cargo_deb()?)
        .arguments(["--no-build", "--no-strip", "--package", "tollgate-server", "--output"])
        .argument(&package)
        .run()?;
    let unpacked = UnpackedPackage(folder.join("root"));
    command("dpkg-deb --extract").argument(&package).argument(&unpacked.0).run()?;
    unpacked.expect_files()?;
    Ok(unpacked)
}

/// The program, built under the target directory.
fn cargo_deb() -> Result<PathBuf> {
    let folder = target_directory()?.join(format!("cargo-deb-{CARGO_DEB}"));
    let installed = folder.join("bin/cargo-deb");
    if !installed.exists() {
        command("cargo install --locked --quiet cargo-deb --version")
            .argument(CARGO_DEB)
            .argument("--root")
            .argument(&folder)
            .run()?;
    }
    Ok(installed)
}

impl UnpackedPackage {
    fn expect_files(&self) -> Result<()> {
        let missing =
            [UNIT, SETTINGS, COMPLETIONS, PAGE].into_iter().find(|file| !self.0.join(file).exists());
        ensure!(missing.is_none(), "the package lacks {}", missing.unwrap_or_default());
        Ok(())
    }

    /// The command of the unit with its settings, but on these addresses.
    pub(crate) fn serve(&self, listen: SocketAddr, admin_listen: SocketAddr) -> Result<CommandLine> {
        let unit = self.read(UNIT)?;
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/"));
        let mut words = start.context("the unit has no ExecStart")?.split_whitespace();
        let binary = self.0.join(words.next().unwrap_or_default());
        let settings = self.read(SETTINGS)?;
        let settings = settings.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let own = [format!("TOLLGATE_LISTEN={listen}"), format!("TOLLGATE_ADMIN_LISTEN={admin_listen}")];
        Ok(command("env --ignore-environment")
            .arguments(settings)
            .arguments(own)
            .argument(binary)
            .arguments(words))
    }

    fn read(&self, file: impl AsRef<Path>) -> Result<String> {
        let path = self.0.join(file);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }
}
