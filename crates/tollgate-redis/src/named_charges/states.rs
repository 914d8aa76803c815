//! What the script's counts mean for each charge: its verdict, its units and its window.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate::kind::Standing;
use tollgate::{
    Charge, CountDenied, Counter, Mark, QuotaState, QuotaStates, Reason, StoreError, Timestamp, Window,
    WindowLength,
};

use super::NamedCharges;
use crate::names::CounterNames;
use crate::script::CountChange;

impl NamedCharges<'_> {
    /// Returns the states of all charges' quotas.
    pub(crate) fn counted(&self, now: Timestamp, found: &[CountChange]) -> QuotaStates {
        self.states(
            |index| (found[index].clone(), found[index].standing(&self.counters[index].counter, now)),
            now,
        )
    }

    /// As [`counted`](Self::counted), of charges that were admitted before, maybe under another limit.
    pub(crate) fn counted_before(&self, then: Timestamp, found: &[CountChange]) -> QuotaStates {
        let counters = self.charges.iter().zip(&self.indices);
        let state = |(charge, &index): (&Charge<'_>, &usize)| {
            let (standing, quota) =
                (found[index].standing(&self.counters[index].counter, then), charge.counter().quota());
            let needed = charge.units_needed(self.counters[index].units);
            QuotaState::of(quota.quota(), &standing, then, None, needed).with_units(charge.cost())
        };
        counters.map(state).collect()
    }

    /// As [`counted`](Self::counted), but all units except those of [overdrafts](Self::overdrafts) were given back.
    ///
    /// # Errors
    ///
    /// As [`refunds`](Self::refunds).
    pub(crate) fn given_back(
        &self,
        names: &CounterNames,
        now: Timestamp,
        found: &[CountChange],
    ) -> Result<QuotaStates, StoreError> {
        let (counted, overdrafts) = (self.counted(now, found), self.overdrafts(names, now, found)?);
        let each = counted.iter().zip(&self.indices);
        Ok(each.map(|(state, &index)| if overdrafts[index] { *state } else { state.with_units(0) }).collect())
    }

    /// Returns the states of all charges' quotas, as if nothing were used.
    pub(crate) fn unused(&self, now: Timestamp) -> QuotaStates {
        let unused = |counter: &Counter<'_>| counter.quota().quota().unused_at(counter.key(), now);
        self.states(|index| (CountChange::of_count(0, None), unused(&self.counters[index].counter)), now)
    }

    /// As [`counted`](Self::counted), from the known counts and counters.
    pub(crate) fn states(
        &self,
        known: impl Fn(usize) -> (CountChange, Standing),
        now: Timestamp,
    ) -> QuotaStates {
        let known: SmallVec<[_; 1]> = (0..self.counters.len()).map(known).collect();
        // Both counts are from one step, so charges of others are not included.
        let mut taken: SmallVec<[u64; 1]> =
            known.iter().map(|(found, _)| found.after.saturating_sub(found.before)).collect();
        let state = |(charge, &index): (&Charge<'_>, &usize)| {
            let (found, standing) = &known[index];
            let reason = self.reason(charge, index, found);
            // A counter that saturates takes less than all charges together, and then the last ones go short.
            let units = units(charge, taken[index]);
            taken[index] -= u64::from(units);
            let needed = charge.units_needed(self.counters[index].units);
            QuotaState::of(charge.counter().quota().quota(), standing, now, reason, needed).with_units(units)
        };
        self.charges.iter().zip(&self.indices).map(state).collect()
    }

    /// Returns whether some charge had no room, so that its denial may be repeated.
    pub(crate) fn is_denied(&self, found: &[CountChange]) -> bool {
        let denied = |(charge, &index): (&Charge<'_>, &usize)| self.reason(charge, index, &found[index]);
        self.denials_are_free() && self.charges.iter().zip(&self.indices).filter_map(denied).next().is_some()
    }

    /// The counter at this index at a later time.
    pub(crate) fn later(&self, index: usize, standing: &Standing, now: Timestamp) -> Standing {
        let counter = &self.counters[index].counter;
        standing.clone().later(counter.quota().quota(), counter.key(), now)
    }

    /// Every counter after the step.
    pub(crate) fn standings(&self, now: Timestamp, found: &[CountChange]) -> impl Iterator<Item = Standing> {
        self.counters.iter().zip(found).map(move |(named, found)| found.standing(&named.counter, now))
    }

    /// Why the charge does not fit.
    fn reason(&self, charge: &Charge<'_>, index: usize, found: &CountChange) -> Option<Reason> {
        let used = match charge.counter().quota().count_denied() {
            // An overdraft is compared with what was used before the step, without the units of other counters on its
            // key.
            CountDenied::Overdraft => found.before - found.others,
            CountDenied::No | CountDenied::Yes => found.before,
        };
        Reason::of(used, charge.units_needed(self.counters[index].units), charge.limit())
    }
}

/// Returns the charge's share of the units that a counter was charged: all, unless it saturated.
pub(crate) fn units(charge: &Charge<'_>, taken: u64) -> u32 {
    u32::try_from(taken).map_or(charge.cost(), |taken| taken.min(charge.cost()))
}

/// Returns the window of a charge with this mark.
pub(crate) fn marked_window(counter: &Counter<'_>, mark: Mark) -> Window {
    counter.quota().quota().window_at(counter.key(), mark.time())
}

impl CountChange {
    /// The counter after the step.
    pub(crate) fn standing(&self, counter: &Counter<'_>, now: Timestamp) -> Standing {
        self.standing.clone().unwrap_or_else(|| Standing::in_window(self.after, self.window(counter, now)))
    }

    /// Where the counter stands, of which nothing was asked.
    pub(crate) fn state(&self, counter: &Counter<'_>, now: Timestamp) -> QuotaState {
        QuotaState::of(counter.quota().quota(), &self.standing(counter, now), now, None, 0)
    }

    /// As [`state`](Self::state), of a counter in this window, if it counts in fixed ones.
    pub(crate) fn state_in(&self, window: Window, counter: &Counter<'_>, now: Timestamp) -> QuotaState {
        let standing = self.standing.clone().unwrap_or_else(|| Standing::in_window(self.after, window));
        QuotaState::of(counter.quota().quota(), &standing, now, None, 0)
    }

    /// The window that was counted.
    fn window(&self, counter: &Counter<'_>, now: Timestamp) -> Window {
        let quota = counter.quota().quota();
        match (self.end, quota.window()) {
            (Some(end), WindowLength::Fixed(length)) => Window::new(end - length, end),
            (Some(end), _) => quota.window_at(counter.key(), end - Duration::from_millis(1)),
            (None, _) => quota.window_at(counter.key(), now),
        }
    }
}
