//! What this process decides without the store: denials that it remembers.

use smallvec::SmallVec;
use tollgate::{QuotaStates, Source, Timestamp};

use super::StoreInner;
use crate::denials::{Denials, RememberedCount};
use crate::named_charges::NamedCharges;
use crate::script::CountChange;
use crate::time::Instant;

/// While a counter is being changed, nothing is remembered of it.
pub(super) struct ForgettingGuard<'a, 'q> {
    denials: &'a Denials,
    named: &'a NamedCharges<'q>,
}

impl StoreInner {
    /// Whether something is remembered that may deny these charges.
    pub(super) fn may_deny(&self, named: &NamedCharges<'_>) -> bool {
        named.denials_are_free() && named.ids().all(|id| self.denials.may_know(id))
    }

    /// Returns whether this caller should ask the store, to renew what is remembered.
    pub(super) fn is_to_renew(&self, named: &NamedCharges<'_>, at: Instant) -> bool {
        named.ids().any(|id| self.denials.is_to_renew(id, at))
    }

    /// Where the quotas stand, if all their counters are remembered, and whether some of them should be renewed.
    pub(super) fn recall(&self, named: &NamedCharges<'_>, at: Instant) -> Option<(QuotaStates, bool)> {
        let (mut known, mut is_due) = (SmallVec::<[RememberedCount; 1]>::new(), false);
        for id in named.ids() {
            let (count, is_due_itself) = self.denials.recall(id, at)?;
            known.push(count);
            is_due |= is_due_itself;
        }
        let states = |now: Timestamp| {
            let known = |index: usize| {
                let standing = named.later(index, &known[index].standing, now);
                (CountChange::of_count(standing.used(), None), standing)
            };
            named.states(known, now)
        };
        // What the server would admit by the latest time that it can have is not denied here. Fixed windows are only
        // remembered until their ends.
        let latest = known.iter().map(|count| count.latest_at(at)).max()?;
        if known.iter().any(|count| count.window().is_none()) && states(latest).is_admitted() {
            return None;
        }
        // Each is at most the server's time; so is the latest.
        let counted = states(known.iter().map(|count| count.now_at(at)).max()?);
        Some((counted.iter().map(|state| state.with_source(Source::Local)).collect(), is_due))
    }

    /// Forgets these counters now, and once more when the result is dropped.
    pub(super) fn changing<'a, 'q>(&'a self, named: &'a NamedCharges<'q>) -> ForgettingGuard<'a, 'q> {
        let changing = ForgettingGuard { denials: &self.denials, named };
        changing.forget();
        changing
    }
}

impl ForgettingGuard<'_, '_> {
    fn forget(&self) {
        self.named.ids().for_each(|id| self.denials.forget(id));
    }
}

/// What was asked before the change and answered during it is forgotten too.
impl Drop for ForgettingGuard<'_, '_> {
    fn drop(&mut self) {
        self.forget();
    }
}
