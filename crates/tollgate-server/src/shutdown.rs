//! The signals that end the service, and the one that may have another meaning.

use std::future::pending;
use std::{fs, io};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT, SIGTERM and SIGHUP, caught from the moment this is made. A SIGHUP that the process was started to ignore, as
/// `nohup` does, goes on being ignored, and one that means that files are to be read again ends nothing.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// A terminal that closes; unless it means that files are to be read again.
    hangup: Option<Signal>,
}

/// What SIGHUP means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangup {
    /// The terminal closed.
    Ends,
    /// Files are to be read again.
    Reloads,
}

impl Signals {
    pub(crate) fn catch(hangup: Hangup) -> io::Result<Self> {
        let ends = hangup == Hangup::Ends && !is_hangup_ignored();
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: ends.then(self::hangup).transpose()?,
        })
    }

    /// Waits for the next one and names it.
    pub(crate) async fn next(&mut self) -> &'static str {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = hangup => "SIGHUP",
        }
    }
}

/// Catches SIGHUP, which ends nothing from now on. Each of several that catch it gets every one.
pub(crate) fn hangup() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}

/// Whether the process was started to ignore SIGHUP, where the system tells.
fn is_hangup_ignored() -> bool {
    /// Signal 1 of the mask.
    const HANGUP: u64 = 1;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & HANGUP != 0)
}
