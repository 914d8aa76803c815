//! The store's memory of a counter, in a new server without other keys.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::runtime::Runtime;
use tollgate_testkit::servers::Software;

use crate::askers::{Asker, NEVER_REACHED, Ours, Plain};
use crate::cases::Side;
use crate::course::Course;
use crate::store::Store;

const COUNTERS: u64 = 100_000;

/// Returns the bytes per counter, for a hundred thousand counters with keys of 40 bytes.
pub(crate) fn measure(runtime: &Runtime, software: Software, side: Side) -> Result<f64> {
    let store = Store::start(software)?;
    match side {
        Side::Ours => {
            let ours = runtime.block_on(async { Ours::new(&store, NEVER_REACHED) })?;
            growth(runtime, &store, &ours)
        }
        Side::Peer => growth(runtime, &store, &runtime.block_on(Plain::new(&store))?),
    }
}

fn growth(runtime: &Runtime, store: &Store, asker: &impl Asker) -> Result<f64> {
    let keys: Vec<String> =
        (0..=COUNTERS).map(|number| format!("tenant-17:login:address:user:{number:011}")).collect();
    let (first, others) = keys.split_at(1);
    // The memory of a connection and a script does not belong to the counters.
    let run = |keys, callers| Course::once(keys).run(runtime, asker, callers, Duration::ZERO);
    run(first, 1)?;
    let before = settled(store)?;
    run(others, 64)?;
    let after = settled(store)?;
    let counters = store.keys();
    ensure!(counters == COUNTERS + 1, "{counters} keys instead of {}", COUNTERS + 1);
    Ok((after as f64 - before as f64) / COUNTERS as f64)
}

/// Returns the bytes in use once the server has moved its keys into larger tables, which it does in the background.
fn settled(store: &Store) -> Result<u64> {
    let mut bytes = store.used_bytes()?;
    loop {
        thread::sleep(Duration::from_millis(300));
        let now = store.used_bytes()?;
        // Buffers of connections come and go.
        if now.abs_diff(bytes) < 65_536 {
            return Ok(now);
        }
        bytes = now;
    }
}
