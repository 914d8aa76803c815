//! The packages that call the service: the contract is played against each of them in every run of the tests, and their
//! own suites run when something has changed since they last passed.

mod go;
mod java;
mod javascript;
mod list;
mod package;
mod python;
mod stamp;

use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, ensure};
use clap::Args;

use self::list::PACKAGES;
use self::package::ClientPackage;
use self::stamp::SuiteStamp;
use crate::command::{command, target_directory};
use crate::conformance;
use crate::servers;
use crate::steps::CheckOutcome;
use crate::stopwatch::Stopwatch;

/// Says in a step's environment that every suite runs, stamp or not.
pub(crate) const ALL_SUITES: &str = "TOLLGATE_ALL_SUITES";

/// Names a service that is already built, for the suites.
const SERVICE: &str = "TOLLGATE_BINARY";

/// Which suites to run.
#[derive(Debug, Args)]
pub(crate) struct SuiteRun {
    /// Run only these
    #[arg(value_name = "PACKAGE", value_parser = PACKAGES.map(|package| package.name))]
    packages: Vec<String>,
    /// Write the stamps of the suites that pass, so that `test` leaves them out until something changes
    #[arg(long)]
    stamp: bool,
}

impl SuiteRun {
    /// Runs the suites and prints a line for each.
    pub(crate) fn run(&self) -> Result<()> {
        servers::require()?;
        let service = service()?;
        for package in &PACKAGES {
            if !self.packages.is_empty() && !self.packages.iter().any(|name| name == package.name) {
                continue;
            }
            let suite = || run_suite(package, &service);
            if self.stamp {
                SuiteStamp::of_run(package, suite)?.write(package)?;
            } else {
                suite()?;
            }
        }
        Ok(())
    }
}

/// Returns the path of a Python that has the package for Python, and the frameworks of its tests. Installs them.
pub(crate) fn python() -> Result<PathBuf> {
    python::suite_python()
}

/// Returns the folder of the apps on Node, next to the compiled package for JavaScript. Installs what they need.
pub(crate) fn javascript_apps() -> Result<PathBuf> {
    javascript::apps()
}

/// Returns the class path of the apps for Java. Builds them.
pub(crate) fn java_apps() -> Result<String> {
    java::apps()
}

/// Installs what the client programs need, and what the suites need that will run.
pub(crate) fn install() -> Result<CheckOutcome> {
    for package in &PACKAGES {
        (package.install_driver)()?;
        if is_due(package)? {
            (package.install_suite)()?;
        }
    }
    Ok(CheckOutcome::Passed)
}

/// Plays the contract against the client program of every package.
pub(crate) fn play_contract() -> Result<CheckOutcome> {
    let mut failed = Vec::new();
    for package in &PACKAGES {
        for (name, driver) in (package.drivers)()? {
            let report = conformance::play_all(&driver)?;
            eprintln!("{}{name}: {}", report.failures(), report.summary());
            if report.expect_all_passed().is_err() {
                failed.push(name);
            }
        }
    }
    ensure!(failed.is_empty(), "these clients differ from docs/clients.md: {}", failed.join(", "));
    Ok(CheckOutcome::Passed)
}

/// Runs the suites of the packages that have changed since their stamps, or all, after the tests were built.
pub(crate) fn run_due_suites() -> Result<CheckOutcome> {
    let mut outcome = CheckOutcome::No;
    for package in &PACKAGES {
        if is_due(package)? {
            run_suite(package, &built_service()?)?;
            outcome = CheckOutcome::Passed;
        }
    }
    Ok(outcome)
}

/// Returns a line that names what a run of the tests leaves out of the suites, if there is anything.
pub(crate) fn left_out() -> Result<Option<String>> {
    let mut unchanged = Vec::new();
    let mut parts = Vec::new();
    for package in &PACKAGES {
        if !is_due(package)? {
            unchanged.push(package.name);
        } else if let Some(part) = package.only_with_all {
            parts.push((package.name, part));
        }
    }
    Ok(left_out_line(&unchanged, &parts))
}

fn left_out_line(unchanged: &[&str], parts: &[(&str, &str)]) -> Option<String> {
    let mut left_out: Vec<String> =
        parts.iter().map(|(name, part)| format!("of the suite of {name}, {part}")).collect();
    if !unchanged.is_empty() {
        left_out.insert(0, format!("suites of {} (unchanged since their stamps)", unchanged.join(", ")));
    }
    (!left_out.is_empty())
        .then(|| format!("not run: {} (`cargo xtask test --all` runs them)", left_out.join("; ")))
}

fn is_due(package: &ClientPackage) -> Result<bool> {
    let runs_all = std::env::var_os(ALL_SUITES).is_some();
    Ok(runs_all || SuiteStamp::read(package)? != Some(SuiteStamp::of(package)?))
}

fn run_suite(package: &ClientPackage, service: &Path) -> Result<()> {
    let watch = Stopwatch::start();
    (package.install_driver)()?;
    (package.install_suite)()?;
    for line in (package.suite)()? {
        eprintln!("$ {line}");
        let line = line.environment(SERVICE, service.display().to_string());
        line.run().with_context(|| format!("the suite of the package for {}", package.name))?;
    }
    eprintln!("{:>6.1} s  suite of {}: passed", watch.elapsed().as_secs_f64(), package.name);
    Ok(())
}

/// Returns the path of a service that is built now, unless the environment names another.
pub(crate) fn service() -> Result<PathBuf> {
    if std::env::var_os(SERVICE).is_none() {
        command("cargo build --locked --package tollgate-server --all-features --bin tollgate").run()?;
    }
    built_service()
}

/// Returns the path of the service that the environment names, or of the one that was built with the tests.
pub(crate) fn built_service() -> Result<PathBuf> {
    let named = std::env::var_os(SERVICE).map(PathBuf::from);
    let path =
        named.map_or_else(|| Ok(target_directory()?.join("debug").join("tollgate")), Ok::<_, Error>)?;
    // The suites run in other folders.
    path.canonicalize().with_context(|| format!("there is no service at {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_client_is_in_the_list() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        for entry in fs::read_dir(format!("{root}/clients")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(PACKAGES.iter().any(|package| package.folder == format!("clients/{name}")), "{name}");
        }
        for package in &PACKAGES {
            assert!(Path::new(root).join(package.folder).is_dir(), "{}", package.folder);
        }
    }

    #[test]
    fn the_last_line_names_the_suites_that_did_not_run() {
        let unchanged = "suites of python, go (unchanged since their stamps)";
        let part = "of the suite of java, newer versions of Spring";
        let all = "(`cargo xtask test --all` runs them)";
        let java = [("java", java::ONLY_WITH_ALL)];
        assert_eq!(left_out_line(&["python", "go"], &[]).unwrap(), format!("not run: {unchanged} {all}"));
        assert_eq!(left_out_line(&[], &java).unwrap(), format!("not run: {part} {all}"));
        assert_eq!(
            left_out_line(&["python", "go"], &java).unwrap(),
            format!("not run: {unchanged}; {part} {all}")
        );
        assert_eq!(left_out_line(&[], &[]), None);
    }
}
