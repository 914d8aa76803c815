//! Ten minutes of churn: a stream of new keys, windows of 1 to 10 seconds, and resident memory that must stay flat.
//!
//! New keys come at a steady pace, and two threads charge those of the last seconds as fast as they can. So the number
//! of live counters is steady as well, below the store's cap, and growing memory is lost memory.

mod churn;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use tollgate::MemoryStore;
use tollgate_bench_harness::resident::resident_bytes;
use tollgate_bench_harness::stopwatch::Stopwatch;

use self::churn::{Churn, Tally};

/// Watches resident memory under churn of keys.
#[derive(Debug, Parser)]
struct Args {
    /// Length of the run
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// New keys a second
    #[arg(long, default_value_t = 100_000)]
    new_keys: u32,
    /// The store's cap; far above the live counters, so that it is not the cap that keeps memory flat
    #[arg(long, default_value_t = 20_000_000)]
    max_counters: usize,
}

const THREADS: u64 = 2;

/// After this time, every kind of memory has been used.
const SETTLED: u64 = 60;

const PROGRESS: u64 = 10;

fn main() -> Result<()> {
    let args = Args::parse();
    let store = MemoryStore::builder().max_counters(args.max_counters).build();
    let churn = Churn::new(&store, args.new_keys)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (churn, stop) = (&churn, &stop);
        for thread in 0..THREADS {
            scope.spawn(move || churn.run(thread, stop));
        }
        let watched = watch(&args, &store, churn.tally());
        // Even after an error, or the threads would never end. Relaxed: the flag guards nothing.
        stop.store(true, Ordering::Relaxed);
        watched
    })
}

/// Samples memory each second until the end.
fn watch(args: &Args, store: &MemoryStore, tally: &Tally) -> Result<()> {
    // In a shorter run, half of the run.
    let settled = SETTLED.min(args.seconds.div_ceil(2)).max(1);
    let start = Stopwatch::start();
    let mut samples = vec![megabytes()?];
    for second in 1..=args.seconds {
        thread::sleep(Duration::from_secs(second).saturating_sub(start.elapsed()));
        samples.push(megabytes()?);
        if second % PROGRESS == 0 {
            let (megabytes, counters) = (samples.last().unwrap_or(&0.0), store.counters());
            println!("{second:>5} s  {megabytes:>7.1} MB resident  {counters:>9} counters  {tally}");
        }
    }
    let sample = |second: u64| samples.get(second as usize).copied().context("no sample");
    let (after, end) = (sample(settled)?, sample(args.seconds)?);
    println!(
        "RESULT soak seconds={} decisions={} rss_mb_after_1m={after:.1} rss_mb_end={end:.1} growth_percent={:.2}",
        args.seconds,
        tally.decisions(),
        100.0 * (end / after - 1.0),
    );
    Ok(())
}

fn megabytes() -> Result<f64> {
    Ok(resident_bytes()? as f64 / 1e6)
}
