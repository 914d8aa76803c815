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
use std::time::Duration;
use std::{env, thread};

use clap::ValueEnum;
use thiserror::Error;
use tracing::level_filters::LevelFilter;
use tracing::warn;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The lowest level of our own lines that are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// What failed
    Error,
    /// What an operator should look at
    Warn,
    /// Each start, stop and change
    Info,
    /// Details
    Debug,
    /// Everything
    Trace,
}

/// The maximum number of lines that wait to be written. Further ones are lost.
const WAITING: usize = 1024;

/// The beginning of the targets of our own crates.
const OWN_TARGETS: &str = "tollgate";

/// How long the process waits for its last lines before it exits.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The log. Dropping it waits until its lines are written, for a second at most.
#[derive(Debug)]
pub struct Log(LogLines);

/// The writer of log lines. It never blocks and never fails.
#[derive(Debug, Clone)]
struct LogLines {
    queue: SyncSender<LogEntry>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum LogEntry {
    Line(Box<[u8]>),
    /// Every line before this one has been written once the sender is dropped.
    End(#[expect(dead_code, reason = "dropping it is what it is for")] SyncSender<()>),
}

/// An unusable value of `RUST_LOG`; the operator's fault.
#[derive(Debug, Error)]
enum FilterError {
    #[error("`{0}`: {1}")]
    Invalid(String, ParseError),
    #[error("`{0}`: filters by span or field are not supported: use LEVEL or TARGET=LEVEL")]
    Span(String),
}

/// Sends log lines to standard error from now on: our own of this level and above, and those of libraries of level
/// `error`, unless `RUST_LOG` says otherwise.
///
/// # Errors
///
/// If the process cannot have another thread or file.
pub fn start(format: LogFormat, level: LogLevel) -> io::Result<Log> {
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let (queue, waiting) = sync_channel(WAITING);
    let lines = LogLines { queue, lost: Arc::default() };
    let lost = Arc::clone(&lines.lost);
    thread::Builder::new().name("log".to_owned()).spawn(move || write(stderr, &waiting, &lost))?;

    let asked = env::var_os("RUST_LOG").unwrap_or_default();
    let own = level.into();
    let (filter, wrong) = match filter(&asked.to_string_lossy(), own) {
        Ok(filter) => (filter, None),
        Err(error) => (by_default(own), Some(error)),
    };
    let writer = lines.clone();
    let layer = fmt::layer().with_writer(move || writer.clone());
    let layer = match format {
        LogFormat::Text => layer.with_target(false).with_ansi(io::stderr().is_terminal()).compact().boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_current_span(false).boxed(),
    };
    // An error means that a caller has set up logs already, which then stay.
    let _ = tracing_subscriber::registry().with(layer).with(filter).try_init();
    if let Some(error) = wrong {
        warn!(%error, "RUST_LOG cannot be used: lines of level {own} and above are logged");
    }
    Ok(Log(lines))
}

/// Parses the value of `RUST_LOG`: levels and `TARGET=LEVEL`, separated by commas.
///
/// A level alone is for our own targets. HTTP libraries log frames of clients from level `warn` on, so a client could
/// fill the log unless the operator names their targets.
fn filter(directives: &str, mut own: LevelFilter) -> Result<Targets, FilterError> {
    let mut targets = Vec::new();
    for directive in directives.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
        if directive.contains('[') {
            return Err(FilterError::Span(directive.to_owned()));
        }
        let parsed: Targets =
            directive.parse().map_err(|error| FilterError::Invalid(directive.to_owned(), error))?;
        own = parsed.default_level().unwrap_or(own);
        targets.extend(parsed);
    }
    Ok(by_default(own).with_targets(targets))
}

/// Returns the filter without named targets: this level for our own lines, and `error` for those of libraries.
fn by_default(own: LevelFilter) -> Targets {
    Targets::new().with_default(LevelFilter::ERROR).with_target(OWN_TARGETS, own)
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

fn write(mut stderr: File, waiting: &Receiver<LogEntry>, lost: &AtomicU64) {
    for entry in waiting {
        let LogEntry::Line(line) = entry else { continue };
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
impl Write for LogLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(LogEntry::Line(line.into())).is_err() {
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
        if self.0.queue.try_send(LogEntry::End(end)).is_ok() {
            // It ends with an error either way: the sender is dropped, or the time is over.
            let _ = written.recv_timeout(LAST_LINES);
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    fn enabled(directives: &str) -> impl Fn(&str, Level) -> bool {
        let filter = filter(directives, LevelFilter::INFO).unwrap();
        move |target, level| filter.would_enable(target, &level)
    }

    /// A client that sent frames which nobody asked for wrote 25 MB of log a second, through a library's target.
    #[test]
    fn lines_of_libraries_are_errors_alone_unless_their_target_is_named() {
        for (directives, level) in
            [("", Level::INFO), ("warn", Level::WARN), ("INFO", Level::INFO), ("trace", Level::TRACE)]
        {
            let enabled = enabled(directives);
            for target in ["h2::proto::ping_pong", "hyper", "rustls::server", "log"] {
                assert!(enabled(target, Level::ERROR) && !enabled(target, Level::WARN), "{directives}");
            }
            for target in ["tollgate", "tollgate_server::tls", "tollgate_redis"] {
                assert!(enabled(target, level), "{directives}");
                assert!(level == Level::TRACE || !enabled(target, Level::TRACE), "{directives}");
            }
        }
        let named = enabled("info, h2=debug,tollgate_redis=off,");
        assert!(named("h2::codec", Level::DEBUG) && named("tollgate_server", Level::INFO));
        assert!(!named("hyper", Level::WARN) && !named("tollgate_redis", Level::ERROR));
        assert!(!enabled("off")("tollgate_server", Level::ERROR));
        let quiet = |directives| filter(directives, LogLevel::Warn.into()).unwrap();
        assert!(!quiet("").would_enable("tollgate_server", &Level::INFO));
        assert!(quiet("info").would_enable("tollgate_server", &Level::INFO));
    }

    #[test]
    fn a_filter_that_cannot_be_used_is_named() {
        for wrong in ["tollgate=loud", "info,h2=a=b", "tollgate[check]=info", "tollgate[{policy=a}]=info"] {
            let error = filter(wrong, LevelFilter::INFO).unwrap_err().to_string();
            assert!(error.contains(wrong.trim_start_matches("info,")), "{error}");
        }
    }
}
