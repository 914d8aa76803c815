//! Log lines about probable mistakes, within bounds.

use std::fmt::Display;

use tollgate_policy::Printable;
use tracing::warn;

/// The most warnings of one read that are logged.
const MAX_LOGGED: usize = 100;

/// Logs the first of these warnings, and how many more there are. `others` says how to see those.
pub(crate) fn log_first(mut warnings: impl Iterator<Item = impl Display>, file: &str, others: &str) {
    for warning in warnings.by_ref().take(MAX_LOGGED) {
        warn!("{}", Printable(&warning.to_string()));
    }
    let more = warnings.count();
    if more > 0 {
        warn!(file, more, "there are more warnings; {others}");
    }
}
