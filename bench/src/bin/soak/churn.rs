//! The load: which keys come, and what they do.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;
use tollgate::{Limiter, MemoryStore, Quota};
use tollgate_bench_harness::keys::{BYTES, Random, write_key};
use tollgate_bench_harness::stopwatch::Stopwatch;

/// Windows in seconds for each limiter; some have several quotas. A key always uses the same limiter.
const LIMITERS: &[&[u64]] = &[&[1], &[2], &[3], &[5], &[7], &[10], &[1, 10], &[2, 5, 10]];

/// Units in each window: few enough to deny a key now and then.
const LIMIT: u64 = 20;

/// How many seconds a key is in use.
const LIFETIME: u32 = 10;

/// One of this many admitted charges is refunded.
const REFUNDED: u32 = 8;

/// Decisions between two checks of the clock and of `stop`.
const BATCH: u64 = 1_000;

pub(crate) struct Churn {
    limiters: Vec<Limiter>,
    new_keys_a_second: u32,
    start: Stopwatch,
    tally: Tally,
}

/// The totals of all threads so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    decisions: AtomicU64,
    denied: AtomicU64,
    refunds: AtomicU64,
    full: AtomicU64,
}

/// The results of one batch.
#[derive(Debug, Default)]
struct Counts {
    denied: u64,
    refunds: u64,
    full: u64,
}

impl Churn {
    pub(crate) fn new(store: &MemoryStore, new_keys_a_second: u32) -> Result<Self> {
        let limiter = |(number, windows): (usize, &&[u64])| {
            let quotas = windows.iter().map(|window| format!("{LIMIT}/{window}s").parse::<Quota>());
            let mut builder = Limiter::builder(&format!("soak-{number}"));
            for quota in quotas {
                builder = builder.quota(quota?);
            }
            Ok(builder.build(store.clone())?)
        };
        let limiters = LIMITERS.iter().enumerate().map(limiter).collect::<Result<_>>()?;
        Ok(Self { limiters, new_keys_a_second, start: Stopwatch::start(), tally: Tally::default() })
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Charges until `stop` is set.
    pub(crate) fn run(&self, seed: u64, stop: &AtomicBool) {
        let mut random = Random::new(seed);
        let mut text = String::with_capacity(BYTES);
        // Relaxed: `stop` guards nothing.
        while !stop.load(Ordering::Relaxed) {
            let age = self.start.elapsed().as_secs_f64();
            // Keys have nine digits. At the default pace they last for hours, and then the oldest return.
            let newest = (age * f64::from(self.new_keys_a_second)) as u64;
            let live = self.new_keys_a_second.saturating_mul(LIFETIME);
            let mut counts = Counts::default();
            for _ in 0..BATCH {
                let number = (newest + u64::from(live) - u64::from(random.below(live))) % 1_000_000_000;
                write_key(&mut text, number as u32);
                self.decide(number, &text, &mut random, &mut counts);
            }
            self.tally.add(&counts);
        }
    }

    fn decide(&self, number: u64, key: &str, random: &mut Random, counts: &mut Counts) {
        let Some(limiter) = self.limiters.get(number as usize % self.limiters.len()) else { return };
        match limiter.check(key) {
            Ok(decision) if decision.is_allowed() => {
                if random.below(REFUNDED) == 0 {
                    limiter.refund(&mut decision.into_receipt());
                    counts.refunds += 1;
                }
            }
            Ok(_) => counts.denied += 1,
            Err(_) => counts.full += 1,
        }
    }
}

impl Tally {
    fn add(&self, counts: &Counts) {
        // Relaxed, here and below: counts that guard no other memory.
        self.decisions.fetch_add(BATCH, Ordering::Relaxed);
        self.denied.fetch_add(counts.denied, Ordering::Relaxed);
        self.refunds.fetch_add(counts.refunds, Ordering::Relaxed);
        self.full.fetch_add(counts.full, Ordering::Relaxed);
    }

    pub(crate) fn decisions(&self) -> u64 {
        self.decisions.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (denied, refunds, full) = (of(&self.denied), of(&self.refunds), of(&self.full));
        write!(
            f,
            "{} decisions, {denied} denied, {refunds} refunds, {full} found the store full",
            self.decisions()
        )
    }
}
