//! The state of one quota after a step of a store.

use std::cmp::Ordering;
use std::time::Duration;

use crate::{Mark, Quota, Source, Timestamp, Window};

/// The state of one quota after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaState {
    limit: u64,
    used: u64,
    /// At the end of a fixed window all units are free again, so this is also the time for a retry.
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
    /// Less is left in the window than the cost; it can pass in a later window.
    QuotaExceeded,
    /// The cost is above the limit; it can never pass.
    CostExceedsLimit,
}

impl QuotaState {
    /// Makes the state of a fixed window at `now`: what is `used` after the step, and the reason if there was no room.
    /// It has no [units](Self::with_units), and its [source](Self::with_source) is the store.
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

    /// Returns the state with the units that the step took or gave back.
    #[must_use]
    #[inline(always)]
    pub const fn with_units(self, units: u32) -> Self {
        Self { units, ..self }
    }

    /// Returns the state with another source.
    #[must_use]
    pub const fn with_source(self, source: Source) -> Self {
        Self { source, ..self }
    }

    /// Returns the state with another reason, or none.
    pub(crate) const fn with_reason(self, reason: Option<Reason>) -> Self {
        Self { reason, ..self }
    }

    /// Returns the same denial for another caller, at a later `now`, without units.
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
    /// A counter that is nearly [saturated](crate::Quota::MAX_LIMIT) takes less than the cost. Several charges of one
    /// step on the same counter share what it took in their order, each up to its cost.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// The mark that a refund of these units has to name.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        self.mark
    }

    /// The window that was counted; `None` if the quota does not count in fixed windows. It holds [`now`](Self::now),
    /// unless a shared store's clock has just stepped back: then it may begin up to a second after it.
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

    /// Where the answer comes from: the store, this process's memory, or a fallback.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// When nothing is used any more if no units are taken until then: for fixed windows, the window's end.
    #[must_use]
    pub const fn reset_at(&self) -> Timestamp {
        self.reset_at
    }

    /// When a retry can succeed, if there was no room and there can be later.
    #[must_use]
    pub fn retry_at(&self) -> Option<Timestamp> {
        (self.reason? == Reason::QuotaExceeded).then_some(self.reset_at)
    }

    /// When one more unit is free if no units are taken until then; `None` if nothing is used.
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
            // A cost that can never pass has the longest wait.
            (Some(_), Some(_)) => {
                let wait = |quota: &Self| quota.retry_after().unwrap_or(Duration::MAX);
                wait(self).cmp(&wait(other))
            }
        }
    }
}

impl Reason {
    /// Why so many units do not fit under this limit, if they do not.
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
