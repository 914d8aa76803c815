//! The log of the service, bounds on texts in it, and the stopwatch of everything that is measured.

pub(crate) mod live_warnings;
pub(crate) mod log_gap;
pub mod logs;
pub(crate) mod public_url;
pub(crate) mod secret_file;
pub(crate) mod shortened;
pub(crate) mod stopwatch;
pub(crate) mod warning_log;
pub(crate) mod with_sources;
