//! The time of a store: which of its clock's two readings a step takes.
//!
//! The coarse reading lags: by a tick as a rule, by more when the machine was busy at the tick. So it is taken
//! where that does not matter, and doubted where it might:
//!
//! - windows shorter than 250 ticks are told by the precise clock, and so are the openings of `first_hit`
//!   windows, which start when they are opened;
//! - a counter in a window that has not begun by the coarse clock was put there by a finer reading: the precise
//!   clock is asked;
//! - nobody is denied on its word in the last 12 ticks of a window, in which it may have missed the end.
//!
//! What is left of the error: in the first moments of a window, units may still be counted in the one before.

use super::state::Base;
use crate::{Anchor, Clock, Counter, Quota, Timestamp};

/// The shortest window that the coarse clock serves, in ticks: one second where a tick is 4 ms.
const SHORTEST: u64 = 250;

/// How much a coarse reading may lag, in ticks, before it leads to a wrong denial.
const DOUBTED: u64 = 12;

pub(super) struct Time<C> {
    clock: C,
    base: Base,
    /// The shortest window that coarse readings serve, in milliseconds.
    shortest: u64,
    /// How long before the end of a window a coarse reading is doubted, in milliseconds.
    doubted: u64,
}

/// One reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) now: Timestamp,
    /// How long before the end of a window it is doubted, in milliseconds; 0 if it is precise.
    doubted: u64,
}

impl<C: Clock> Time<C> {
    pub(super) fn new(clock: C) -> Self {
        let base = Base::new(clock.now());
        let tick = u64::try_from(clock.coarse_resolution().as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
        let (shortest, doubted) = (tick.saturating_mul(SHORTEST), tick.saturating_mul(DOUBTED));
        Self { clock, base, shortest, doubted }
    }

    pub(super) fn base(&self) -> Base {
        self.base
    }

    pub(super) fn precise(&self) -> Reading {
        Reading { now: self.base.clamp(self.clock.now()), doubted: 0 }
    }

    /// A reading for windows of this quota.
    #[inline]
    pub(super) fn read(&self, quota: &Quota) -> Reading {
        // Days and longer units of a calendar are long enough for any clock.
        if quota.fixed_millis().is_some_and(|millis| millis < self.shortest) {
            return self.precise();
        }
        Reading { now: self.base.clamp(self.clock.coarse_now()), doubted: self.doubted }
    }

    /// A reading for all these counters, of which some may be opened.
    pub(super) fn read_to_open(&self, counters: &[Counter<'_>]) -> Reading {
        let quotas = || counters.iter().map(|counter| counter.quota().quota());
        let shortest = quotas().min_by_key(|quota| quota.fixed_millis().unwrap_or(u64::MAX));
        match shortest {
            Some(shortest) if quotas().all(|quota| quota.anchor() != Anchor::FirstHit) => self.read(shortest),
            _ => self.precise(),
        }
    }
}

impl Reading {
    /// Whether a more precise reading can be had.
    pub(super) const fn is_coarse(self) -> bool {
        self.doubted > 0
    }

    /// Whether the window that ends then may be over, although this reading does not say so.
    pub(super) const fn may_have_missed(self, end: Timestamp) -> bool {
        end.millis_since(self.now) < self.doubted
    }
}
