//! Where one quota stands once a store has taken a step.

use std::cmp::Ordering;
use std::time::Duration;

use crate::{Mark, Quota, Source, Timestamp, Window};

/// Where one quota stands after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaState {
    limit: u64,
    used: u64,
    /// In a fixed window, everything that was used is free again at its end: so this also is when to ask again.
    reset_at: Timestamp,
    mark: Mark,
    now: Timestamp,
    units: u32,
    reason: Option<Reason>,
    source: Source,
}

/// Why a request is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// What is left of the window is less than the cost; it passes in a later window.
    QuotaExceeded,
    /// The cost is above the limit; it can never pass.
    CostExceedsLimit,
}

impl QuotaState {
    /// What a store found of fixed windows at `now`: `used` in this window after the step, and the reason if there was
    /// no room. It took no [units](Self::with_units), and its [source](Self::with_source) is the store.
    #[must_use]
    #[inline(always)]
    pub const fn in_window(
        quota: &Quota,
        used: u64,
        window: Window,
        now: Timestamp,
        reason: Option<Reason>,
    ) -> Self {
        Self {
            limit: quota.limit(),
            used,
            reset_at: window.end(),
            mark: Mark::at(window.start()),
            now,
            units: 0,
            reason,
            source: Source::Store,
        }
    }

    /// The same, where the step took so many units, or gave them back.
    #[must_use]
    #[inline(always)]
    pub const fn with_units(self, units: u32) -> Self {
        Self { units, ..self }
    }

    /// The same, known from somewhere else than the store's own step.
    #[must_use]
    pub const fn with_source(self, source: Source) -> Self {
        Self { source, ..self }
    }

    /// The same, with another reason or none.
    pub(crate) const fn with_reason(self, reason: Option<Reason>) -> Self {
        Self { reason, ..self }
    }

    /// The same denial for another caller, who saw the store at `now` or later and took nothing.
    pub(crate) fn for_another(self, now: Timestamp) -> Self {
        Self { now: self.now.max(now), units: 0, ..self }
    }

    /// Units allowed in a window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Units used in the window.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Units left in the window; never negative.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// Units that the step took from the counter for this charge, or gave back if it was a refund. A peek takes none,
    /// and neither does a denial unless [denied requests are counted](crate::CountDenied::Yes).
    ///
    /// A counter that is nearly [saturated](crate::Quota::MAX_LIMIT) takes less than the cost. Charges of one step on the
    /// same counter get what it took in their order: each up to its cost, until nothing is left.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// What a refund of these units has to name.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        self.mark
    }

    /// The window that was counted; `None` if the quota does not count in fixed windows. It holds [`now`](Self::now),
    /// unless the clock of a shared store has just stepped back: then it may begin up to a second later.
    #[must_use]
    pub const fn window(&self) -> Option<Window> {
        Some(Window::new(self.mark.time(), self.reset_at))
    }

    /// When the step was taken, by the clock that decides.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether there was room: `used + cost <= limit` held before the step. Always true of steps that do not ask.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.reason.is_none()
    }

    /// Why there was no room, if there was none.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Where the answer comes from: the store, or what stood in for it.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// When nothing is used any more, if nobody takes anything until then: for fixed windows, when the window ends.
    #[must_use]
    pub const fn reset_at(&self) -> Timestamp {
        self.reset_at
    }

    /// When to ask again, if there was no room and there can be later.
    #[must_use]
    pub fn retry_at(&self) -> Option<Timestamp> {
        (self.reason? == Reason::QuotaExceeded).then_some(self.reset_at)
    }

    /// When one more unit is free, if nobody takes anything until then; `None` if nothing is used.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        (self.used > 0).then_some(self.reset_at)
    }

    /// Time until [`reset_at`](Self::reset_at).
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        self.reset_at.since(self.now)
    }

    /// Time until [`retry_at`](Self::retry_at).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        Some(self.retry_at()?.since(self.now))
    }

    /// Time until [`next_at`](Self::next_at).
    #[must_use]
    pub fn next_after(&self) -> Option<Duration> {
        Some(self.next_at()?.since(self.now))
    }

    /// Which of two quotas decides: the greater one.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        match (self.reason, other.reason) {
            // The smaller share of the limit is left where remaining / limit is less; multiplied out, because
            // the products of two values below 2^40 are exact.
            (None, None) => {
                let product = |remaining, limit| u128::from(remaining) * u128::from(limit);
                product(other.remaining(), self.limit).cmp(&product(self.remaining(), other.limit))
            }
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            // What never passes waits longest.
            (Some(_), Some(_)) => {
                let wait = |quota: &Self| quota.retry_after().unwrap_or(Duration::MAX);
                wait(self).cmp(&wait(other))
            }
        }
    }
}

impl Reason {
    /// Why there is no room for so many units under this limit, if there is none beside what is used.
    #[must_use]
    pub const fn of(used: u64, cost: u64, limit: u64) -> Option<Self> {
        if cost > limit {
            Some(Self::CostExceedsLimit)
        } else if used > limit - cost {
            Some(Self::QuotaExceeded)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is made and moved for every decision.
    #[test]
    fn a_state_is_six_words() {
        assert_eq!(size_of::<QuotaState>(), 48);
        assert_eq!(size_of::<Result<crate::Counted, crate::Full>>(), 48);
    }
}
