//! The time for which a request is matched, and when it has to be matched again.

use std::time::Duration;

use tollgate::{Charge, QuotaState, QuotaStates, Source, Step, StoreError, Timestamp};

use super::Matching;
use crate::OverrideSet;

/// The time for which a request is matched with overrides.
///
/// A process only estimates the store's clock, so an override that ends about now is matched first, and the step that
/// charges compares the store's time with the end. If the end has come, the step charges nothing, and the request is
/// matched again for the store's time, under the same overrides.
#[derive(Debug, Clone, Copy)]
pub(super) struct MatchTime {
    /// A time that the store has named. `None` is the estimate.
    pub(super) at: Option<Timestamp>,
    /// How often the request may be matched again.
    left: u8,
}

/// How far the store's time is ahead of the estimate at most, where it is of use to know.
const ESTIMATE_ERROR: Duration = Duration::from_secs(2);

impl MatchTime {
    /// Matches the first time.
    ///
    /// Each time that a request is matched again, another override has ended. More than two of them do not end for one
    /// request within the time of a few steps, so a store that goes on is in error.
    pub(super) const FIRST: Self = Self { at: None, left: 3 };

    /// Returns the time to match for after a step to which the store's time was `now`; `None` if the request was matched
    /// too often.
    pub(super) fn again(self, now: Timestamp) -> Option<Self> {
        let left = self.left.checked_sub(1)?;
        Some(Self { at: Some(now), left })
    }
}

/// The end of the override that ends first, of those by which a step decides.
#[derive(Clone, Copy)]
pub(super) struct FirstEnd<'a> {
    /// With the overrides, whose clock is an estimate of the store's. Usually no override has an end.
    end: Option<(Timestamp, &'a OverrideSet)>,
}

impl<'a> FirstEnd<'a> {
    /// Returns the first end for requests that are decided in one step.
    #[inline]
    pub(super) fn of(matchings: &'a [Matching<'_>]) -> Self {
        let ends = matchings.iter().filter_map(|matching| Some((matching.end()?, matching.set.overrides())));
        Self { end: ends.min_by_key(|(end, _)| *end) }
    }

    /// Returns the step that makes these charges before the end.
    #[inline]
    pub(super) fn step<'c>(self, charges: &'c [Charge<'c>]) -> Step<'c> {
        match self.end {
            None => Step::Charge(charges),
            Some((end, _)) => Step::ChargeBefore { charges, end },
        }
    }

    /// Returns the store's time if the end had come before that step.
    #[inline]
    pub(super) fn passed(self, counted: &Result<QuotaStates, StoreError>) -> Option<Timestamp> {
        self.end?;
        let is_uncounted = |state: &QuotaState| state.source() == Source::Fallback && state.units() == 0;
        match counted {
            Err(StoreError::Ended { now }) => Some(*now),
            // No store has compared the end.
            Ok(counted) if counted.iter().all(is_uncounted) => self.passed_at(counted),
            Err(StoreError::Full) => self.passed_at(&[]),
            Ok(_) | Err(_) => None,
        }
    }

    /// Returns the store's time if the end had come when a step looked at these quotas. Without any, or if it was not the
    /// store that answered, the estimate decides.
    pub(super) fn passed_at(self, counted: &[QuotaState]) -> Option<Timestamp> {
        let (end, overrides) = self.end?;
        let from_store = counted.iter().filter(|state| state.source() != Source::Fallback);
        let latest = from_store.map(QuotaState::now).max();
        let now = latest.unwrap_or_else(|| overrides.now());
        (now >= end).then_some(now)
    }

    /// Returns the end if it may have come, as far as the estimate shows.
    pub(super) fn possibly_passed(self) -> Option<Timestamp> {
        let (end, overrides) = self.end?;
        (overrides.now() + ESTIMATE_ERROR >= end).then_some(end)
    }
}
