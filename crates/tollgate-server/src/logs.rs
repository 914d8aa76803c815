//! Log lines, on standard error: one for each start, stop and unusual event, none for each request.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;

/// Sends log lines to standard error from now on, of level `info` and above unless `RUST_LOG` says otherwise.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).from_env_lossy();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // An error means that somebody has set up logs before, and then those are wanted.
    let _ = match format {
        LogFormat::Text => {
            lines.with_target(false).with_ansi(std::io::stderr().is_terminal()).compact().try_init()
        }
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).try_init(),
    };
}
