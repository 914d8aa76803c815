//! How long the caller of a check waits, for the steps of a shared store that the check makes.

use std::time::Duration;

use crate::stopwatch::Stopwatch;

/// Kept back from the caller's time, so that the answer still reaches the caller.
const MARGIN: Duration = Duration::from_millis(3);

/// A store that does not answer in less time than this is not late.
const LEAST: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy)]
struct Patience {
    begun: Stopwatch,
    limit: Duration,
}

tokio::task_local! {
    static PATIENCE: Patience;
}

/// Runs a check whose caller waits this long. Then a store that hangs is late while the caller still waits, and the
/// policies decide without it.
pub(crate) async fn with_patience<T>(limit: Option<Duration>, check: impl Future<Output = T>) -> T {
    match limit {
        None => check.await,
        Some(limit) => PATIENCE.scope(Patience { begun: Stopwatch::start(), limit }, check).await,
    }
}

/// Returns how long the caller lets a step of the store take.
pub(super) fn left() -> Option<Duration> {
    PATIENCE
        .try_with(|Patience { begun, limit }| {
            limit.saturating_sub(begun.elapsed()).saturating_sub(MARGIN).max(LEAST)
        })
        .ok()
}
