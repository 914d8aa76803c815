//! A process and everything that it starts: their output is printed under one name, and they end together.

use std::io::{self, BufRead, BufReader, PipeReader, Read};
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, getpgrp, getpid, kill_current_process_group, kill_process_group};

use crate::command::CommandLine;
use crate::stopwatch::{Stopwatch, processor_time_of_children};

/// How a group ended.
#[derive(Debug)]
pub(crate) enum GroupEnding {
    /// Its first process ended by itself, with this status.
    Exit(ExitStatus),
    /// It was killed at its time limit.
    RanOver,
    /// It was killed because it should stop.
    Stopped,
}

/// What became of a group.
#[derive(Debug)]
pub(crate) struct GroupEnd {
    pub(crate) ending: GroupEnding,
    /// That of its first process and of all that were waited for below it.
    pub(crate) processor_time: Duration,
}

/// Held while a group's first process is waited for, so that the time of two groups is not confused.
static WAITING: Mutex<()> = Mutex::new(());

/// How long to wait for the rest of the output after the first process has ended. A process that left the group could
/// keep the pipe open.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Runs the command as the first of a process group and prints its output, each line after `[name]`.
///
/// Kills the group if it has not ended within the limit, or as soon as `should_stop` is true.
pub(crate) fn run(
    command: &CommandLine,
    name: &str,
    limit: Duration,
    should_stop: impl Fn() -> bool,
) -> Result<GroupEnd> {
    let watch = Stopwatch::start();
    let (output, theirs) = io::pipe().context("cannot make a pipe")?;
    let mut child = command.spawn_group(theirs)?;
    let printed = print_lines(name.to_owned(), output);
    let mut killed = None;
    let (status, processor_time) = loop {
        if let Some(ended) = try_wait(&mut child).with_context(|| format!("lost sight of `{command}`"))? {
            break ended;
        }
        let stop = should_stop();
        if killed.is_none() && (stop || watch.elapsed() >= limit) {
            kill_process_group(Pid::from_child(&child), Signal::KILL)
                .with_context(|| format!("cannot kill `{command}`"))?;
            killed = Some(if stop { GroupEnding::Stopped } else { GroupEnding::RanOver });
        }
        thread::sleep(Duration::from_millis(20));
    };
    // An error means that everything has been printed.
    let _ = printed.recv_timeout(LAST_LINES);
    Ok(GroupEnd { ending: killed.unwrap_or(GroupEnding::Exit(status)), processor_time })
}

/// Returns the status and the processor time of a child that has ended.
fn try_wait(child: &mut Child) -> io::Result<Option<(ExitStatus, Duration)>> {
    let _waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    let before = processor_time_of_children();
    let status = child.try_wait()?;
    Ok(status.map(|status| (status, processor_time_of_children().saturating_sub(before))))
}

/// Prints lines until the other end closes, which disconnects the receiver.
fn print_lines(name: String, output: PipeReader) -> mpsc::Receiver<()> {
    let (done, printed) = mpsc::channel();
    thread::spawn(move || {
        let _done = done;
        let mut lines = BufReader::new(output);
        let mut line = Vec::new();
        while matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
            eprintln!("[{name}] {}", String::from_utf8_lossy(&line).trim_end_matches('\n'));
            line.clear();
        }
    });
    printed
}

/// Ends this process's group when the process that started it with [`run`] ends. A terminal's interrupt reaches only
/// the foreground group.
pub(crate) fn end_with_parent() {
    // A process started by hand belongs to its shell's group.
    if getpgrp() != getpid() {
        return;
    }
    thread::spawn(|| {
        // Nothing is ever written: the read returns when the other end closes.
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
    fn a_group_that_ends_in_time_has_a_status() {
        let exit = command("sh -c").argument("exit 3");
        let ending = run(&exit, "exit", Duration::from_secs(600), || false).unwrap().ending;
        assert!(matches!(ending, GroupEnding::Exit(status) if status.code() == Some(3)), "{ending:?}");
    }

    #[test]
    fn a_group_that_takes_too_long_is_killed_with_all_that_it_started() {
        let file = std::env::temp_dir().join(format!("tollgate-group-{}", std::process::id()));
        let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
        // A stalled machine may start nothing within a second.
        let grandchild = [1, 10, 60].into_iter().find_map(|limit| {
            let sleeps = command("sh -c").argument(&script);
            let ending = run(&sleeps, "sleeps", Duration::from_secs(limit), || false).unwrap().ending;
            assert!(matches!(ending, GroupEnding::RanOver), "{ending:?}");
            fs::read_to_string(&file).ok()
        });
        let grandchild = grandchild.expect("it started another");
        fs::remove_file(&file).unwrap();
        // A slow machine may take a while to end it, and its new parent may not have reaped it yet.
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
