//! Callers that go through keys on core 1.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::runtime::{Builder, Runtime};
use tollgate_bench_harness::affinity::pin_this_thread;
use tollgate_bench_harness::stopwatch::Stopwatch;

use crate::askers::Asker;

/// The core of the callers.
pub(crate) const CALLERS: usize = 1;

/// How many decisions a caller makes before it yields, like a service that reads requests. Answers that are known at
/// once never wait, so the caller would not yield otherwise.
const STRETCH: u64 = 64;

/// Keys in turn, which all callers share.
#[derive(Clone)]
pub(crate) struct Course(Arc<Inner>);

struct Inner {
    keys: Vec<String>,
    turn: AtomicUsize,
    /// The number of turns until it ends by itself.
    turns: usize,
    is_over: AtomicBool,
}

/// The results of callers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) decisions: u64,
    pub(crate) admitted: u64,
    pub(crate) seconds: f64,
}

/// Returns a runtime with one worker on core 1; pins the main thread there as well.
pub(crate) fn runtime() -> Result<Runtime> {
    pin_this_thread(CALLERS)?;
    Ok(Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

impl Course {
    /// Repeats the keys until it is stopped.
    pub(crate) fn endless(keys: &[String]) -> Self {
        Self::new(keys, usize::MAX)
    }

    /// Goes through every key once.
    pub(crate) fn once(keys: &[String]) -> Self {
        Self::new(keys, keys.len())
    }

    fn new(keys: &[String], turns: usize) -> Self {
        let (turn, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self(Arc::new(Inner { keys: keys.to_vec(), turn, turns, is_over }))
    }

    /// Runs for this long, or to the end, with this many callers.
    pub(crate) fn run(
        &self,
        runtime: &Runtime,
        asker: &impl Asker,
        callers: usize,
        length: Duration,
    ) -> Result<Tally> {
        let watch = Stopwatch::start();
        let callers: Vec<_> = (0..callers).map(|_| runtime.spawn(self.clone().call(asker.clone()))).collect();
        if self.0.turns == usize::MAX {
            thread::sleep(length);
            self.0.is_over.store(true, Relaxed);
        }
        let mut sum = Tally::default();
        for caller in callers {
            let tally = runtime.block_on(caller)??;
            sum.decisions += tally.decisions;
            sum.admitted += tally.admitted;
        }
        sum.seconds = watch.elapsed().as_secs_f64();
        ensure!(sum.decisions > 0, "nobody was answered in {length:?}");
        Ok(sum)
    }

    async fn call(self, asker: impl Asker) -> Result<Tally> {
        let mut tally = Tally::default();
        while let Some(key) = self.0.next() {
            tally.admitted += u64::from(asker.ask(key).await?);
            tally.decisions += 1;
            if tally.decisions % STRETCH == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(tally)
    }

    /// Runs one caller. Returns the median time of its decisions in microseconds.
    pub(crate) fn lone(&self, runtime: &Runtime, asker: &impl Asker, length: Duration) -> Result<f64> {
        let (course, asker) = (self.clone(), asker.clone());
        let caller = runtime.spawn(async move {
            let mut micros = Vec::new();
            while let Some(key) = course.0.next() {
                let watch = Stopwatch::start();
                ensure!(asker.ask(key).await?, "denied");
                micros.push(watch.elapsed().as_secs_f64() * 1e6);
            }
            Ok(micros)
        });
        thread::sleep(length);
        self.0.is_over.store(true, Relaxed);
        let mut micros = runtime.block_on(caller)??;
        micros.sort_unstable_by(f64::total_cmp);
        micros.get(micros.len() / 2).copied().context("nobody was answered")
    }
}

impl Inner {
    fn next(&self) -> Option<&str> {
        let turn = self.turn.fetch_add(1, Relaxed);
        let is_over = turn >= self.turns || self.is_over.load(Relaxed);
        (!is_over).then(|| self.keys[turn % self.keys.len()].as_str())
    }
}
