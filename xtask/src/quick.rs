//! `cargo xtask quick`: format, lints and tests of the crates that a change touches.
//!
//! A change of a crate's public interface can break the crates that depend on it, so those are linted too. Their tests
//! are left to `cargo xtask test`, like everything outside the crates.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::binaries;
use crate::command::{CommandLine, command};
use crate::repository;
use crate::servers;
use crate::workspace::Workspace;

/// Checks the changes since this commit, or since the last one. If nothing has changed, checks the last commit.
pub(crate) fn run(since: Option<&str>) -> Result<()> {
    let changed = changed_files(since)?;
    let workspace = Workspace::read()?;
    let touched = workspace.touched(&changed, &std::env::current_dir()?.canonicalize()?);
    eprintln!("{} changed files, in {}", changed.len(), listed(&touched));
    command("cargo fmt --all --check").run()?;
    if touched.is_empty() {
        return Ok(());
    }
    let linted = workspace.with_dependents(&touched);
    let lints = packages(command("cargo clippy --locked --all-targets --all-features"), &linted);
    run_line(&lints.arguments(["--", "-D", "warnings"]))?;
    // The tests of these three start servers.
    if ["tollgate-redis", "tollgate-server", "tollgate-testkit"].iter().any(|name| touched.contains(name)) {
        servers::require()?;
    }
    binaries::run(&binaries::build(&packages(command("cargo test --locked --all-features"), &touched))?)?;
    eprintln!("passed for {}; `cargo xtask test` checks the rest", listed(&touched));
    Ok(())
}

fn run_line(line: &CommandLine) -> Result<()> {
    eprintln!("$ {line}");
    line.run()
}

fn packages(line: CommandLine, names: &BTreeSet<&str>) -> CommandLine {
    names.iter().fold(line, |line, name| line.arguments(["--package", name]))
}

fn listed(names: &BTreeSet<&str>) -> String {
    if names.is_empty() {
        "no crate".to_owned()
    } else {
        names.iter().copied().collect::<Vec<_>>().join(", ")
    }
}

/// Returns the paths, from the root, of new and changed files.
fn changed_files(since: Option<&str>) -> Result<Vec<String>> {
    let diff =
        |base: &str| repository::paths(&command("git diff --name-only --no-renames").argument(base), &[]);
    let mut changed = diff(since.unwrap_or("HEAD"))?;
    changed.extend(repository::paths(&command("git ls-files --others --exclude-standard"), &[])?);
    if changed.is_empty() && since.is_none() {
        changed = diff("HEAD~1")?;
    }
    Ok(changed)
}
