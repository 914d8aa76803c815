//! A client on node: a parser of headers from npm, with the version and content that its lock file names.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{command, target_directory};
use crate::steps::Checked;
use crate::system;

/// The folder of the parser's manifest, its lock file and the script that uses it.
const SOURCE: &str = "crates/tollgate-tower/tests/node";

/// Installs the parser under the target directory, and node if it is missing.
pub(crate) fn install() -> Result<Checked> {
    system::NODE.require()?;
    let directory = directory()?;
    fs::create_dir_all(&directory)?;
    for name in ["package.json", "package-lock.json", "read.mjs"] {
        let source = Path::new(SOURCE).join(name);
        fs::copy(&source, directory.join(name))
            .with_context(|| format!("cannot copy {}", source.display()))?;
    }
    // Fails if a package differs from the lock file.
    command("npm ci --ignore-scripts --no-audit --no-fund --prefer-offline").directory(directory).run()?;
    Ok(Checked::Passed)
}

/// Lets the parser read the middleware's older headers.
pub(crate) fn older_headers() -> Result<Checked> {
    // Earlier tests have built it.
    command("cargo test --locked --workspace --all-features --test middleware older_headers")
        .environment("TOLLGATE_READ_HEADERS", directory()?.join("read.mjs").to_string_lossy())
        .arguments(["--", "--ignored"])
        .run()
        .map(|()| Checked::Passed)
}

fn directory() -> Result<PathBuf> {
    Ok(target_directory()?.join("node"))
}
