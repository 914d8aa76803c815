//! `cargo xtask`: the tests, benches and proofs of Tollgate.
//!
//! `command` runs other programs. `steps` runs lists of them in two lanes, each in a process group that `group` ends
//! when it takes too long.

mod bench;
mod binaries;
mod clients;
mod command;
mod conformance;
mod debian;
mod deploy;
mod dist;
mod docs;
mod group;
mod house;
mod install;
mod instructions;
mod lints;
mod live_page;
mod node;
mod planted;
mod proof_tests;
mod prove;
mod prove_all;
mod prove_clients;
mod proxies;
mod publish;
mod quick;
mod repository;
mod servers;
mod service;
mod sizing;
mod steps;
mod stopwatch;
mod system;
mod test;
mod tools;
mod unpacked;
mod upgrade;
mod workspace;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use crate::steps::CheckOutcome;

/// Tests, benches and proofs of Tollgate.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check the crates that a change touches: format, lints, tests
    Quick {
        /// The commit that the change begins after; by default the last one, or the one before if nothing has changed
        /// since
        #[arg(long, value_name = "COMMIT")]
        since: Option<String>,
    },
    /// Run every check, as CI does
    Test(test::TestRun),
    /// Run one step of `test`
    #[command(hide = true)]
    Step {
        #[arg(value_name = "INDEX")]
        index: usize,
    },
    /// Run the test suites of the clients
    Clients(clients::SuiteRun),
    /// Play the contract of clients, docs/clients.md, against a client program
    Conformance(conformance::ConformanceRun),
    /// Build the manual as a website with search
    Docs {
        /// Build nothing: check links, anchors and words of all pages, and print how the prose reads
        #[arg(long)]
        check: bool,
    },
    /// Check the rules about modules, names, tests and comments that no lint has
    House,
    /// Build the static binary, its manual pages and its completions, for packages and images
    Dist,
    /// Install the servers that tests start, if they are missing
    Servers,
    /// Compute the cores and the memory that a load takes, as docs/sizing.md does
    Sizing(sizing::Load),
    /// Measure, and print one RESULT line for each figure
    Bench {
        #[command(subcommand)]
        bench: bench::Bench,
    },
    /// Search for violations in ways that take longer than a test may
    #[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
    Prove {
        /// Run every proof in turn and print a table of their RESULT lines
        #[arg(long)]
        all: bool,
        /// With --all: search for a few minutes only, to see that every proof runs
        #[arg(long, requires = "all")]
        brief: bool,
        #[command(subcommand)]
        proof: Option<prove::Proof>,
    },
}

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(CheckOutcome::Passed) => ExitCode::SUCCESS,
        Ok(CheckOutcome::No) => ExitCode::from(steps::NOT_CHECKED),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<CheckOutcome> {
    let directory = std::env::current_dir().context("cannot find the current directory")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::set_current_dir(&root).with_context(|| format!("cannot go to {}", root.display()))?;
    match task {
        Task::Quick { since } => quick::run(since.as_deref())?,
        Task::Test(test) => test.run()?,
        Task::Step { index } => return test::step(index),
        Task::Clients(suites) => suites.run()?,
        Task::Conformance(conformance) => conformance.run(&directory)?,
        Task::Docs { check: true } => return docs::check(),
        Task::Docs { check: false } => docs::build()?,
        Task::House => return house::check(),
        Task::Dist => println!("{}", dist::build()?.display()),
        Task::Servers => return servers::require(),
        Task::Sizing(load) => load.print()?,
        Task::Bench { bench } => return bench.run(),
        Task::Prove { proof: Some(proof), .. } => proof.run()?,
        Task::Prove { brief, .. } => prove_all::run(brief)?,
    }
    Ok(CheckOutcome::Passed)
}
