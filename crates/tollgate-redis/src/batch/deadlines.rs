//! The deadlines of the callers of a batch.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout_at;
use tollgate::StoreError;

use crate::time::{Instant, instant};
use crate::trouble::Trouble;
use crate::waiter::{ProcessPause, WaitingRequest};

/// The most by which a caller may be told late that its deadline has passed. One timer does for a batch whose deadlines
/// lie within such a while.
const SLACK: Duration = Duration::from_millis(2);

/// The deadlines of the callers without an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    first: Instant,
    last: Instant,
    /// The deadline of a decision.
    timeout: Duration,
    /// Why some of them were moved.
    held_up: Option<ProcessPause>,
}

/// The slack for this deadline of a decision: at most a tenth of it.
pub(super) fn slack(timeout: Duration) -> Duration {
    SLACK.min(timeout / 10)
}

impl Deadlines {
    /// `None` if no caller waits.
    pub(super) fn of(entries: &[WaitingRequest], timeout: Duration) -> Option<Self> {
        let mut waiting = entries.iter().map(|entry| &entry.waiter).filter(|waiter| !waiter.is_answered());
        let first = waiting.next()?.deadline;
        let both =
            |(first, last): (Instant, Instant), deadline: Instant| (first.min(deadline), last.max(deadline));
        let (first, last) = waiting.map(|waiter| waiter.deadline).fold((first, first), both);
        Some(Self { first, last, timeout, held_up: None })
    }

    /// Whether this process was held up, as the time at which a reply is taken shows.
    pub(super) fn held_up(&self, now: Instant) -> Option<ProcessPause> {
        self.held_up.or_else(|| ProcessPause::noticed(self.first, self.first, now))
    }

    /// The latest deadline.
    pub(super) const fn last(&self) -> Instant {
        self.last
    }

    /// Awaits the reply. Meanwhile, callers whose deadlines pass get an error. Returns `None` once all deadlines have
    /// passed.
    ///
    /// If this process itself did not run when a deadline passed, nobody could take the reply, which may be there by
    /// now. So as much time is added as the process was late, but once, and no more than a decision may take.
    pub(super) async fn in_time<T>(
        &mut self,
        entries: &mut [WaitingRequest],
        reply: impl Future<Output = T>,
        why: impl Fn() -> Trouble,
    ) -> Option<T> {
        let mut reply = pin!(reply);
        loop {
            let at = if self.last <= self.first + slack(self.timeout) { self.last } else { self.first };
            if let Ok(reply) = timeout_at(at, &mut reply).await {
                return Some(reply);
            }
            let held_up = ProcessPause::noticed(self.first, at, instant());
            let error = StoreError::from(why());
            for WaitingRequest { waiter, .. } in
                entries.iter_mut().filter(|entry| entry.waiter.deadline <= at)
            {
                if !held_up.is_some_and(|held_up| held_up.extend(waiter, self.timeout)) {
                    waiter.answer(Err(error.clone()));
                }
            }
            *self = Self { held_up: self.held_up.or(held_up), ..Self::of(entries, self.timeout)? };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::script::Request;
    use crate::slot::ClusterSlot;
    use crate::waiter::Waiter;

    /// How late the first caller is answered if two deadlines are `apart` and a decision may take `timeout`.
    async fn late_by(apart: Duration, timeout: Duration) -> Duration {
        let begun = instant();
        let entry = |deadline| {
            let (waiter, awaited) = Waiter::new(deadline);
            let request = Request::default();
            (WaitingRequest { slot: ClusterSlot(0), request, waiter }, awaited)
        };
        let ((first, mut awaited), (second, _)) = (entry(begun + timeout), entry(begun + timeout + apart));
        let mut entries = [first, second];
        let mut deadlines = Deadlines::of(&entries, timeout).unwrap();
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

    /// After how long a caller is told, by a reply or that there is none, of a process that stands still from its call
    /// until `back`, if the reply can be taken after `reply`. Decisions may take 20 ms.
    async fn told_after(back: u64, reply: u64) -> (u64, bool) {
        let millis = Duration::from_millis;
        let begun = instant();
        let (waiter, mut awaited) = Waiter::new(begun + millis(20));
        let request = Request::default();
        let mut entries = [WaitingRequest { slot: ClusterSlot(0), request, waiter }];
        let mut deadlines = Deadlines::of(&entries, millis(20)).unwrap();
        let waiting = tokio::spawn(async move {
            let reply = tokio::time::sleep_until(begun + millis(reply));
            let is_there = deadlines.in_time(&mut entries, reply, || Trouble::TimedOut).await.is_some();
            (begun.elapsed().as_millis() as u64, is_there)
        });
        tokio::task::yield_now().await;
        tokio::time::advance(millis(back)).await;
        let (after, is_there) = waiting.await.unwrap();
        assert_eq!(awaited.received_already().is_some_and(|answer| answer.is_err()), !is_there);
        (after, is_there)
    }

    /// A process that was stopped for longer than a deadline told all its callers that the store had not answered,
    /// although the replies lay in its socket.
    #[tokio::test(start_paused = true)]
    async fn a_process_that_stood_still_gives_replies_as_much_time_once() {
        assert_eq!(told_after(22, 23).await, (22, false), "timers are not exact");
        assert_eq!(told_after(27, 30).await, (30, true));
        assert_eq!(told_after(27, 33).await, (32, false), "it was late by 7 ms, of which 2 are usual");
        assert_eq!(told_after(500, 519).await, (519, true));
        assert_eq!(told_after(500, 521).await, (520, false), "no more than a deadline");
    }
}
