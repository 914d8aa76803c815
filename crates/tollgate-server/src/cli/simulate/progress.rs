//! The progress of reading, on a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tollgate_logs::{Progress, Watch};

use crate::observe::stopwatch::Stopwatch;

/// The interval at which the line is rewritten.
const INTERVAL: Duration = Duration::from_millis(250);

/// A line on standard error that is written over and over, if that is a terminal.
///
/// A timer writes it: while logs are sorted, no request is replayed for minutes.
pub(super) struct ProgressLine {
    /// Requests that were replayed. It is for display alone.
    replayed: Arc<AtomicU64>,
    timer: Option<Timer>,
}

/// Calls back at an interval, on a thread of its own, until it is dropped.
struct Timer {
    /// It is dropped to end the thread.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressLine {
    /// Begins to write. If all requests are sorted first, this has two steps.
    pub(super) fn start(watch: Watch, is_sorted: bool) -> Self {
        let replayed = Arc::new(AtomicU64::new(0));
        let (started, seen) = (Stopwatch::start(), Arc::clone(&replayed));
        let mut sorted_after = Duration::ZERO;
        let timer = io::stderr().is_terminal().then(|| {
            Timer::start(INTERVAL, move || {
                let (elapsed, progress) = (started.elapsed(), watch.progress());
                let replayed = Some(seen.load(Ordering::Relaxed)).filter(|_| is_sorted);
                let text = match replayed {
                    None => line(progress.lines, share(&progress), elapsed),
                    Some(0) => {
                        sorted_after = elapsed;
                        line(progress.lines, share(&progress), elapsed) + " (read, to be sorted)"
                    }
                    Some(replayed) => sorted(replayed, progress.lines, elapsed.saturating_sub(sorted_after)),
                };
                // If it cannot be written, nobody waits for it.
                let _ = write!(io::stderr(), "\r{text}\x1b[K");
            })
        });
        Self { replayed, timer: timer.flatten() }
    }

    /// Notes that so many more requests have been replayed.
    pub(super) fn replayed(&self, count: usize) {
        self.replayed.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Removes the line.
    pub(super) fn end(self) {
        if let Some(timer) = self.timer {
            drop(timer);
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Timer {
    /// `None` if the system starts no thread.
    fn start(interval: Duration, mut tick: impl FnMut() + Send + 'static) -> Option<Self> {
        let (running, end) = channel::<()>();
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(move || {
            while end.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                tick();
            }
        });
        Some(Self { running: Some(running), thread: Some(thread.ok()?) })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.running = None;
        // A panic of the thread has been printed.
        let _ = self.thread.take().map(JoinHandle::join);
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

/// The second step: nearly all lines are requests.
fn sorted(replayed: u64, lines: u64, elapsed: Duration) -> String {
    let share = (replayed as f64 / lines.max(1) as f64).min(1.0);
    line(replayed, Some(share), elapsed) + " (sorted)"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_fast_and_how_long() {
        let after = Duration::from_secs(2);
        assert_eq!(line(5_000, Some(0.25), after), "5000 lines, 2500 lines/s, 25 %, 6 s left");
        assert_eq!(line(5_000, None, after), "5000 lines, 2500 lines/s");
        assert_eq!(sorted(5_000, 20_000, after), "5000 lines, 2500 lines/s, 25 %, 6 s left (sorted)");
    }

    /// The line was written between requests. While logs were sorted there is none, and so there was no line.
    #[test]
    fn a_timer_needs_no_requests_and_ends_with_its_owner() {
        let (ticks, ticked) = channel();
        let timer = Timer::start(Duration::from_millis(1), move || {
            let _ = ticks.send(());
        });
        for _ in 0..3 {
            ticked.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        drop(timer);
        // It ends when the thread has dropped its end.
        ticked.iter().for_each(drop);
    }
}
