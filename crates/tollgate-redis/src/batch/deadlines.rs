//! When those who wait for one batch have waited long enough.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout_at;
use tollgate::StoreError;

use crate::lane::Entry;
use crate::time::Instant;
use crate::trouble::Trouble;

/// How late somebody may be told that it is too late: as long as all of a batch have come within such a while, one timer
/// does for all of them.
const SLACK: Duration = Duration::from_millis(2);

/// The deadlines of those who are not answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    first: Instant,
    last: Instant,
}

impl Deadlines {
    /// `None` if nobody waits.
    pub(super) fn of(entries: &[Entry]) -> Option<Self> {
        let mut waiting = entries.iter().map(|entry| &entry.waiter).filter(|waiter| !waiter.is_answered());
        let first = waiting.next()?.deadline;
        let both = |Self { first, last }: Self, deadline: Instant| Self {
            first: first.min(deadline),
            last: last.max(deadline),
        };
        Some(waiting.map(|waiter| waiter.deadline).fold(Self { first, last: first }, both))
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
            let at = if self.last <= self.first + SLACK { self.last } else { self.first };
            if let Ok(reply) = timeout_at(at, &mut reply).await {
                return Some(reply);
            }
            let error = StoreError::from(why());
            for entry in entries.iter_mut().filter(|entry| entry.waiter.deadline <= at) {
                entry.waiter.answer(Err(error.clone()));
            }
            *self = Self::of(entries)?;
        }
    }
}
