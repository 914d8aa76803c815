//! The state of one quota after a step of a store.

use std::cmp::Ordering;
use std::time::Duration;

use crate::kind::{KindStanding, Mark, Standing};
use crate::{Quota, QuotaKind, Source, Timestamp, Window};

/// The state of one quota after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaState {
    limit: u64,
    used: u64,
    reset_at: Timestamp,
    /// The time at which one more unit is free and, without room, the time for a retry.
    next_at: Timestamp,
    retry_at: Timestamp,
    mark: Mark,
    now: Timestamp,
    units: u32,
    reason: Option<Reason>,
    source: Source,
    kind: QuotaKind,
}

/// Why a request is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Less is left than the cost; the request can be admitted later.
    QuotaExceeded,
    /// The cost is above the limit; it can never pass.
    CostExceedsLimit,
    /// So many units are in flight that the request's would be too many. It can be admitted once some are free, which
    /// may be at any time or never.
    InFlightExceeded,
    /// The store is down, and the cost is above this process's [share](crate::LocalShare) of the limit. It can be
    /// admitted once the store is back, which may be at any time.
    CostExceedsShare,
}

impl QuotaState {
    /// Makes the state of a counter after a step at `now`. If there was no room for the `needed` units, it has the
    /// reason. It has no [units](Self::with_units), and its [source](Self::with_source) is the store.
    #[must_use]
    #[inline(always)]
    pub fn of(
        quota: &Quota,
        standing: &Standing,
        now: Timestamp,
        reason: Option<Reason>,
        needed: u64,
    ) -> Self {
        Self::of_kind(quota.capacity(), standing, now, reason, needed)
    }

    /// As [`of`](Self::of), for one kind of quota.
    #[inline(always)]
    pub(crate) fn of_kind(
        limit: u64,
        standing: &impl KindStanding,
        now: Timestamp,
        reason: Option<Reason>,
        needed: u64,
    ) -> Self {
        let (next_at, retry_at) = standing.next_and_retry(limit, needed);
        Self {
            limit,
            used: standing.used(),
            reset_at: standing.reset_at(),
            next_at,
            retry_at,
            mark: standing.mark(),
            now,
            units: 0,
            reason,
            source: Source::Store,
            kind: standing.kind(),
        }
    }

    /// Returns the state with the units that the step charged or gave back.
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

    /// Returns the units that can be used at once: the limit, or the burst of a bucket.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the units that count now.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Returns units left; never negative.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// Returns the units that the step charged to the counter for this charge or, for a refund, gave back. A peek
    /// charges none, and neither does a denial unless [denied requests are counted](crate::CountDenied).
    ///
    /// A counter that is nearly [saturated](crate::Quota::MAX_LIMIT) is charged less than the cost. Several charges of
    /// one step on the same counter share its units in their order, each up to its cost.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// Returns the mark that a refund of these units has to name.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        self.mark
    }

    /// Returns the window that was counted; `None` if the quota does not count in fixed windows. It holds
    /// [`now`](Self::now), unless a shared store's clock has just stepped back: then it may begin up to a second after
    /// it.
    #[must_use]
    pub const fn window(&self) -> Option<Window> {
        match self.kind {
            QuotaKind::Window => Some(Window::new(self.mark.time(), self.reset_at)),
            QuotaKind::Burst | QuotaKind::Sliding | QuotaKind::Log => None,
        }
    }

    /// Returns how the quota counts.
    #[must_use]
    pub const fn kind(&self) -> QuotaKind {
        self.kind
    }

    /// Returns the time of the step, by the clock that decides.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns whether there was room: `used + cost <= limit` held before the step, or `used < limit` for an
    /// [overdraft](crate::CountDenied::Overdraft). Always true of steps that do not ask.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.reason.is_none()
    }

    /// Returns why there was no room, if there was none.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Returns the source of the answer: the store, this process's memory, or a fallback.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// Returns the time at which usage is back at zero if no units are charged until then: for fixed windows, the
    /// window's end.
    #[must_use]
    pub const fn reset_at(&self) -> Timestamp {
        self.reset_at
    }

    /// Returns the time at which a retry can succeed, if there was no room but there can be later.
    #[must_use]
    pub fn retry_at(&self) -> Option<Timestamp> {
        (self.reason? == Reason::QuotaExceeded).then_some(self.retry_at)
    }

    /// Returns the time at which one more unit is free if no units are charged until then; `None` if nothing is used.
    /// Of units above the limit, it is the time at which one is free.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        (self.used > 0).then_some(self.next_at)
    }

    /// Returns when more units are there, which limit headers call the reset: the end of a fixed window or, for kinds whose
    /// units come back one by one, the time at which a retry can succeed or, with room, one more unit is free.
    #[must_use]
    pub fn more_at(&self) -> Timestamp {
        match self.kind {
            QuotaKind::Window => self.reset_at,
            QuotaKind::Burst | QuotaKind::Sliding | QuotaKind::Log => {
                self.retry_at().or_else(|| self.next_at()).unwrap_or(self.now)
            }
        }
    }

    /// Returns time until [`more_at`](Self::more_at).
    #[must_use]
    pub fn more_after(&self) -> Duration {
        self.more_at().since(self.now)
    }

    /// Returns time until [`reset_at`](Self::reset_at).
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        self.reset_at.since(self.now)
    }

    /// Returns time until [`retry_at`](Self::retry_at).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        Some(self.retry_at()?.since(self.now))
    }

    /// Returns time until [`next_at`](Self::next_at).
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
    /// Returns the reason why this many units do not fit under this limit, if they do not.
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
    fn a_state_is_a_cache_line() {
        assert_eq!(size_of::<QuotaState>(), 64);
        assert_eq!(size_of::<Result<crate::QuotaStates, crate::Full>>(), 64);
    }
}
