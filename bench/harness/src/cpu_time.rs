//! The CPU time of processes.

use std::fs;
use std::io;
use std::time::Duration;

use anyhow::{Context, Result};

/// Returns the user and system time of all threads of a process so far. Threads that have ended are not included: the
/// measured ones live as long as their process.
pub fn cpu_time(process: u32) -> Result<Duration> {
    let tasks = format!("/proc/{process}/task");
    let mut nanos = 0;
    for task in fs::read_dir(&tasks).with_context(|| tasks.clone())? {
        let schedstat = task?.path().join("schedstat");
        let text = match fs::read_to_string(&schedstat) {
            Ok(text) => text,
            Err(error) if has_ended(&error) => continue,
            Err(error) => return Err(error).context(schedstat.display().to_string()),
        };
        // Time on a core, time waiting for one, and time slices, in nanoseconds; `stat` only counts ticks.
        let on_core = text.split_whitespace().next().context("an empty schedstat")?;
        nanos += on_core.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// Whether the thread ended after it was listed: before its file was opened, or (`ESRCH`) later.
fn has_ended(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::thread;

    use super::*;

    struct Busy(Child);

    impl Drop for Busy {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    /// A separate process: in this one, other tests that end would take their time with them.
    #[test]
    fn a_busy_process_adds_its_time() {
        let busy = Busy(Command::new("yes").stdout(Stdio::null()).spawn().unwrap());
        let before = cpu_time(busy.0.id()).unwrap();
        while cpu_time(busy.0.id()).unwrap() < before + Duration::from_millis(20) {
            thread::yield_now();
        }
    }

    /// A run failed here when a thread of another test ended while the threads of the process were read.
    #[test]
    fn threads_that_end_meanwhile_are_passed_over() {
        for _ in 0..500 {
            let ends = thread::spawn(|| {});
            cpu_time(std::process::id()).unwrap();
            ends.join().unwrap();
        }
    }
}
