//! `cargo xtask test`: what has to hold before a change is taken.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::command::{command, program};
use crate::group;
use crate::node;
use crate::prove;
use crate::servers;
use crate::steps::{self, Checked, Step};
use crate::system;

/// What the library may cost a project that adds it, itself included.
const MOST_CRATES: usize = 20;

/// How long the longest step may take, which builds all tests and runs them.
const TESTS_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Runs all steps, each within its time limit multiplied by this.
pub(crate) fn run(patience: u32) -> Result<()> {
    let this = std::env::current_exe().context("cannot find xtask's own program")?;
    let start = |index: usize| program(&this).argument("step").argument(index.to_string());
    steps::run(&steps(), patience, start)
}

/// Runs one of them, in the process that [`run`] starts for it.
pub(crate) fn step(index: usize) -> Result<Checked> {
    let steps = steps();
    let step = steps.get(index).with_context(|| format!("there are {} steps", steps.len()))?;
    group::end_with_parent();
    step.run()
}

fn steps() -> Vec<Step> {
    vec![
        Step::command("format", command("cargo fmt --all --check")),
        Step::command("format of the benches", command("cargo fmt --check --manifest-path bench/Cargo.toml")),
        Step::command(
            "lints",
            command("cargo clippy --locked --workspace --all-targets --all-features -- -D warnings"),
        ),
        Step::command(
            "lints of the library without features",
            command("cargo clippy --locked --package tollgate --no-default-features -- -D warnings"),
        ),
        Step::command(
            "lints of the middleware without features",
            command("cargo clippy --locked --package tollgate-tower --no-default-features -- -D warnings"),
        ),
        Step::check("lints of the middleware with each feature alone", middleware_by_feature),
        Step::check("headers that a peer in the benches needs", || {
            system::OPENSSL.require().map(|()| Checked::Passed)
        }),
        Step::command(
            "lints of the benches",
            command("cargo clippy --locked --manifest-path bench/Cargo.toml --all-targets --all-features")
                .arguments(["--", "-D", "warnings"]),
        ),
        Step::check("servers that the tests start", servers::require),
        Step::check("python for a caller that the tests run", || {
            system::PYTHON.require().map(|()| Checked::Passed)
        }),
        Step::command(
            "tests",
            command("cargo test --locked --workspace --all-features --lib --bins --tests"),
        )
        .within(TESTS_LIMIT),
        Step::check("a minute on the real clock", || {
            // As the tests before are built, so that nothing is built again.
            prove::realtime("dev", 60).map(|()| Checked::Passed)
        }),
        Step::check("older headers as a client on node reads them", node::older_headers),
        Step::command(
            "tests of the library with default features",
            command("cargo test --locked --package tollgate --lib --tests"),
        ),
        Step::command(
            "tests of the benches",
            command("cargo test --locked --manifest-path bench/Cargo.toml --lib"),
        ),
        Step::command("models of the memory store", prove::models()),
        Step::command("doc tests", command("cargo test --locked --workspace --all-features --doc")),
        Step::command(
            "documentation",
            command("cargo doc --locked --no-deps --workspace --all-features")
                .environment("RUSTDOCFLAGS", "-D warnings -D rustdoc::broken_intra_doc_links"),
        ),
        Step::command("examples", command("cargo build --locked --workspace --all-features --examples")),
        Step::check("size of the library's dependency tree", library_stays_small),
        Step::check("licences, bans, sources and advisories", supply_chain),
    ]
}

/// What one feature lacks, another may bring: with all of them it does not show.
fn middleware_by_feature() -> Result<Checked> {
    for feature in ["axum", "jwt", "policy", "tokio", "tonic"] {
        let lints = command("cargo clippy --locked --package tollgate-tower --features")
            .arguments([feature, "--", "-D", "warnings"]);
        eprintln!("$ {lints}");
        lints.run()?;
    }
    Ok(Checked::Passed)
}

fn library_stays_small() -> Result<Checked> {
    let tree = command("cargo tree --locked --package tollgate --no-default-features")
        .arguments(["--edges", "normal,build", "--prefix", "none", "--no-dedupe"])
        .read()?;
    let crates: BTreeSet<&str> = tree.lines().filter(|line| !line.is_empty()).collect();
    let count = crates.len();
    ensure!(count <= MOST_CRATES, "the library brings {count} crates, {MOST_CRATES} are allowed:\n{tree}");
    eprintln!("{count} crates, itself included; {MOST_CRATES} are allowed");
    Ok(Checked::Passed)
}

fn supply_chain() -> Result<Checked> {
    if !command("cargo deny --version").succeeds() {
        eprintln!("not checked, because cargo-deny is not installed: cargo install --locked cargo-deny");
        return Ok(Checked::No);
    }
    command("cargo deny check --hide-inclusion-graph licenses bans sources").run()?;
    if command("cargo deny fetch db").succeeds() {
        command("cargo deny check advisories").run().map(|()| Checked::Passed)
    } else {
        eprintln!("advisories not checked, because their database cannot be fetched: cargo deny fetch db");
        Ok(Checked::No)
    }
}
