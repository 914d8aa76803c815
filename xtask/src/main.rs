//! `cargo xtask`: the tests, benches and proofs of Tollgate, each one command.
//!
//! Commands of other programs are said in `command`, and lists of them are run by `steps`.

mod bench;
mod command;
mod node;
mod prove;
mod servers;
mod service;
mod steps;
mod stopwatch;
mod system;
mod test;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// Tests, benches and proofs of Tollgate.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run everything that a contributor and CI run
    Test,
    /// Install the servers that tests start, where they are missing
    Servers,
    /// Measure, and print one RESULT line for each figure
    Bench {
        #[command(subcommand)]
        bench: bench::Bench,
    },
    /// Look for violations in ways that take longer than a test may
    Prove {
        #[command(subcommand)]
        proof: prove::Proof,
    },
}

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::set_current_dir(&root).with_context(|| format!("cannot go to {}", root.display()))?;
    match task {
        Task::Test => test::run(),
        Task::Servers => servers::require().map(|_| ()),
        Task::Bench { bench } => bench.run(),
        Task::Prove { proof } => proof.run(),
    }
}
