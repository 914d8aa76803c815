//! How long a step of a call to a shared store may take: as long as the caller waits, and no longer than one deadline for
//! all steps of the call.

use std::cell::Cell;
use std::time::Duration;

use crate::stopwatch::Stopwatch;

/// Kept back from the caller's time, so that the answer still reaches the caller.
const MARGIN: Duration = Duration::from_millis(3);

/// Of that, how much later a store is cut off that does not keep the time itself.
pub(super) const GRACE: Duration = Duration::from_millis(2);

/// A store that does not answer in less time than this is not late.
const LEAST: Duration = Duration::from_millis(5);

/// A step with less than this part of the deadline does not begin: it would be cut off, and its outcome unknown.
const TOO_LITTLE: u32 = 20;

#[derive(Debug, Clone, Copy)]
struct Patience {
    begun: Stopwatch,
    limit: Duration,
}

/// A call of several steps, such as a check and its trials.
struct Call {
    begun: Stopwatch,
    /// Whether a step has begun.
    has_step: Cell<bool>,
}

tokio::task_local! {
    static PATIENCE: Patience;
    static CALL: Call;
}

/// How long a step may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepTime {
    /// The whole deadline.
    Whole,
    /// Less than that, but enough: a store that takes longer is late.
    AtMost(Duration),
    /// Less than half of the deadline, because earlier steps took the rest. If that does not suffice, the store need not be
    /// the reason.
    Rest(Duration),
    /// Too little to begin.
    TooLittle,
}

impl StepTime {
    /// The time of the step that begins now, with this deadline.
    pub(super) fn of_next(deadline: Duration) -> Self {
        let patience = left().filter(|left| *left < deadline);
        let rest = CALL.try_with(|Call { begun, has_step }| {
            has_step.replace(true).then(|| deadline.saturating_sub(begun.elapsed()))
        });
        let rest = rest.ok().flatten();
        let shortest = patience.into_iter().chain(rest).min();
        match (rest, shortest) {
            (Some(rest), _) if rest < deadline / TOO_LITTLE => Self::TooLittle,
            (Some(rest), Some(shortest)) if rest < deadline / 2 => Self::Rest(shortest),
            (_, shortest) => shortest.map_or(Self::Whole, Self::AtMost),
        }
    }
}

/// Runs a check whose caller waits this long. Then a store that hangs is late while the caller still waits, and the
/// policies decide without it.
pub(crate) async fn with_patience<T>(limit: Option<Duration>, check: impl Future<Output = T>) -> T {
    match limit {
        None => check.await,
        Some(limit) => PATIENCE.scope(Patience { begun: Stopwatch::start(), limit }, check).await,
    }
}

/// Runs a call whose steps share one deadline.
pub(super) async fn in_one_call<T>(call: impl Future<Output = T>) -> T {
    CALL.scope(Call { begun: Stopwatch::start(), has_step: Cell::new(false) }, call).await
}

/// Returns how long the caller lets a step of the store take.
fn left() -> Option<Duration> {
    PATIENCE
        .try_with(|Patience { begun, limit }| {
            limit.saturating_sub(begun.elapsed()).saturating_sub(MARGIN).max(LEAST)
        })
        .ok()
}
