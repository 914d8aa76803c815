//! How long a step of a call to a shared store may take: as long as the caller waits, and no longer than one deadline
//! for all steps of the call.

use std::cell::Cell;
use std::time::Duration;

use crate::observe::stopwatch::Stopwatch;

/// Kept back from the caller's time, so that the answer still reaches the caller.
const MARGIN: Duration = Duration::from_millis(3);

/// The part of it after which a store is cut off that does not keep the time itself.
pub(super) const GRACE: Duration = Duration::from_millis(2);

/// A store that does not answer the first step of a call in less time than this is not late. A later step does not
/// begin with less than this, or with less than a twentieth of a shorter deadline: it would probably be cut off, and
/// its outcome unknown.
const LEAST: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy)]
struct Patience {
    begun: Stopwatch,
    limit: Duration,
}

/// A call of several steps, such as a check and its trials.
#[derive(Default)]
struct Call {
    /// When its first step began.
    begun: Cell<Option<Stopwatch>>,
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
    /// As long as the caller waits, which is less: a store that takes longer is late.
    AtMost(Duration),
    /// What earlier steps of the call have left. If that does not suffice, the store need not be the reason.
    Rest(Duration),
    /// Too little to begin.
    TooLittle,
}

impl StepTime {
    /// The time of the step that begins now, with this deadline.
    pub(super) fn of_next(deadline: Duration) -> Self {
        let patience = left();
        let rest = CALL.try_with(|Call { begun }| {
            let first = begun.get();
            begun.set(first.or_else(|| Some(Stopwatch::start())));
            first.map(|first| deadline.saturating_sub(first.elapsed()))
        });
        match (rest.ok().flatten(), patience) {
            (Some(rest), _) => match rest.min(patience.unwrap_or(rest)) {
                left if left < LEAST.min(deadline / 20) => Self::TooLittle,
                left => Self::Rest(left),
            },
            (None, Some(left)) if left < deadline => Self::AtMost(left.max(LEAST)),
            (None, _) => Self::Whole,
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

/// Runs a call whose steps share one deadline, from the start of the first.
pub(crate) fn in_one_call<F: Future>(call: F) -> impl Future<Output = F::Output> {
    CALL.scope(Call::default(), call)
}

/// Returns how long the caller still waits for steps of the store.
fn left() -> Option<Duration> {
    let left =
        |Patience { begun, limit }: &Patience| limit.saturating_sub(begun.elapsed()).saturating_sub(MARGIN);
    PATIENCE.try_with(left).ok()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tollgate_testkit::block_on;

    use super::*;

    /// The trial of an impatient caller was taken for one of a caller that waits for the whole deadline: that it had no
    /// answer soon enough counted as an outage.
    #[test]
    fn later_steps_have_the_rest_whoever_limits_the_call() {
        let (deadline, limit) = (Duration::from_secs(100), Duration::from_secs(20));
        let next = || StepTime::of_next(deadline);
        let is_below = |left: Duration, most: u64| left <= Duration::from_secs(most) && left > limit / 2;
        block_on(async {
            assert_eq!(next(), StepTime::Whole);
            in_one_call(async {
                assert_eq!(next(), StepTime::Whole);
                assert!(matches!(next(), StepTime::Rest(left) if is_below(left, 100)));
            })
            .await;
            let impatient = in_one_call(async {
                assert!(matches!(next(), StepTime::AtMost(left) if is_below(left, 20)));
                assert!(matches!(next(), StepTime::Rest(left) if is_below(left, 20)));
            });
            with_patience(Some(limit), impatient).await;
            let without_time = in_one_call(async {
                // Real time: the deadline passes.
                thread::sleep(MARGIN);
                assert_eq!(next(), StepTime::AtMost(LEAST));
                assert_eq!(next(), StepTime::TooLittle);
            });
            with_patience(Some(MARGIN), without_time).await;
        });
    }
}
