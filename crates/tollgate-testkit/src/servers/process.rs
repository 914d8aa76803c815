//! A child process that never outlives the tests.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A running program: killed when it is dropped, and killed by its watchdog when this process ends without that.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    watchdog: Child,
}

/// Its standard input is a pipe whose other end this process holds, and the kernel closes that end however we end.
/// `PR_SET_PDEATHSIG` would not do: it fires when the thread that started the child ends, as every test's does.
const WATCHDOG: &str = "read -r _; kill -KILL \"$1\"; rm -rf \"$2\"";

impl Process {
    /// Starts it. Its watchdog removes the folder as well.
    pub(super) fn start(command: &mut Command, folder: &Path) -> Self {
        // Groups of their own, so that a signal to ours, as a terminal or a time limit sends, does not end the
        // watchdog before its work.
        let child = command.stdin(Stdio::null()).process_group(0).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {:?}: {error}", command.get_program()));
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog", &child.id().to_string()])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        Self { child, watchdog: watchdog.expect("a shell starts") }
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a child that was not waited for can be signalled");
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watchdog first: it must not find another process under a number that is free again.
        for child in [&mut self.watchdog, &mut self.child] {
            // Either may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::test_kill_process;

    use super::*;
    use crate::servers::patience::wait_for;

    fn sleeper(folder: &Path) -> Process {
        Process::start(Command::new("sleep").arg("600"), folder)
    }

    #[test]
    fn ends_when_it_is_dropped_even_when_it_is_stopped() {
        let process = sleeper(Path::new("/nowhere"));
        let pid = process.pid();
        process.signal(Signal::STOP);
        assert!(test_kill_process(pid).is_ok());
        drop(process);
        assert!(test_kill_process(pid).is_err());
    }

    #[test]
    fn its_watchdog_ends_it_when_nobody_is_left_to_drop_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = sleeper(folder.path());
        // What the kernel does to the pipe of a process that is killed.
        drop(process.watchdog.stdin.take());
        wait_for("the end of the child", || process.ended());
        wait_for("the end of the folder", || (!folder.path().exists()).then_some(()));
    }
}
