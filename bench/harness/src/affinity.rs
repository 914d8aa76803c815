//! Pins threads to cores.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Pins this thread to one core, and with it every thread and process that it starts from now on.
pub fn pin_this_thread(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| format!("cannot run on core {core}"))
}
