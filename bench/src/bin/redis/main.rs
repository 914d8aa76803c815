//! The cost of a decision in a shared store, compared with what users write by hand and, over HTTP, with limitador.
//!
//! The store runs on core 0, its callers on core 1. Each round measures every case with both contestants in turn, so
//! that a disturbance of the machine affects both. The first round warms up and is dropped; the figure is the median of
//! the others.

mod askers;
mod bytes;
mod cases;
mod course;
mod delay;
mod figures;
mod http;
mod kinds;
mod store;
mod two;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use tollgate_bench_harness::stopwatch::Stopwatch;
use tollgate_testkit::servers::Software;

use self::cases::{Cases, Side};
use self::figures::{Rows, print_results, print_table};

/// Measures decisions of a shared store, compared with plain scripts and limitador.
#[derive(Debug, Parser)]
struct Args {
    /// Measure only cases with a result whose name contains this
    #[arg(default_value = "")]
    filter: String,
    /// The service's binary, `tollgate`, built with the profile `dist`
    #[arg(long)]
    service: PathBuf,
    /// The store is valkey-server instead of redis-server
    #[arg(long)]
    valkey: bool,
    /// Rounds; the figure is their median
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Length of one measurement in milliseconds; of one over HTTP at least a second
    #[arg(long, default_value_t = 1_000)]
    millis: u64,
    /// One round of 200 ms: shows that the bench runs, not how fast anything is
    #[arg(long)]
    quick: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let (rounds, millis) = if args.quick { (1, 200) } else { (args.rounds, args.millis) };
    let software = if args.valkey { Software::Valkey } else { Software::Redis };
    let cases = Cases::start(software, &args.service, &args.filter)?;
    let mut table: Vec<Rows> = cases.chosen().map(|_| Rows::default()).collect();
    for round in 0..=rounds {
        let watch = Stopwatch::start();
        // The order changes with each round.
        let sides = if round % 2 == 0 { [Side::Ours, Side::Peer] } else { [Side::Peer, Side::Ours] };
        for (case, rows) in cases.chosen().zip(&mut table) {
            for side in sides {
                let measured = cases.measure(case, side, Duration::from_millis(millis))?;
                if round > 0 {
                    rows.push(side, measured);
                }
            }
        }
        let which = if round == 0 { "warm-up".to_owned() } else { format!("round {round} of {rounds}") };
        eprintln!("{}, {which}: {:.1} s", software.program(), watch.elapsed().as_secs_f64());
    }
    for (case, rows) in cases.chosen().zip(&table) {
        print_results(case, rows);
    }
    print_table(cases.chosen().zip(&table));
    Ok(())
}
