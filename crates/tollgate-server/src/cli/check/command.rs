//! A command that runs while `tollgate check` holds.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::loss::Loss;
use crate::args::exit_status::{NOT_EXECUTABLE, NOT_FOUND, SIGNALED};
use crate::cli::output;

/// Signals that the command gets too.
const FORWARDED: [(SignalKind, Signal); 6] = [
    (SignalKind::hangup(), Signal::HUP),
    (SignalKind::interrupt(), Signal::INT),
    (SignalKind::quit(), Signal::QUIT),
    (SignalKind::terminate(), Signal::TERM),
    (SignalKind::user_defined1(), Signal::USR1),
    (SignalKind::user_defined2(), Signal::USR2),
];

/// Those that would end this process, and are meant to.
const ENDING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// What such a signal leaves to the work after the command.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// What happens to the command if its hold is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterLoss {
    Terminate,
    KeepRunning,
}

/// The signals that this process gets from now on, which then do not end it.
pub(super) struct CaughtSignals {
    signals: mpsc::UnboundedReceiver<Signal>,
    _catching: JoinSet<()>,
}

/// A running command, which gets the signals of this process.
pub(super) struct RunningCommand {
    child: Child,
    signals: CaughtSignals,
}

/// The signals that this process was started to ignore. The command ignores them too, unless this process listens to
/// them: `nohup` depends on it.
struct IgnoredSignals(u64);

impl CaughtSignals {
    /// Begins to catch them.
    ///
    /// # Errors
    ///
    /// If the system refuses it.
    pub(super) fn catch() -> io::Result<Self> {
        let (sender, signals) = mpsc::unbounded_channel();
        let mut catching = JoinSet::new();
        let ignored = IgnoredSignals::read();
        for (kind, signal) in FORWARDED.into_iter().filter(|(_, signal)| !ignored.contains(*signal)) {
            let mut stream = unix::signal(kind)?;
            let sender = sender.clone();
            catching
                .spawn(async move { while stream.recv().await.is_some() && sender.send(signal).is_ok() {} });
        }
        Ok(Self { signals, _catching: catching })
    }

    /// Waits until this work is done. After a signal that ends a process it waits only a moment longer, because the sender
    /// waits too. Returns `None` if the work was not done by then.
    pub(super) async fn bound<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                Some(signal) = self.signals.recv() => {
                    if ENDING.contains(&signal) {
                        return timeout(LAST_MOMENT, work).await.ok();
                    }
                }
            }
        }
    }
}

impl RunningCommand {
    /// Starts the command. Its standard streams are those of this process.
    ///
    /// # Errors
    ///
    /// If the system cannot start it.
    pub(super) fn start(
        program: &OsString,
        arguments: &[OsString],
        signals: CaughtSignals,
    ) -> Result<Self, (io::Error, CaughtSignals)> {
        match Command::new(program).args(arguments).spawn() {
            Ok(child) => Ok(Self { child, signals }),
            Err(error) => Err((error, signals)),
        }
    }

    /// Waits until the command has ended. If its hold is lost before, the command is told to end, or goes on. The signals
    /// are returned, for what is done after it. An error is the system's, which does not say how the command ended.
    pub(super) async fn wait(
        mut self,
        loss: impl Future<Output = Loss>,
        after_loss: AfterLoss,
    ) -> (io::Result<u8>, CaughtSignals) {
        let (mut loss, mut is_lost) = (pin!(loss), false);
        loop {
            tokio::select! {
                ended = self.child.wait() => return (ended.map(status), self.signals),
                Some(signal) = self.signals.signals.recv() => {
                    if !comes_from_terminal(signal) {
                        self.send(signal);
                    }
                }
                reason = &mut loss, if !is_lost => {
                    is_lost = true;
                    match after_loss {
                        AfterLoss::Terminate => {
                            output::complain(format_args!("error: {reason}; the command gets SIGTERM"));
                            self.send(Signal::TERM);
                        }
                        AfterLoss::KeepRunning => {
                            output::complain(format_args!("warning: {reason}; the command goes on"));
                        }
                    }
                }
            }
        }
    }

    /// Sends a signal to the command, if it still runs: the system gives its number to no other process before `wait`.
    fn send(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Only a command that has changed its user cannot be told.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Returns the exit status for a command that did not start, as shells do.
pub(super) fn not_started(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
}

/// Returns the status of the command or, if a signal ended it, what shells say.
fn status(ended: ExitStatus) -> u8 {
    let number = ended.code().or_else(|| Some(i32::from(SIGNALED) + ended.signal()?));
    number.and_then(|number| u8::try_from(number).ok()).unwrap_or(u8::MAX)
}

/// Returns whether the command has this signal already: a terminal sends it to all processes in its foreground.
fn comes_from_terminal(signal: Signal) -> bool {
    let is_key = matches!(signal, Signal::INT | Signal::QUIT);
    is_key
        && File::open("/dev/tty")
            .is_ok_and(|terminal| tcgetpgrp(terminal).is_ok_and(|foreground| foreground == getpgrp()))
}

impl IgnoredSignals {
    /// Reads them where the system has `/proc`; elsewhere, none is.
    fn read() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        Self(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
    }

    const fn contains(&self, signal: Signal) -> bool {
        self.0 & (1 << (signal.as_raw() - 1)) != 0
    }
}
