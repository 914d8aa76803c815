//! The signals that end the service, and SIGHUP, which may have another meaning.

use std::future::pending;
use std::{fs, io};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT, SIGTERM and SIGHUP, caught from its creation on. If the process was started to ignore SIGHUP, as with
/// `nohup`, it stays ignored. If SIGHUP means a reload, it does not end the service.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// A terminal that closes, unless the signal means a reload.
    hangup: Option<Signal>,
}

/// The meaning of SIGHUP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangup {
    /// The terminal closed.
    Ends,
    /// Files should be reloaded.
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

    /// Waits for the next signal, and returns its name.
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

/// Catches SIGHUP, which no longer ends the process from now on. Each receiver gets every signal.
pub(crate) fn hangup() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}

/// Returns whether the process was started to ignore SIGHUP, as far as the system shows.
fn is_hangup_ignored() -> bool {
    /// Signal 1 of the mask.
    const HANGUP: u64 = 1;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & HANGUP != 0)
}
