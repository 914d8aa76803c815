//! A process, how long it takes and how much memory.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tollgate_bench_harness::stopwatch::Stopwatch;

/// How often the memory of a process is looked at. Its peak stays readable until it ends.
const LOOK: Duration = Duration::from_millis(5);

/// A process that has ended well.
pub(crate) struct Ended {
    pub(crate) seconds: f64,
    /// Of all cores together.
    pub(crate) processor_seconds: f64,
    /// The peak, as it was last seen before the end.
    pub(crate) resident_bytes: u64,
    pub(crate) output: String,
}

/// Runs this command to its end.
pub(crate) fn run(mut command: Command) -> Result<Ended> {
    let watch = Stopwatch::start();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    watched(child.with_context(|| format!("{command:?}"))?, watch, &command)
}

/// Waits for the end of a process whose output nobody reads yet.
pub(crate) fn watched(mut child: Child, watch: Stopwatch, command: &Command) -> Result<Ended> {
    let process = child.id();
    let mut out = child.stdout.take().context("its output is piped")?;
    let output = thread::spawn(move || std::io::read_to_string(&mut out));
    let mut resident_bytes = 0;
    let before = processor_seconds()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        resident_bytes = resident_bytes.max(peak(process).unwrap_or(0));
        thread::sleep(LOOK);
    };
    let seconds = watch.elapsed().as_secs_f64();
    let processor_seconds = processor_seconds()? - before;
    ensure!(status.success(), "{command:?}: {status}");
    let output = output.join().ok().context("the reader of its output panicked")??;
    Ok(Ended { seconds, processor_seconds, resident_bytes, output })
}

/// The peak of a process's resident bytes; `None` if it has just ended.
fn peak(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// The processor time of all processes that this one has waited for, in seconds.
fn processor_seconds() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/stat")?;
    // The name of the program may have spaces, and ends with a bracket. Then come the third field and others.
    let (_, fields) = text.rsplit_once(')').context("no name in /proc/self/stat")?;
    let ticks = fields.split_whitespace().skip(13).take(2).map(str::parse::<u64>);
    let ticks = ticks.sum::<Result<u64, _>>().context("no times in /proc/self/stat")?;
    // A tick is a hundredth of a second on Linux, whatever the kernel's own clock does.
    Ok(ticks as f64 / 100.0)
}
