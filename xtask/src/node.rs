//! What clients on node read of us: a parser from npm, of the version and content that its lock file names.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command::{command, target_directory};
use crate::steps::Checked;

/// Where the parser's manifest and lock file are, and the script that uses it.
const SOURCE: &str = "crates/tollgate-tower/tests/node";

/// Has the older headers of the middleware read.
pub(crate) fn older_headers() -> Result<Checked> {
    if !command("npm --version").succeeds() || !command("node --version").succeeds() {
        eprintln!("not checked, because node and npm are not installed: sudo apt-get install npm");
        return Ok(Checked::No);
    }
    let directory = target_directory()?.join("node");
    fs::create_dir_all(&directory)?;
    for name in ["package.json", "package-lock.json", "read.mjs"] {
        let source = Path::new(SOURCE).join(name);
        fs::copy(&source, directory.join(name))
            .with_context(|| format!("cannot copy {}", source.display()))?;
    }
    // Fails where a package is not what the lock file says.
    let install =
        command("npm ci --ignore-scripts --no-audit --no-fund --prefer-offline").directory(directory.clone());
    if let Err(error) = install.run() {
        if command("npm ping").succeeds() {
            bail!(error);
        }
        eprintln!("not checked, because the registry of npm cannot be reached: npm ping");
        return Ok(Checked::No);
    }
    // Built by the tests before.
    command("cargo test --locked --workspace --all-features --test older_headers")
        .environment("TOLLGATE_READ_HEADERS", directory.join("read.mjs").to_string_lossy())
        .arguments(["--", "--ignored"])
        .run()
        .map(|()| Checked::Passed)
}
