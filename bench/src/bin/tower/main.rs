//! What limits add to a request, beside those of tower_governor.
//!
//! Every service is called with the same requests and polled to its response, on one thread and without sockets;
//! what the bare service takes is subtracted. Each round measures all of them, one after another, so that a
//! disturbance of the machine meets all. The figure is the median of the rounds.

mod services;
mod subject;

use anyhow::{Context, Result};
use clap::Parser;
use tollgate_bench::affinity::pin_this_thread;
use tollgate_bench::samples::{Samples, figure};
use tollgate_bench::stopwatch::Stopwatch;

use self::services::{Bare, DRAFT_11, GOVERNOR, GOVERNOR_HEADERS, NO_HEADERS, X_RATELIMIT};
use self::subject::Subject;

/// Measures what limits add to a request, beside those of tower_governor.
#[derive(Debug, Parser)]
struct Args {
    /// Rounds; the figure is their median
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    /// Requests of one measurement
    #[arg(long, default_value_t = 200_000)]
    requests: u32,
    /// Two rounds of a few requests: shows that the bench runs, not how fast anything is
    #[arg(long)]
    quick: bool,
}

/// What a service takes beyond the bare one, in nanoseconds a request.
struct Row {
    subject: Box<dyn Subject>,
    added: Samples,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let (rounds, requests) = if args.quick { (2, 5_000) } else { (args.rounds, args.requests) };
    pin_this_thread(0)?;
    let mut bare = (Bare::subject(), Samples::default());
    let row = |subject| Row { subject, added: Samples::default() };
    let mut rows: Vec<Row> = services::subjects()?.into_iter().map(row).collect();
    for round in 1..=rounds {
        let watch = Stopwatch::start();
        let nanos_bare = bare.0.nanos_a_request(requests)?;
        bare.1.push(nanos_bare);
        for row in &mut rows {
            row.added.push(row.subject.nanos_a_request(requests)? - nanos_bare);
        }
        eprintln!("round {round} of {rounds}: {:.1} s", watch.elapsed().as_secs_f64());
    }
    print_results(&rows)?;
    print_table(&bare.1, &rows);
    Ok(())
}

fn print_results(rows: &[Row]) -> Result<()> {
    let added = |name: &str| {
        let row = rows.iter().find(|row| row.subject.name() == name);
        row.map(|row| row.added.median()).with_context(|| format!("{name} was not measured"))
    };
    for name in [NO_HEADERS, DRAFT_11, X_RATELIMIT] {
        println!("RESULT tower/allowed/{name} ns={}", figure(added(name)?));
    }
    // Equal work: both tell the client its limit and what is left, each in the headers it has by default.
    let (ours, governor) = (added(DRAFT_11)?, added(GOVERNOR_HEADERS)?);
    let line = |case: &str, ours: f64, governor: f64| {
        let ratio = figure(ours / governor);
        println!("RESULT tower/{case} ours={} governor={} ratio={ratio}", figure(ours), figure(governor));
    };
    line("vs-tower-governor", ours, governor);
    // Not equal: it leaves no decision for the handler.
    line("vs-tower-governor-silent", added(NO_HEADERS)?, added(GOVERNOR)?);
    Ok(())
}

fn print_table(bare: &Samples, rows: &[Row]) {
    println!("\n{:<28} {:>8}  {:<16}", "service", "ns", "spread");
    println!("{:<28} {:>8}  {:<16}", "bare, in all", figure(bare.median()), bare.to_string());
    for row in rows {
        let (name, median) = (row.subject.name(), figure(row.added.median()));
        println!("{name:<28} {median:>8}  {:<16}", row.added.to_string());
    }
    println!("ns: what a request takes beyond the bare service");
}
