//! The figures of a child process, and their form on one line.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, ensure};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figures {
    pub(crate) bytes_per_key: f64,
    pub(crate) peak_bytes_per_key: f64,
    /// The limiter is empty, so every key is new.
    pub(crate) grow: Pauses,
    /// All windows have closed, and the same keys return.
    pub(crate) same_keys: Option<Pauses>,
    /// All windows have closed once more, and as many other keys come.
    pub(crate) other_keys: Option<Pauses>,
}

/// The charges of one stage.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Pauses {
    pub(crate) longest_ms: f64,
    /// The longest charge, without the time that the thread was off its core.
    pub(crate) longest_on_core_ms: f64,
    /// Charges that took longer than a millisecond.
    pub(crate) over_1_ms: f64,
    pub(crate) nanos_each: f64,
    /// The longest gap between two clock readings of an otherwise empty loop, which runs as long as the stage.
    pub(crate) idle_longest_ms: f64,
}

impl Figures {
    /// The longest charge of all stages.
    pub(crate) fn longest_ms(&self) -> f64 {
        let later = [self.same_keys, self.other_keys].into_iter().flatten();
        later.fold(self.grow.longest_ms, |longest, pauses| longest.max(pauses.longest_ms))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.bytes_per_key, self.peak_bytes_per_key)?;
        for pauses in [Some(self.grow), self.same_keys, self.other_keys].into_iter().flatten() {
            let Pauses { longest_ms, longest_on_core_ms, over_1_ms, nanos_each, idle_longest_ms } = pauses;
            write!(f, " {longest_ms} {longest_on_core_ms} {over_1_ms} {nanos_each} {idle_longest_ms}")?;
        }
        Ok(())
    }
}

impl FromStr for Figures {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self, Error> {
        let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let (memory, stages) = numbers.split_at_checked(2).context("too few figures")?;
        let (stages, rest) = stages.as_chunks::<5>();
        ensure!(rest.is_empty(), "a stage is cut short");
        let mut stages = stages.iter().map(|stage| {
            let [longest_ms, longest_on_core_ms, over_1_ms, nanos_each, idle_longest_ms] = *stage;
            Pauses { longest_ms, longest_on_core_ms, over_1_ms, nanos_each, idle_longest_ms }
        });
        Ok(Self {
            bytes_per_key: memory[0],
            peak_bytes_per_key: memory[1],
            grow: stages.next().context("no stage")?,
            same_keys: stages.next(),
            other_keys: stages.next(),
        })
    }
}
