//! When those who wait for one batch have waited long enough.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout_at;
use tollgate::StoreError;

use crate::lane::Entry;
use crate::time::Instant;
use crate::trouble::Trouble;

/// The most by which a caller may be told late that its deadline has passed. One timer does for a batch whose deadlines lie
/// within such a while.
const SLACK: Duration = Duration::from_millis(2);

/// The deadlines of those who are not answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    first: Instant,
    last: Instant,
    slack: Duration,
}

/// By how much callers may be told late, if decisions may take so long: a tenth of it at most.
pub(super) fn slack(timeout: Duration) -> Duration {
    SLACK.min(timeout / 10)
}

impl Deadlines {
    /// `None` if nobody waits.
    pub(super) fn of(entries: &[Entry], slack: Duration) -> Option<Self> {
        let mut waiting = entries.iter().map(|entry| &entry.waiter).filter(|waiter| !waiter.is_answered());
        let first = waiting.next()?.deadline;
        let both = |Self { first, last, slack }: Self, deadline: Instant| Self {
            first: first.min(deadline),
            last: last.max(deadline),
            slack,
        };
        Some(waiting.map(|waiter| waiter.deadline).fold(Self { first, last: first, slack }, both))
    }

    /// Until when somebody waits.
    pub(super) const fn last(&self) -> Instant {
        self.last
    }

    /// Awaits the reply, and meanwhile tells those whose deadline comes first that it is over for them, and why. `None`
    /// once that is so for all.
    pub(super) async fn in_time<T>(
        &mut self,
        entries: &mut [Entry],
        reply: impl Future<Output = T>,
        why: impl Fn() -> Trouble,
    ) -> Option<T> {
        let mut reply = pin!(reply);
        loop {
            let at = if self.last <= self.first + self.slack { self.last } else { self.first };
            if let Ok(reply) = timeout_at(at, &mut reply).await {
                return Some(reply);
            }
            let error = StoreError::from(why());
            for entry in entries.iter_mut().filter(|entry| entry.waiter.deadline <= at) {
                entry.waiter.answer(Err(error.clone()));
            }
            *self = Self::of(entries, self.slack)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use smallvec::smallvec;

    use super::*;
    use crate::keys::Slot;
    use crate::lane::Waiter;
    use crate::script::Request;
    use crate::time::instant;

    /// By how much the first of two callers is told late whose deadlines are so far apart, if decisions may take so long.
    async fn late_by(apart: Duration, timeout: Duration) -> Duration {
        let begun = instant();
        let entry = |deadline| {
            let (waiter, awaited) = Waiter::new(deadline);
            let request = Request { shapes: smallvec![], keys: smallvec![] };
            (Entry { slot: Slot(0), request, waiter }, awaited)
        };
        let ((first, mut awaited), (second, _)) = (entry(begun + timeout), entry(begun + timeout + apart));
        let mut entries = [first, second];
        let mut deadlines = Deadlines::of(&entries, slack(timeout)).unwrap();
        let told = tokio::spawn(async move {
            let _ = awaited.received().await;
            begun.elapsed()
        });
        deadlines.in_time(&mut entries, pending::<()>(), || Trouble::TimedOut).await;
        told.await.unwrap() - timeout
    }

    /// Callers were told up to 2 ms late whatever the deadline, which is most of a deadline of 2 ms.
    #[tokio::test(start_paused = true)]
    async fn callers_are_told_late_by_a_tenth_of_the_deadline_at_most() {
        let millis = Duration::from_millis;
        assert_eq!(late_by(millis(2), millis(20)).await, millis(2));
        assert_eq!(late_by(millis(3), millis(20)).await, millis(0));
        assert_eq!(late_by(millis(2), millis(10)).await, millis(0));
        assert_eq!(late_by(millis(1), millis(10)).await, millis(1));
        assert_eq!(late_by(millis(1), millis(2)).await, millis(0));
    }
}
