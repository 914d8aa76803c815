//! Tests on node, with packages from npm in the versions and with the content that lock files name.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::command::{command, target_directory};
use crate::steps::CheckOutcome;
use crate::system;

/// Scripts with the manifest and the lock file of their packages.
struct Tool {
    source: &'static str,
    /// The first is in the same folder.
    scripts: &'static [&'static str],
}

/// Reads headers by a parser of others.
const HEADERS: Tool = Tool { source: "crates/tollgate-tower/tests/node", scripts: &["read.mjs"] };

/// Looks at a report in a browser, with the rules of axe-core, and at the picture of the boundary burst.
const PAGE: Tool =
    Tool { source: "crates/tollgate-simulate/tests/page", scripts: &["look.mjs", BOUNDARY_PICTURE] };

/// From the folder of the report's script.
const BOUNDARY_PICTURE: &str = "../../../../docs/pictures/look_at_burst.mjs";

/// Installs the packages under the target directory, and node if it is missing.
pub(crate) fn install() -> Result<CheckOutcome> {
    system::NODE.require()?;
    [HEADERS, PAGE].iter().try_for_each(Tool::install)?;
    Ok(CheckOutcome::Passed)
}

/// Returns the path of the script that reads headers.
pub(crate) fn header_reader() -> Result<PathBuf> {
    HEADERS.installed()
}

/// Returns the path of the script that opens a report in a browser.
pub(crate) fn page_viewer() -> Result<PathBuf> {
    PAGE.installed()
}

/// Returns the folder with the packages that drive a browser, axe-core, and the compiler of TypeScript.
pub(crate) fn page_packages() -> Result<PathBuf> {
    PAGE.directory()?.canonicalize().context("the packages of the browser are not installed")
}

/// Lets the browser open the interactive picture of `docs/choosing.md`.
pub(crate) fn boundary_picture() -> Result<CheckOutcome> {
    let script = PAGE.directory()?.join(file_name(BOUNDARY_PICTURE)?);
    let page = std::env::current_dir()?.join("docs/choosing.md");
    let wrong = command("node").argument(&script).argument(&page).read()?;
    ensure!(wrong.trim() == "[]", "the picture of the boundary burst: {wrong}");
    Ok(CheckOutcome::Passed)
}

fn file_name(path: &str) -> Result<&OsStr> {
    Path::new(path).file_name().with_context(|| format!("{path} names no file"))
}

impl Tool {
    fn install(&self) -> Result<()> {
        let directory = self.directory()?;
        fs::create_dir_all(&directory)?;
        for name in ["package.json", "package-lock.json"].iter().chain(self.scripts) {
            let source = Path::new(self.source).join(name);
            fs::copy(&source, directory.join(file_name(name)?))
                .with_context(|| format!("cannot copy {}", source.display()))?;
        }
        // Fails if a package differs from the lock file.
        command("npm ci --ignore-scripts --no-audit --no-fund --prefer-offline").directory(directory).run()
    }

    /// Returns the path of the first script, in the folder of its packages.
    fn installed(&self) -> Result<PathBuf> {
        Ok(self.directory()?.join(self.scripts[0]))
    }

    fn directory(&self) -> Result<PathBuf> {
        let name = Path::new(self.source).file_name().context("a folder has a name")?;
        Ok(target_directory()?.join(name))
    }
}
