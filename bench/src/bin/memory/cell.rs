//! One measurement: one contestant in one case for a fixed time.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use tollgate_bench::contestants::{Contestant, FEW, HARNESS, Limit};
use tollgate_bench_harness::affinity::pin_this_thread;
use tollgate_bench_harness::keys::{Chunk, Keys};
use tollgate_bench_harness::stopwatch::Stopwatch;

use crate::cases::{Call, Case};

/// Calls between two readings of the stopwatch, whose 25 ns are spread over a thousand decisions.
const CALLS: usize = 16;

#[derive(Default)]
struct Tally {
    decisions: usize,
    admitted: usize,
    seconds: f64,
}

/// Returns decisions a second, of all threads together.
pub(crate) fn measure(case: &Case, name: &str, contestant: &dyn Contestant, length: Duration) -> Result<f64> {
    let start = Barrier::new(case.threads);
    let (keys, call) = (&*case.keys, case.call);
    let tallies: Vec<Result<Tally>> = thread::scope(|scope| {
        let run = |thread: usize| {
            let start = &start;
            // Each thread begins at its own place in the list.
            let first = thread * (keys.texts().chunks() / case.threads);
            scope.spawn(move || {
                let pinned = pin_this_thread(thread);
                start.wait();
                pinned.map(|()| decide(contestant, call, keys, first, length))
            })
        };
        let threads: Vec<_> = (0..case.threads).map(run).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    let tallies = tallies.into_iter().collect::<Result<Vec<_>>>()?;
    let decisions: usize = tallies.iter().map(|tally| tally.decisions).sum();
    let admitted: usize = tallies.iter().map(|tally| tally.admitted).sum();
    let as_expected = match case.limit() {
        _ if name == HARNESS => admitted == decisions,
        Limit::NeverReached => admitted == decisions,
        // The measurement may span the end of a window, or a partial refill.
        Limit::Few => admitted <= FEW as usize,
    };
    ensure!(as_expected, "{name} admitted {admitted} of {decisions} in {}", case.name);
    Ok(tallies.iter().map(|tally| tally.decisions as f64 / tally.seconds).sum())
}

fn decide(contestant: &dyn Contestant, call: Call, keys: &Keys, first: usize, length: Duration) -> Tally {
    let mut tally = Tally::default();
    let mut chunks = (0..keys.texts().chunks()).cycle().skip(first);
    let watch = Stopwatch::start();
    while watch.elapsed() < length {
        for chunk in chunks.by_ref().take(CALLS) {
            let texts = keys.texts().chunk(chunk);
            let keys = Chunk { texts: &texts, strings: keys.strings(chunk) };
            tally.decisions += texts.len();
            tally.admitted += match call {
                Call::Single => contestant.decide(keys),
                Call::By16 => contestant.decide_by_16(keys),
            };
        }
    }
    tally.seconds = watch.elapsed().as_secs_f64();
    tally
}
