//! How long the machine did not run a thread that was ready: what an answer may be late by, whoever computes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::stopwatch::Stopwatch;

const NAP: Duration = Duration::from_millis(1);

/// A thread that sleeps and notes its longest oversleeping.
pub(super) struct StallMeter {
    longest_us: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl StallMeter {
    pub(super) fn start() -> Self {
        let (longest_us, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let meter = Self { longest_us: Arc::clone(&longest_us), is_over: Arc::clone(&is_over) };
        thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let watch = Stopwatch::start();
                thread::sleep(NAP);
                let overslept = watch.elapsed().saturating_sub(NAP).as_micros();
                longest_us.fetch_max(u64::try_from(overslept).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        });
        meter
    }

    pub(super) fn longest(&self) -> Duration {
        Duration::from_micros(self.longest_us.load(Ordering::Relaxed))
    }
}

impl Drop for StallMeter {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
