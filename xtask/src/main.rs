//! `cargo xtask`: the tests, benches and proofs of Tollgate, each one command.
//!
//! Commands of other programs are said in `command`, and lists of them are run by `steps`, each in a process group that
//! `group` ends when it takes too long.

mod bench;
mod command;
mod group;
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

use crate::steps::Checked;

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
    Test {
        /// Multiplies all time limits, for a machine that is slower than two cores of a server
        #[arg(long, value_name = "FACTOR", default_value_t = 1)]
        patience: u32,
    },
    /// Run one step of the tests, as `test` does for each
    #[command(hide = true)]
    Step {
        #[arg(value_name = "INDEX")]
        index: usize,
    },
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
        Ok(Checked::Passed) => ExitCode::SUCCESS,
        Ok(Checked::No) => ExitCode::from(steps::NOT_CHECKED),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<Checked> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::set_current_dir(&root).with_context(|| format!("cannot go to {}", root.display()))?;
    match task {
        Task::Test { patience } => test::run(patience)?,
        Task::Step { index } => return test::step(index),
        Task::Servers => return servers::require(),
        Task::Bench { bench } => bench.run()?,
        Task::Prove { proof } => proof.run()?,
    }
    Ok(Checked::Passed)
}
