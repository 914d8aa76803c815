//! The package for Python.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::command::{CommandLine, program, target_directory};
use crate::tools;

pub(super) const FOLDER: &str = "clients/python";

/// What the tests need, in exact versions and with their digests.
const REQUIREMENTS: &str = "clients/python/requirements.txt";

/// The packages among them that the client itself needs.
const NEEDED: [&str; 1] = ["h11"];

/// Installs what the client needs. The suite needs twenty times as much, so it has an environment of its own.
pub(super) fn install_driver() -> Result<()> {
    let all = fs::read_to_string(REQUIREMENTS).with_context(|| format!("cannot read {REQUIREMENTS}"))?;
    let needed = requirements(&all, &NEEDED);
    ensure!(needed.lines().any(|line| line.contains("--hash=")), "{REQUIREMENTS} does not pin {NEEDED:?}");
    fs::create_dir_all(driver_folder()?)?;
    let file = driver_folder()?.join("requirements.txt");
    fs::write(&file, needed).with_context(|| format!("cannot write {}", file.display()))?;
    tools::install_into(&driver_folder()?, &file)
}

pub(super) fn driver() -> Result<CommandLine> {
    let python =
        program(&driver_folder()?.join("bin/python")).argument("clients/python/tests/conformance.py");
    Ok(without_traces(python).environment("PYTHONPATH", "clients/python/src"))
}

pub(super) fn install_suite() -> Result<()> {
    tools::install_into(&suite_folder()?, REQUIREMENTS.as_ref())?;
    // As users install it, with its entry points.
    program(&suite_folder()?.join("bin/python"))
        .arguments(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall"])
        .arguments(["--no-deps", "--no-build-isolation", "--no-index", FOLDER])
        .run()
}

pub(super) fn suite() -> Result<Vec<CommandLine>> {
    let folder = std::env::current_dir()?.join(FOLDER);
    let python = || {
        let python = suite_folder().map(|folder| program(&folder.join("bin/python")))?;
        Ok::<_, anyhow::Error>(without_traces(python).directory(folder.clone()))
    };
    Ok(vec![python()?.arguments(["-m", "pytest", "-p", "no:cacheprovider", "--quiet"])])
}

/// Leaves no files in the folder of the sources.
fn without_traces(python: CommandLine) -> CommandLine {
    python.environment("PYTHONDONTWRITEBYTECODE", "1")
}

fn driver_folder() -> Result<PathBuf> {
    Ok(target_directory()?.join("clients/python-driver"))
}

fn suite_folder() -> Result<PathBuf> {
    Ok(target_directory()?.join("clients/python-suite"))
}

/// Returns the requirements of these packages, each with the lines that continue it.
fn requirements(all: &str, names: &[&str]) -> String {
    let mut chosen = String::new();
    let (mut is_chosen, mut continues) = (false, false);
    for line in all.lines() {
        if !continues {
            let name = line.split("==").next().unwrap_or_default();
            is_chosen = names.contains(&name);
        }
        continues = line.ends_with('\\');
        if is_chosen {
            chosen.push_str(line);
            chosen.push('\n');
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_comes_with_its_digests_and_without_others() {
        let all = "# made by a tool\nanyio==4.0 \\\n    --hash=sha256:1\n    # via httpx\nh11==0.16.0 \\\n    --hash=sha256:2 \\\n    --hash=sha256:3\n    # via uvicorn\nh11-more==1.0 \\\n    --hash=sha256:4\n";
        assert_eq!(
            requirements(all, &NEEDED),
            "h11==0.16.0 \\\n    --hash=sha256:2 \\\n    --hash=sha256:3\n"
        );
    }
}
