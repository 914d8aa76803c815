//! `cargo run --package tollgate --example kinds`: the same requests under each kind of quota.

use std::error::Error;
use std::time::Duration;

use tollgate::{Full, Limiter, ManualClock, MemoryStore, Quota, Timestamp};

/// Ten a minute, in each kind.
pub(crate) const QUOTAS: [&str; 5] = ["10/1m", "10/1m~sliding", "10/1m~burst", "10/1m~burst:3", "10/1m~log"];

/// 12 seconds before a minute of the clock begins.
const FIRST: Timestamp = Timestamp::from_unix_millis(1_700_000_028_000);

/// One request a second.
const REQUESTS: usize = 96;

fn main() -> Result<(), Box<dyn Error>> {
    println!("One request a second. + is admitted, - is denied; a minute of the clock begins at each |.\n");
    println!("{:<14} {:>13}{:>60}", "", "|", "|");
    for written in QUOTAS {
        let verdicts = verdicts(written.parse()?)?;
        println!("{written:<14} {verdicts} at most {} in a minute", most_in_a_minute(&verdicts));
    }
    Ok(())
}

/// Returns the verdict on each request: `+` if it is admitted, `-` if it is denied.
pub(crate) fn verdicts(quota: Quota) -> Result<String, Full> {
    let clock = ManualClock::at(FIRST);
    let limiter = Limiter::with_store(quota, MemoryStore::builder().clock(clock.clone()).build());
    let mut verdicts = String::new();
    for _ in 0..REQUESTS {
        verdicts.push(if limiter.check("alice")?.is_allowed() { '+' } else { '-' });
        clock.advance(Duration::from_secs(1));
    }
    Ok(verdicts)
}

/// Returns the number of requests admitted in the busiest minute, whenever it begins.
pub(crate) fn most_in_a_minute(verdicts: &str) -> usize {
    let admitted = |minute: &[u8]| minute.iter().filter(|verdict| **verdict == b'+').count();
    verdicts.as_bytes().windows(60).map(admitted).max().unwrap_or_default()
}
