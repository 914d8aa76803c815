//! The resident memory of a live key, and the longest pause of a single charge.
//!
//! Each limiter runs in its own process at each size, so that none inherits memory of another. This process starts
//! itself again, and the child prints its figures on one line.

mod child;
mod figures;
mod subjects;

use anyhow::{Result, ensure};
use clap::Parser;
use tollgate_bench_harness::samples::{Samples, figure};
use tollgate_bench_harness::stopwatch::Stopwatch;

use self::figures::{Figures, Pauses};
use self::subjects::Subject;

/// Measures resident memory a live key, and the longest single charge, of limiters in one process.
#[derive(Debug, Parser)]
struct Args {
    /// Measure only limiters whose name contains this
    #[arg(default_value = "")]
    filter: String,
    /// How often everything is measured; a figure is the median
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Measure other crates, and maps used by hand, as well
    #[arg(long)]
    peers: bool,
    /// One round of a million keys: shows that the bench runs
    #[arg(long)]
    quick: bool,
    /// Be the process that measures this limiter
    #[arg(long, hide = true, requires = "keys")]
    child: Option<String>,
    /// So many keys, for the child
    #[arg(long, hide = true)]
    keys: Option<u32>,
}

const SIZES: &[(&str, u32)] = &[("1m", 1_000_000), ("10m", 10_000_000)];

/// The results of the rounds for one limiter at one size.
struct Row {
    size: &'static str,
    limiter: &'static str,
    rounds: Vec<Figures>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let (Some(name), Some(keys)) = (&args.child, args.keys) {
        println!("{}", child::measure(&Subject::named(name)?, keys)?);
        return Ok(());
    }
    let (rounds, sizes) = if args.quick { (1, &SIZES[..1]) } else { (args.rounds, SIZES) };
    let chosen = subjects::names(args.peers).filter(|name| name.contains(&args.filter)).collect::<Vec<_>>();
    ensure!(!chosen.is_empty(), "no limiter has `{}` in its name", args.filter);

    let row = |(size, limiter)| Row { size, limiter, rounds: Vec::new() };
    let each = sizes.iter().flat_map(|(size, _)| chosen.iter().map(|limiter| (*size, *limiter)));
    let mut rows: Vec<Row> = each.map(row).collect();
    for round in 1..=rounds {
        let watch = Stopwatch::start();
        for row in &mut rows {
            let keys = SIZES.iter().find(|(size, _)| *size == row.size).map_or(0, |(_, keys)| *keys);
            row.rounds.push(child::run(row.limiter, keys)?);
        }
        eprintln!("round {round} of {rounds}: {:.1} s", watch.elapsed().as_secs_f64());
    }
    rows.iter().filter(|row| row.limiter == subjects::OURS).for_each(print_result);
    print_table(&rows);
    Ok(())
}

impl Row {
    fn median(&self, of: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
        let mut samples = Samples::default();
        let values = self.rounds.iter().map(of).collect::<Option<Vec<f64>>>()?;
        values.into_iter().for_each(|value| samples.push(value));
        Some(samples.median())
    }

    /// Formats a stage for the table.
    fn pauses(&self, pauses: impl Fn(&Figures) -> Option<Pauses>) -> String {
        let median = |of: fn(Pauses) -> f64| self.median(|figures| pauses(figures).map(of));
        let Some(longest) = median(|it| it.longest_ms) else { return "-".to_owned() };
        let cell = |of| figure(median(of).unwrap_or_default());
        let (on_core, idle) = (cell(|it| it.longest_on_core_ms), cell(|it| it.idle_longest_ms));
        let over = median(|it| it.over_1_ms).unwrap_or_default();
        format!("{}, {on_core} ({over}) | {idle}", figure(longest))
    }
}

fn print_result(row: &Row) {
    let median =
        |of: fn(&Figures) -> f64| figure(row.median(|figures| Some(of(figures))).unwrap_or_default());
    println!(
        "RESULT memory-size/{} bytes_per_key={} peak_bytes_per_key={} longest_ms={}",
        row.size,
        median(|figures| figures.bytes_per_key),
        median(|figures| figures.peak_bytes_per_key),
        median(Figures::longest_ms),
    );
}

fn print_table(rows: &[Row]) {
    let legend = "longest charge in ms, that of it on the core (charges over 1 ms) | longest gap while idle";
    println!("\n{:46}{legend}", "");
    println!(
        "{:<5} {:<12} {:>7} {:>7} {:>9}  {:<27} {:<27} other keys, next window",
        "keys", "limiter", "B/key", "peak", "ns/grow", "growing", "same keys, next window"
    );
    for row in rows {
        let cell =
            |of: fn(&Figures) -> f64| figure(row.median(|figures| Some(of(figures))).unwrap_or_default());
        println!(
            "{:<5} {:<12} {:>7} {:>7} {:>9}  {:<27} {:<27} {}",
            row.size,
            row.limiter,
            cell(|figures| figures.bytes_per_key),
            cell(|figures| figures.peak_bytes_per_key),
            cell(|figures| figures.grow.nanos_each),
            row.pauses(|figures| Some(figures.grow)),
            row.pauses(|figures| figures.same_keys),
            row.pauses(|figures| figures.other_keys),
        );
    }
    println!(
        "
B/key: growth of resident memory, from before the limiter was built to when the last key had come.
peak: the most it ever grew, through all three stages.
ns/grow: a charge of a new key, with two readings of the clock, some 45 ns.
longest charge: as its caller meets it, with what the system takes away. On the core: the longest when the time
in which the thread was not on its core is taken off.
longest gap while idle: between two readings of the clock in a loop that does nothing else, for as long as the
stage took and right after it: the machine's own pauses.
-: the limiter's clock cannot be moved."
    );
}
