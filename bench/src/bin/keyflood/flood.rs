//! The flood: threads that charge their own keys, each key once.

use std::ops::{AddAssign, Range};
use std::sync::Barrier;
use std::thread;

use anyhow::{Result, bail};
use tollgate::{Clock, Full, Limiter};
use tollgate_bench_harness::affinity::pin_this_thread;
use tollgate_bench_harness::keys::{CHUNK, Texts};
use tollgate_bench_harness::stopwatch::Stopwatch;

use crate::victims::Victims;

const THREADS: u32 = 2;

/// How many keys are written, then charged, at a time; their text stays in the second-level cache.
const BATCH: u32 = 64 * CHUNK as u32;

/// How many victims a thread checks after each batch.
const CHECKED: usize = 8;

/// The results of one thread, or of all.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Batches in which no key was refused.
    pub(crate) inserting: Rate,
    /// Batches between these two.
    pub(crate) filling: Rate,
    /// Batches in which most keys were refused.
    pub(crate) full: Rate,
    pub(crate) victims_checked: usize,
    pub(crate) resets: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Rate {
    pub(crate) charges: u64,
    /// The total of the seconds that threads spent on them.
    seconds: f64,
}

impl Rate {
    /// Returns charges a second, of all threads together.
    pub(crate) fn a_second(&self) -> f64 {
        f64::from(THREADS) * self.charges as f64 / self.seconds
    }
}

/// Charges this many new keys.
pub(crate) fn flood<C: Clock>(limiter: &Limiter<C>, victims: &Victims, keys: u32) -> Result<Tally> {
    let start = Barrier::new(THREADS as usize);
    let share = keys / THREADS;
    let tallies: Vec<Result<Tally>> = thread::scope(|scope| {
        let run = |thread: u32| {
            let start = &start;
            scope.spawn(move || {
                let pinned = pin_this_thread(thread as usize);
                start.wait();
                pinned.and_then(|()| charge_all(limiter, victims, share * thread..share * (thread + 1)))
            })
        };
        let threads: Vec<_> = (0..THREADS).map(run).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    let mut sum = Tally::default();
    for tally in tallies {
        sum += tally?;
    }
    Ok(sum)
}

fn charge_all<C: Clock>(limiter: &Limiter<C>, victims: &Victims, keys: Range<u32>) -> Result<Tally> {
    let (mut tally, mut texts) = (Tally::default(), Texts::default());
    for first in keys.clone().step_by(BATCH as usize) {
        texts.write(first..keys.end.min(first + BATCH));
        let watch = Stopwatch::start();
        let mut refused = 0;
        for chunk in 0..texts.chunks() {
            refused += charge(limiter, &texts.chunk(chunk))?;
        }
        let seconds = watch.elapsed().as_secs_f64();
        let charges = (texts.chunks() * CHUNK) as u64;
        let phase = match refused {
            0 => &mut tally.inserting,
            _ if 2 * refused > charges => &mut tally.full,
            _ => &mut tally.filling,
        };
        *phase += Rate { charges, seconds };
        tally.resets += victims.resets(limiter, tally.victims_checked, CHECKED);
        tally.victims_checked += CHECKED;
    }
    Ok(tally)
}

/// Returns how many were refused because the store is full.
fn charge<C: Clock>(limiter: &Limiter<C>, keys: &[&str]) -> Result<u64> {
    let mut refused = 0;
    for key in keys {
        match limiter.check(*key) {
            Ok(decision) if decision.is_allowed() => {}
            Ok(_) => bail!("{key} is new and was denied"),
            Err(Full) => refused += 1,
        }
    }
    Ok(refused)
}

impl AddAssign for Rate {
    fn add_assign(&mut self, other: Self) {
        self.charges += other.charges;
        self.seconds += other.seconds;
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.inserting += other.inserting;
        self.filling += other.filling;
        self.full += other.full;
        self.victims_checked += other.victims_checked;
        self.resets += other.resets;
    }
}
