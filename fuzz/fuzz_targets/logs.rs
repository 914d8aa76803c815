//! Any bytes as a log, in any format: what has to hold of it is in the tests of the crate, which try it on fewer bytes.

#![no_main]

#[path = "../../crates/tollgate-logs/tests/logs/holds.rs"]
mod holds;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses the format. Most values choose none, so that it is found out.
    let Some((choice, log)) = bytes.split_first() else { return };
    holds::holds(holds::formats().get(usize::from(*choice)).copied(), log);
});
