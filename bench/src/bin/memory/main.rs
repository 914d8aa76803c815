//! Decisions a second of limiters in one process.
//!
//! All limiters are built and filled first. Then each round measures every case with every contestant in turn, so that
//! a disturbance of the machine affects all of them. The figure is the median of the rounds.

mod cases;
mod cell;

use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use tollgate_bench_harness::samples::{Samples, figure};
use tollgate_bench_harness::stopwatch::Stopwatch;

use self::cases::{Case, Others, cases};

/// Measures decisions a second of limiters in one process, compared with their peers.
#[derive(Debug, Parser)]
struct Args {
    /// Measure only cases whose name contains this
    filter: Option<String>,
    /// Rounds; the figure is their median
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Length of one measurement in milliseconds
    #[arg(long, default_value_t = 300)]
    millis: u64,
    /// Measure other crates, and maps used by hand, as well: the table gets their rows, the run takes six times as
    /// long
    #[arg(long)]
    peers: bool,
    /// Two rounds of 50 ms: shows that the bench runs, not how fast anything is
    #[arg(long)]
    quick: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let (rounds, millis) = if args.quick { (2, 50) } else { (args.rounds, args.millis) };
    let others = if args.peers { Others::Peers } else { Others::Nobody };
    let cases = cases(args.filter.as_deref().unwrap_or_default(), others)?;
    let samples = measure(&cases, rounds, Duration::from_millis(millis))?;
    for (case, case_samples) in cases.iter().zip(&samples) {
        let one_thread = case.with_one_thread(&cases).and_then(|index| samples.get(index)?.first());
        print_result(case, case_samples, one_thread);
    }
    print_table(&cases, &samples);
    Ok(())
}

/// Returns millions of decisions a second, for each case and contestant.
fn measure(cases: &[Case], rounds: u32, length: Duration) -> Result<Vec<Vec<Samples>>> {
    let mut samples: Vec<Vec<Samples>> =
        cases.iter().map(|case| vec![Samples::default(); case.contestants().len()]).collect();
    for round in 1..=rounds {
        let watch = Stopwatch::start();
        for (case, samples) in cases.iter().zip(&mut samples) {
            for ((name, contestant), samples) in case.contestants().iter().zip(samples) {
                samples.push(cell::measure(case, name, contestant.as_ref(), length)? / 1e6);
            }
        }
        eprintln!("round {round} of {rounds}: {:.1} s", watch.elapsed().as_secs_f64());
    }
    Ok(samples)
}

/// Prints ours compared with the first of the others, and with two threads also compared with ours on one thread, if
/// that was measured.
fn print_result(case: &Case, samples: &[Samples], one_thread: Option<&Samples>) {
    let mut named = case.contestants().iter().map(|(name, _)| *name).zip(samples.iter().map(Samples::median));
    if let (Some((_, ours)), Some((other, others))) = (named.next(), named.next()) {
        let ratio = figure(ours / others);
        let scaling = one_thread.map(|one| format!(" scaling={}", figure(ours / one.median())));
        let scaling = scaling.unwrap_or_default();
        println!(
            "RESULT {} ours={} {other}={} ratio={ratio}{scaling}",
            case.name,
            figure(ours),
            figure(others)
        );
    }
}

fn print_table(cases: &[Case], samples: &[Vec<Samples>]) {
    println!(
        "\n{:<34} {:<12} {:>8} {:>8}  {:<14} {:>8}",
        "case", "limiter", "M/s", "ns", "spread M/s", "ours/it"
    );
    for (case, samples) in cases.iter().zip(samples) {
        let ours = samples.first().map_or(0.0, Samples::median);
        for ((name, _), samples) in case.contestants().iter().zip(samples) {
            let median = samples.median();
            println!(
                "{:<34} {name:<12} {:>8} {:>8}  {:<14} {:>8}",
                case.name,
                figure(median),
                figure(1000.0 * case.threads as f64 / median),
                samples.to_string(),
                figure(ours / median),
            );
        }
    }
    println!("ns: what one decision takes one thread");
}
