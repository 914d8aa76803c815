//! The resident memory of this process, as the kernel counts it.

use std::fs;

use anyhow::{Context, Result};

/// Returns the resident bytes. The kernel counts in batches of pages, so this may be off by some 100 KiB.
pub fn resident_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/statm").context("cannot read /proc/self/statm")?;
    let pages = text.split_whitespace().nth(1).context("no second number in /proc/self/statm")?;
    Ok(pages.parse::<u64>()? * rustix::param::page_size() as u64)
}

/// Returns the peak of the resident bytes.
pub fn peak_resident_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib =
        line.and_then(|line| line.split_whitespace().next()).context("no VmHWM in /proc/self/status")?;
    Ok(kib.parse::<u64>()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_written_is_resident() {
        const BYTES: u64 = 64 << 20;
        let before = resident_bytes().unwrap();
        let written = std::hint::black_box(vec![1_u8; BYTES as usize]);
        let grown = resident_bytes().unwrap() - before;
        assert!(grown.abs_diff(BYTES) < BYTES / 10, "{grown}");
        drop(written);
        assert!(peak_resident_bytes().unwrap() >= before + BYTES - BYTES / 10);
    }
}
