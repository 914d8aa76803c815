//! A counter's memory does not depend on the length of its key. Alone in its process, because memory is measured per
//! process.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

use tollgate::{Limiter, Quota};

/// Returns the resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

#[test]
fn long_keys_take_no_more_memory_than_short_ones() {
    const KEYS: u32 = 20_000;
    let limiter = Limiter::new(Quota::per_day(5));
    let mut name = vec![b'x'; 8 * 1024];
    let before = resident();
    for number in 0..KEYS {
        name[..4].copy_from_slice(&number.to_be_bytes());
        assert!(limiter.check(name.as_slice()).unwrap().is_allowed());
    }
    let grown = resident().saturating_sub(before);
    assert_eq!(limiter.store().counters(), KEYS as usize);
    // The keys alone would take 160,000 KiB.
    assert!(grown < 10_000, "{KEYS} keys of 8 KiB took {grown} KiB");
}
