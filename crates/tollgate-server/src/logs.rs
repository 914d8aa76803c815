//! Log lines, on standard error: one for each start, stop and unusual event, none for each request.
//!
//! A separate thread writes them, so a standard error that is full, closed or unread neither delays nor fails anything.
//! Lines that it does not accept are lost; the log reports their number once it accepts lines again.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::warn;
use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;

/// The maximum number of lines that wait to be written. Further ones are lost.
const WAITING: usize = 1024;

/// How long the process waits for its last lines before it exits.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The log. Dropping it waits until its lines are written, for a second at most.
#[derive(Debug)]
pub struct Log(Lines);

/// The writer of log lines. It never blocks and never fails.
#[derive(Debug, Clone)]
struct Lines {
    queue: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Entry {
    Line(Box<[u8]>),
    /// Every line before this one has been written once the sender is dropped.
    End(#[expect(dead_code, reason = "dropping it is what it is for")] SyncSender<()>),
}

/// Sends log lines to standard error from now on, of level `info` and above by default (`RUST_LOG`).
///
/// # Errors
///
/// If the process cannot have another thread or file.
pub fn start(format: LogFormat) -> io::Result<Log> {
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let (queue, waiting) = sync_channel(WAITING);
    let lines = Lines { queue, lost: Arc::default() };
    let lost = Arc::clone(&lines.lost);
    thread::Builder::new().name("log".to_owned()).spawn(move || write(stderr, &waiting, &lost))?;

    let level = || EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    let asked = level().from_env();
    let wrong = asked.as_ref().err().map(ToString::to_string);
    let filter = asked.unwrap_or_else(|_| level().parse_lossy(""));
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || writer.clone());
    // An error means that a caller has set up logs already, which then stay.
    let _ = match format {
        LogFormat::Text => {
            subscriber.with_target(false).with_ansi(io::stderr().is_terminal()).compact().try_init()
        }
        LogFormat::Json => subscriber.json().flatten_event(true).with_current_span(false).try_init(),
    };
    if let Some(error) = wrong {
        warn!(error, "RUST_LOG cannot be used: lines of level info and above are logged");
    }
    Ok(Log(lines))
}

fn write(mut stderr: File, waiting: &Receiver<Entry>, lost: &AtomicU64) {
    for entry in waiting {
        let Entry::Line(line) = entry else { continue };
        if stderr.write_all(&line).is_err() {
            lost.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        // Only after a successful write: if the report itself were lost, it would cause the next one.
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            warn!(lost, "log lines were lost, because they could not be written to standard error");
        }
    }
}

/// Accepts one whole line at a time, as the subscriber writes them.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Entry::Line(line.into())).is_err() {
            // Relaxed, here and above: the count guards no other memory.
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (end, written) = sync_channel(0);
        if self.0.queue.try_send(Entry::End(end)).is_ok() {
            // It ends with an error either way: the sender is dropped, or the time is over.
            let _ = written.recv_timeout(LAST_LINES);
        }
    }
}
