//! `cargo xtask test`: every check that a change must pass.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;

use crate::binaries;
use crate::clients;
use crate::command::{CommandLine, command, program, target_directory};
use crate::docs;
use crate::group;
use crate::house;
use crate::instructions;
use crate::lints;
use crate::live_page;
use crate::node;
use crate::proof_tests;
use crate::proxies;
use crate::servers;
use crate::steps::{self, CheckOutcome, Step};
use crate::system;
use crate::tools;

/// The most crates that the library may add to a project, itself included.
const MOST_CRATES: usize = 20;

/// How to run all steps.
#[derive(Debug, Args)]
pub(crate) struct TestRun {
    /// Multiplies all time limits, for a machine that is slower than two cores of a server
    #[arg(long, value_name = "FACTOR", default_value_t = 1)]
    patience: u32,
    /// Run the suites of all clients too, also those that are unchanged since they passed
    #[arg(long)]
    all: bool,
}

impl TestRun {
    /// Runs all steps, each within its time limit times `patience`. Prints which suites of clients did not run.
    pub(crate) fn run(&self) -> Result<()> {
        let more = [system::NODE, system::PYTHON, system::PYTHON_VENV, system::VALGRIND];
        let clients = [system::GO_WITH_TOOLCHAINS, system::MAVEN];
        system::announce(&[&servers::ALL[..], &more, &clients].concat())?;
        let this = std::env::current_exe().context("cannot find xtask's own program")?;
        // Without incremental builds and debug information, which take a third of the time of a first build and are
        // useless to it. Two cores are busy with a crate each, and a crate as one unit takes a tenth less.
        let start = |index: usize| {
            let step = program(&this)
                .argument("step")
                .argument(index.to_string())
                .environment("CARGO_INCREMENTAL", "0")
                .environment("CARGO_PROFILE_DEV_DEBUG", "0")
                .environment("CARGO_PROFILE_DEV_CODEGEN_UNITS", "1");
            if self.all { step.environment(clients::ALL_SUITES, "1") } else { step }
        };
        steps::run(&steps(), self.patience, start)?;
        let left_out = if self.all { None } else { clients::left_out()? };
        left_out.into_iter().for_each(|line| eprintln!("{line}"));
        Ok(())
    }
}

/// Runs one step, in the process that [`TestRun::run`] starts for it.
pub(crate) fn step(index: usize) -> Result<CheckOutcome> {
    let steps = steps();
    let step = steps.get(index).with_context(|| format!("there are {} steps", steps.len()))?;
    group::end_with_parent();
    step.run()
}

fn steps() -> Vec<Step> {
    vec![
        Step::command("format", command("cargo fmt --all --check")),
        Step::command(
            "format of the benches",
            command("cargo fmt --all --check --manifest-path bench/Cargo.toml"),
        ),
        Step::check("house", house::check),
        Step::check("servers", servers::require).beside(),
        Step::check("python", || system::PYTHON.require().map(|()| CheckOutcome::Passed)).beside(),
        Step::check("node", node::install).beside(),
        Step::check("supply chain", supply_chain).beside(),
        Step::check("advisories", advisories).beside(),
        Step::check("manual", docs::check_and_build).beside(),
        Step::check("boundary picture", node::boundary_picture).beside(),
        Step::check("proxies", proxies::install).beside(),
        Step::check("client packages", clients::install).beside(),
        Step::check("conformance", clients::play_contract).beside(),
        Step::check("test build", build_tests),
        Step::check("tests", run_tests).beside().after("test build"),
        Step::check("gateway", ask_through_proxies).beside(),
        Step::check("real clock", charge_on_the_real_clock).beside(),
        Step::check("older headers", older_headers).beside(),
        Step::check("report page", report_page).beside(),
        Step::check("live page", live_page::check).beside(),
        Step::check("clients", clients::run_due_suites).beside(),
        Step::command(
            "doc tests",
            lints::with_lints(command("cargo test --locked --workspace --all-features --doc")),
        ),
        Step::command(
            "documentation",
            lints::with_lints(command(
                "cargo doc --locked --no-deps --workspace --all-features --lib --bins --example in_process",
            ))
            .environment("RUSTDOCFLAGS", "-D warnings -D rustdoc::broken_intra_doc_links"),
        ),
        Step::command("examples", lints::examples_and_benches()),
        Step::check("features", || lints::features().map(|()| CheckOutcome::Passed)),
        Step::command("models", proof_tests::models()).beside(),
        Step::command("simulation", proof_tests::some_simulation()).beside(),
        Step::check("library size", library_stays_small),
        Step::check("instructions", instructions::check_libraries),
    ]
}

/// Builds and lints all tests, and keeps the list of their binaries for [`run_tests`], because other steps hold cargo's
/// lock on the target directory then. Examples are linted, but not linked, which would take as long as the tests of a
/// crate.
fn build_tests() -> Result<CheckOutcome> {
    let tests = command("cargo test --locked --workspace --all-features --lib --bins --tests");
    let messages = binaries::build(&lints::with_lints(tests))?;
    fs::write(test_binaries()?, messages).context("cannot keep the list of test binaries")?;
    Ok(CheckOutcome::Passed)
}

fn run_tests() -> Result<CheckOutcome> {
    let messages = fs::read_to_string(test_binaries()?).context("cannot read the list of test binaries")?;
    binaries::run(&messages).map(|()| CheckOutcome::Passed)
}

/// Lets a parser on node read the middleware's older headers.
fn older_headers() -> Result<CheckOutcome> {
    let script = node::header_reader()?;
    run_ignored("middleware", "older_headers", "TOLLGATE_READ_HEADERS", &script)
}

/// Lets a browser open a report.
fn report_page() -> Result<CheckOutcome> {
    let script = node::page_viewer()?;
    run_ignored("page", "", "TOLLGATE_LOOK_AT_PAGE", &script)
}

/// Runs the ignored tests of a target that have this name, with a script for them in this variable.
fn run_ignored(target: &str, name: &str, variable: &'static str, script: &Path) -> Result<CheckOutcome> {
    let messages = fs::read_to_string(test_binaries()?).context("cannot read the list of test binaries")?;
    let tests = binaries::commands(&messages, target);
    ensure!(tests.len() == 1, "there are {} test targets of the name {target}", tests.len());
    tests.into_iter().try_for_each(|tests| {
        tests.environment(variable, script.to_string_lossy()).arguments([name, "--ignored"]).run()
    })?;
    Ok(CheckOutcome::Passed)
}

/// Runs the tests that real proxies take part in.
fn ask_through_proxies() -> Result<CheckOutcome> {
    let messages = fs::read_to_string(test_binaries()?).context("cannot read the list of test binaries")?;
    let tests = binaries::commands(&messages, "gateway");
    ensure!(tests.len() == 1, "the tests with proxies are those of the service");
    // The first judges times.
    let but = ["--skip", "prove_under_load", "--skip", proxies::OVER_XDS];
    tests.into_iter().try_for_each(|tests| proxies::with_proxies(tests)?.arguments(but).run())?;
    Ok(CheckOutcome::Passed)
}

/// Runs the tests on the real clock for ten seconds: the library's and the service's at the same time, because each uses
/// all the processor time that it gets.
fn charge_on_the_real_clock() -> Result<CheckOutcome> {
    let messages = fs::read_to_string(test_binaries()?).context("cannot read the list of test binaries")?;
    let tests: Vec<CommandLine> = binaries::commands(&messages, "realtime")
        .into_iter()
        .map(|test| test.environment("TOLLGATE_SECONDS", "10").arguments(["--ignored", "--nocapture"]))
        .collect();
    thread::scope(|scope| {
        let running: Vec<_> = tests.iter().map(|test| scope.spawn(|| test.run())).collect();
        ensure!(
            running.len() == 2,
            "the tests on the real clock are those of the library and of the service"
        );
        running
            .into_iter()
            .try_for_each(|test| test.join().map_err(|_| anyhow!("a test was lost sight of"))?)
    })?;
    Ok(CheckOutcome::Passed)
}

fn test_binaries() -> Result<PathBuf> {
    Ok(target_directory()?.join("test-binaries.json"))
}

fn library_stays_small() -> Result<CheckOutcome> {
    let tree = command("cargo tree --locked --package tollgate --no-default-features")
        .arguments(["--edges", "normal,build", "--prefix", "none", "--no-dedupe"])
        .read()?;
    let crates: BTreeSet<&str> = tree.lines().filter(|line| !line.is_empty()).collect();
    let count = crates.len();
    ensure!(count <= MOST_CRATES, "the library brings {count} crates, {MOST_CRATES} are allowed:\n{tree}");
    eprintln!("{count} crates, itself included; {MOST_CRATES} are allowed");
    Ok(CheckOutcome::Passed)
}

/// Checks licences, bans and sources of the product's dependencies.
fn supply_chain() -> Result<CheckOutcome> {
    deny("check --hide-inclusion-graph licenses bans sources")?.run().map(|()| CheckOutcome::Passed)
}

/// Checks the product's dependencies for known vulnerabilities, if the database is reachable.
fn advisories() -> Result<CheckOutcome> {
    if !deny("fetch db")?.succeeds() {
        eprintln!("not checked, because the database of advisories cannot be fetched");
        return Ok(CheckOutcome::No);
    }
    deny("check advisories")?.run().map(|()| CheckOutcome::Passed)
}

fn deny(words: &str) -> Result<CommandLine> {
    Ok(program(&tools::tool("cargo-deny")?).arguments(words.split_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_about_the_tests_lists_every_step() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/proofs.md");
        let page = fs::read_to_string(page).unwrap();
        let (_, table) = page.split_once("\n| Step | Checks |\n|---|---|\n").unwrap();
        let rows = table.lines().map_while(|row| row.strip_prefix("| ")?.split(" | ").next());
        let listed: BTreeSet<&str> = rows.flat_map(|names| names.split(", ")).collect();
        let run: BTreeSet<&str> = steps().iter().map(Step::name).collect();
        assert_eq!(listed, run);
    }
}
