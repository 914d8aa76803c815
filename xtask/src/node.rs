//! Tests on node, with packages from npm in the versions and with the content that lock files name.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{command, target_directory};
use crate::steps::Checked;
use crate::system;

/// A script with its manifest and its lock file.
struct Tool {
    source: &'static str,
    script: &'static str,
}

/// Reads headers by a parser of others.
const HEADERS: Tool = Tool { source: "crates/tollgate-tower/tests/node", script: "read.mjs" };

/// Looks at a report in a browser, with the rules of axe-core.
const PAGE: Tool = Tool { source: "crates/tollgate-simulate/tests/page", script: "look.mjs" };

/// Installs the packages under the target directory, and node if it is missing.
pub(crate) fn install() -> Result<Checked> {
    system::NODE.require()?;
    [HEADERS, PAGE].iter().try_for_each(Tool::install)?;
    Ok(Checked::Passed)
}

/// Lets the parser read the middleware's older headers.
pub(crate) fn older_headers() -> Result<Checked> {
    // Earlier tests have built it.
    command("cargo test --locked --workspace --all-features --test middleware older_headers")
        .environment("TOLLGATE_READ_HEADERS", HEADERS.installed()?.to_string_lossy())
        .arguments(["--", "--ignored"])
        .run()
        .map(|()| Checked::Passed)
}

/// Lets the browser open a report.
pub(crate) fn report_page() -> Result<Checked> {
    // Earlier tests have built it.
    command("cargo test --locked --workspace --all-features --test page")
        .environment("TOLLGATE_LOOK_AT_PAGE", PAGE.installed()?.to_string_lossy())
        .arguments(["--", "--ignored"])
        .run()
        .map(|()| Checked::Passed)
}

impl Tool {
    fn install(&self) -> Result<()> {
        let directory = self.directory()?;
        fs::create_dir_all(&directory)?;
        for name in ["package.json", "package-lock.json", self.script] {
            let source = Path::new(self.source).join(name);
            fs::copy(&source, directory.join(name))
                .with_context(|| format!("cannot copy {}", source.display()))?;
        }
        // Fails if a package differs from the lock file.
        command("npm ci --ignore-scripts --no-audit --no-fund --prefer-offline").directory(directory).run()
    }

    /// Where the script lies beside its packages.
    fn installed(&self) -> Result<PathBuf> {
        Ok(self.directory()?.join(self.script))
    }

    fn directory(&self) -> Result<PathBuf> {
        let name = Path::new(self.source).file_name().context("a folder has a name")?;
        Ok(target_directory()?.join(name))
    }
}
