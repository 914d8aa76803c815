//! Where one quota stands once a store has taken a step.

use std::cmp::Ordering;
use std::time::Duration;

use crate::{Quota, Source, Timestamp, Window};

/// Where one quota stands after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaState {
    limit: u64,
    used: u64,
    window: Window,
    now: Timestamp,
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
    /// What a store found at `now`: `used` in this window after the step, and the reason if there was no room. Its
    /// [source](Self::source) is the store, unless [another one](Self::with_source) is named.
    #[must_use]
    pub const fn new(
        quota: &Quota,
        used: u64,
        window: Window,
        now: Timestamp,
        reason: Option<Reason>,
    ) -> Self {
        Self { limit: quota.limit(), used, window, now, reason, source: Source::Store }
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

    /// The window that was counted. It holds [`now`](Self::now), unless the clock of a shared store has just stepped
    /// back: then it may begin up to a second later.
    #[must_use]
    pub const fn window(&self) -> Window {
        self.window
    }

    /// When the step was taken, by the clock that decides.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether there was room: `used + cost <= limit` held before the step. Always so for what does not ask.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.reason.is_none()
    }

    /// Why there was no room, if there was none.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Who says so: the store, or what stood in for it.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// Time until the window ends.
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        self.window.end().since(self.now)
    }

    /// Time to wait, if there was no room and a later window can have it.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        (self.reason? == Reason::QuotaExceeded).then(|| self.reset_after())
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
