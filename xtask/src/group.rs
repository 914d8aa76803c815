//! A process and all that it starts, ended together when they take too long.

use std::io::{self, Read};
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, getpgrp, getpid, kill_current_process_group, kill_process_group};

use crate::command::CommandLine;
use crate::stopwatch::Stopwatch;

/// How a group ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// By itself: how its first process did.
    Exit(ExitStatus),
    /// It was killed, because it had not ended in time.
    RanOver,
}

/// Runs the command as the first of a process group, its output among ours, and kills the group if it has not ended
/// within the limit.
pub(crate) fn run(command: &CommandLine, limit: Duration) -> Result<Ending> {
    let watch = Stopwatch::start();
    let mut child = command.spawn_group()?;
    while watch.elapsed() < limit {
        if let Some(status) = child.try_wait().with_context(|| format!("lost sight of `{command}`"))? {
            return Ok(Ending::Exit(status));
        }
        thread::sleep(Duration::from_millis(20));
    }
    kill_process_group(Pid::from_child(&child), Signal::KILL)
        .with_context(|| format!("cannot kill `{command}`"))?;
    child.wait().with_context(|| format!("lost sight of `{command}`"))?;
    Ok(Ending::RanOver)
}

/// Ends this process's group as soon as whoever started it with [`run`] has ended, however that was: what a terminal
/// sends to whom it interrupts does not reach other groups than its own.
pub(crate) fn end_with_parent() {
    // Started by hand it is a member of its shell's group.
    if getpgrp() != getpid() {
        return;
    }
    thread::spawn(|| {
        // Nothing is ever written: it ends when the other end is closed.
        let _ = io::stdin().read(&mut [0]);
        let _ = kill_current_process_group(Signal::KILL);
    });
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::command::command;

    #[test]
    fn what_ends_in_time_says_how() {
        let ending = run(&command("sh -c").argument("exit 3"), Duration::from_secs(600)).unwrap();
        assert!(matches!(ending, Ending::Exit(status) if status.code() == Some(3)), "{ending:?}");
    }

    #[test]
    fn what_takes_too_long_is_killed_with_all_that_it_started() {
        let file = std::env::temp_dir().join(format!("tollgate-group-{}", std::process::id()));
        let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
        // A machine that stands still may have started nothing by then.
        let grandchild = [1, 10, 60].into_iter().find_map(|limit| {
            let ending = run(&command("sh -c").argument(&script), Duration::from_secs(limit)).unwrap();
            assert!(matches!(ending, Ending::RanOver), "{ending:?}");
            fs::read_to_string(&file).ok()
        });
        let grandchild = grandchild.expect("it started another");
        fs::remove_file(&file).unwrap();
        // Whoever is killed goes when its machine has time, and whoever adopts it may not have buried it yet.
        let watch = Stopwatch::start();
        loop {
            let state = fs::read_to_string(format!("/proc/{}/stat", grandchild.trim())).unwrap_or_default();
            if state.is_empty() || state.contains(") Z ") {
                break;
            }
            assert!(watch.elapsed() < Duration::from_secs(60), "{state}");
            thread::sleep(Duration::from_millis(10));
        }
    }
}
