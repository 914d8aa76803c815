//! The time that processes spend on cores.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// User and system time of all threads of this process so far. A thread that ended would be missing; those that
/// are measured keep theirs.
pub fn cpu_time(process: u32) -> Result<Duration> {
    let tasks = format!("/proc/{process}/task");
    let mut nanos = 0;
    for task in fs::read_dir(&tasks).with_context(|| tasks.clone())? {
        let schedstat = task?.path().join("schedstat");
        let text = fs::read_to_string(&schedstat).with_context(|| schedstat.display().to_string())?;
        // Time on a core, time waiting for one, time slices; in nanoseconds, where `stat` counts ticks.
        let on_core = text.split_whitespace().next().context("an empty schedstat")?;
        nanos += on_core.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stopwatch::Stopwatch;

    #[test]
    fn a_busy_thread_adds_its_time() {
        const BUSY: Duration = Duration::from_millis(50);
        let before = cpu_time(std::process::id()).unwrap();
        let watch = Stopwatch::start();
        while watch.elapsed() < 4 * BUSY {
            std::hint::spin_loop();
        }
        // Others may have had most of the core meanwhile.
        let spent = cpu_time(std::process::id()).unwrap() - before;
        assert!(spent > BUSY / 10, "{spent:?}");
    }
}
