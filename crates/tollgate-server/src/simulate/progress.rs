//! How far reading has come, on a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use tollgate_logs::Progress;

use crate::stopwatch::Stopwatch;

/// How often the line is written again.
const INTERVAL: Duration = Duration::from_millis(250);

/// Requests after which the time is looked at.
const STRIDE: usize = 4_096;

/// A line on standard error that is written over and over, if that is a terminal.
pub(super) struct ProgressLine {
    started: Stopwatch,
    written: Option<Duration>,
    left: usize,
    is_terminal: bool,
}

impl ProgressLine {
    pub(super) fn new() -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { started: Stopwatch::start(), written: None, left: STRIDE, is_terminal }
    }

    /// Notes so many more requests. Writes the line if it is time.
    pub(super) fn requests(&mut self, count: usize, progress: impl FnOnce() -> Progress) {
        self.left = self.left.saturating_sub(count);
        if self.left > 0 {
            return;
        }
        self.left = STRIDE;
        let elapsed = self.started.elapsed();
        if self.is_terminal && elapsed >= self.written.unwrap_or_default() + INTERVAL {
            self.written = Some(elapsed);
            // If it cannot be written, nobody waits for it.
            let progress = progress();
            let _ = write!(io::stderr(), "\r{}\x1b[K", line(progress.lines, share(&progress), elapsed));
        }
    }

    /// Removes the line.
    pub(super) fn end(&self) {
        if self.written.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// The share of the bytes that have been read, if all of them are known.
fn share(progress: &Progress) -> Option<f64> {
    let of = progress.of.filter(|of| *of > 0 && progress.bytes > 0)?;
    Some((progress.bytes as f64 / of as f64).min(1.0))
}

fn line(lines: u64, share: Option<f64>, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(0.001);
    let speed = format!("{lines} lines, {:.0} lines/s", lines as f64 / seconds);
    match share {
        Some(share) => {
            let left = seconds / share - seconds;
            format!("{speed}, {:.0} %, {left:.0} s left", share * 100.0)
        }
        None => speed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_fast_and_how_long() {
        let after = Duration::from_secs(2);
        assert_eq!(line(5_000, Some(0.25), after), "5000 lines, 2500 lines/s, 25 %, 6 s left");
        assert_eq!(line(5_000, None, after), "5000 lines, 2500 lines/s");
    }
}
