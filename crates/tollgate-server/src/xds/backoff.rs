//! The waits between two streams: longer after each failure, and not the same for all processes.

use std::time::Duration;

/// Settings of the waits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct XdsBackoff {
    /// The first wait. Jitter makes it up to half as long.
    pub(crate) initial: Duration,
    /// The longest wait.
    pub(crate) max: Duration,
    /// The factor by which waits grow.
    pub(crate) factor: f64,
    /// Whether waits are random, from half of their length.
    pub(crate) has_jitter: bool,
}

impl XdsBackoff {
    /// Returns the wait after so many failures before this one. `random` is from 0 to 1.
    pub(super) fn wait(&self, failures: u32, random: f64) -> Duration {
        let Self { initial, max, factor, has_jitter } = self;
        let exponent = i32::try_from(failures).unwrap_or(i32::MAX);
        let grown = Duration::try_from_secs_f64(initial.as_secs_f64() * factor.powi(exponent));
        let wait = grown.unwrap_or(*max).clamp(*initial, *initial.max(max));
        if *has_jitter { jittered(wait, random) } else { wait }
    }
}

/// Returns a wait from half of this one to all of it. `random` is from 0 to 1.
pub(super) fn jittered(wait: Duration, random: f64) -> Duration {
    wait / 2 + (wait / 2).mul_f64(random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff(factor: f64, has_jitter: bool) -> XdsBackoff {
        XdsBackoff { initial: Duration::from_secs(1), max: Duration::from_secs(30), factor, has_jitter }
    }

    #[test]
    fn waits_grow_up_to_the_longest() {
        let waits = |factor| {
            [0, 1, 4, 5, u32::MAX].map(|failures| backoff(factor, false).wait(failures, 0.5).as_secs())
        };
        assert_eq!(waits(2.0), [1, 2, 16, 30, 30]);
        // The default of envoyproxy/ratelimit.
        assert_eq!(waits(0.5), [1; 5]);
    }

    #[test]
    fn jitter_takes_up_to_half_of_a_wait() {
        let wait = |random| backoff(2.0, true).wait(1, random).as_millis();
        assert_eq!([wait(0.0), wait(0.5), wait(1.0)], [1_000, 1_500, 2_000]);
    }
}
