//! How long the steps of a call to a shared store may take: as long as the caller waits, and no longer than one deadline for
//! all of them.

use std::cell::Cell;
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

/// A call of several steps, such as a check and its trials.
struct Call {
    begun: Stopwatch,
    /// Whether a step has been waited for.
    has_waited: Cell<bool>,
}

tokio::task_local! {
    static PATIENCE: Patience;
    static CALL: Call;
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

/// Runs a call whose steps share one deadline.
pub(super) async fn in_one_call<T>(call: impl Future<Output = T>) -> T {
    CALL.scope(Call { begun: Stopwatch::start(), has_waited: Cell::new(false) }, call).await
}

/// To be called before a step is waited for. Returns what earlier steps of its call have left of this deadline; `None` if it
/// is the first.
pub(super) fn left_by_earlier_steps(deadline: Duration) -> Option<Duration> {
    let left = |Call { begun, has_waited }: &Call| {
        has_waited.replace(true).then(|| deadline.saturating_sub(begun.elapsed()))
    };
    CALL.try_with(left).ok().flatten()
}
