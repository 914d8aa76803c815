//! Measures how long a step takes, and how much of the processors.

use std::fs;
use std::time::{Duration, Instant};

/// The time since its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "no decision depends on it")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    #[expect(clippy::disallowed_methods, reason = "no decision depends on it")]
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Returns the processor time of all processes that this one has started, directly or not, and that have been waited
/// for. It is zero where the system does not tell.
pub(crate) fn processor_time_of_children() -> Duration {
    // Of the fields after the name of the program, these are the user and the system time of children.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: u64 = fields.skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::command;

    #[test]
    fn counts_the_time_of_a_child_of_a_child() {
        let before = processor_time_of_children();
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";
        command("sh -c").argument(format!("sh -c '{busy}'; true")).run().unwrap();
        assert!(processor_time_of_children() > before);
    }
}
