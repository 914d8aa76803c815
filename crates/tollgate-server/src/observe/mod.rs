//! The log of the service, and the stopwatch of everything that is measured.

pub(crate) mod log_gap;
pub mod logs;
pub(crate) mod secret_file;
pub(crate) mod stopwatch;
pub(crate) mod warning_log;
pub(crate) mod with_sources;
