//! A flood of keys that are seen once, against a store with a cap in bytes.
//!
//! Two threads charge new keys, one after another, while other keys, the victims, are at their limit. The flood must
//! neither push their counters out nor grow the process past the cap.

mod flood;
mod victims;

use anyhow::{Result, ensure};
use clap::Parser;
use tollgate::{Limiter, ManualClock, MemoryStore, Quota};
use tollgate_bench_harness::resident::{peak_resident_bytes, resident_bytes};
use tollgate_bench_harness::samples::figure;

use self::flood::{Tally, flood};
use self::victims::{LIMIT, Victims};

/// Floods a store that has a cap with keys that are seen once.
#[derive(Debug, Parser)]
struct Args {
    /// Distinct keys, up to 999,999,999
    #[arg(long, default_value_t = 100_000_000, value_parser = clap::value_parser!(u32).range(..1_000_000_000))]
    keys: u32,
    /// Ten million keys: shows that the bench runs
    #[arg(long)]
    quick: bool,
}

/// Bytes.
const CAP: usize = 64 << 20;

fn main() -> Result<()> {
    let args = Args::parse();
    let keys = if args.quick { 10_000_000 } else { args.keys };
    // Allocates the state of each thread before memory is measured.
    let other = Limiter::with_store(Quota::per_day(LIMIT), still(MemoryStore::builder().max_counters(1_000)));
    flood(&other, &Victims::at_their_limit(&other)?, 10_000)?;
    drop(other);

    let before = resident_bytes()?;
    let limiter = Limiter::with_store(Quota::per_day(LIMIT), capped_store());
    let victims = Victims::at_their_limit(&limiter)?;
    let tally = flood(&limiter, &victims, keys)?;
    let resets = tally.resets + victims.resets_of_all(&limiter);
    let growth = peak_resident_bytes()?.saturating_sub(before);
    ensure!(tally.full.charges > 0, "{keys} keys did not fill the store");

    let over_cap = 100.0 * (growth as f64 / CAP as f64 - 1.0);
    let ratio = tally.full.a_second() / tally.inserting.a_second();
    println!(
        "RESULT keyflood rss_over_cap_percent={over_cap:.1} victim_resets={resets} throughput_ratio={}\n",
        figure(ratio)
    );
    print_table(limiter.store(), &tally, growth);
    Ok(())
}

fn capped_store() -> MemoryStore<ManualClock> {
    still(MemoryStore::builder().max_bytes(CAP))
}

/// With a clock that stands still, so that no window closes.
fn still(builder: tollgate::MemoryStoreBuilder) -> MemoryStore<ManualClock> {
    builder.clock(ManualClock::default()).build()
}

fn print_table(store: &MemoryStore<ManualClock>, tally: &Tally, growth: u64) {
    let rate =
        |rate: &flood::Rate| format!("{} M/s over {} charges", figure(rate.a_second() / 1e6), rate.charges);
    println!("counters held                {}", store.counters());
    println!(
        "resident memory grew by      {:.1} MiB, cap {} MiB",
        growth as f64 / f64::from(1 << 20),
        CAP >> 20
    );
    println!("bytes a counter              {}", figure(growth as f64 / store.counters() as f64));
    println!("while nothing was refused    {}", rate(&tally.inserting));
    println!("while some were refused      {}", rate(&tally.filling));
    println!("once the store was full      {}", rate(&tally.full));
    println!("victims checked              {}", tally.victims_checked);
}
