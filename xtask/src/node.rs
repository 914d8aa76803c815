//! A client of ours on node: a parser of headers from npm, with the version and content that its lock file names.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{command, target_directory};
use crate::steps::Checked;
use crate::system;

/// Where the parser's manifest, its lock file and the script that uses it are.
const SOURCE: &str = "crates/tollgate-tower/tests/node";

/// Installs the parser under the target directory, and node where it is missing.
pub(crate) fn install() -> Result<Checked> {
    system::NODE.require()?;
    let directory = directory()?;
    fs::create_dir_all(&directory)?;
    for name in ["package.json", "package-lock.json", "read.mjs"] {
        let source = Path::new(SOURCE).join(name);
        fs::copy(&source, directory.join(name))
            .with_context(|| format!("cannot copy {}", source.display()))?;
    }
    // Fails where a package is not what the lock file says.
    command("npm ci --ignore-scripts --no-audit --no-fund --prefer-offline").directory(directory).run()?;
    Ok(Checked::Passed)
}

/// Has the parser read the older headers of the middleware.
pub(crate) fn older_headers() -> Result<Checked> {
    // Built by the tests before.
    command("cargo test --locked --workspace --all-features --test middleware older_headers")
        .environment("TOLLGATE_READ_HEADERS", directory()?.join("read.mjs").to_string_lossy())
        .arguments(["--", "--ignored"])
        .run()
        .map(|()| Checked::Passed)
}

fn directory() -> Result<PathBuf> {
    Ok(target_directory()?.join("node"))
}
