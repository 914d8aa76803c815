//! How many overrides apply.

use tollgate::Timestamp;

use super::OverrideSet;
use super::policy_overrides::{PolicyOverrides, TargetRow};

/// The overrides of a policy that apply now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActiveOverrides<'a> {
    /// The name of the policy.
    pub policy: &'a str,
    /// How many there are.
    pub count: usize,
    /// The earliest time at which one of them ends, if one does.
    pub until: Option<Timestamp>,
}

impl OverrideSet {
    /// Returns how many overrides of each policy are [active](super::OverrideState::Active) now. Policies without active
    /// ones are left out.
    ///
    /// It reads all overrides, which takes milliseconds if there are a million.
    pub fn active(&self) -> impl Iterator<Item = ActiveOverrides<'_>> {
        let now = self.now();
        self.parts().map(move |part| part.active(now)).filter(|active| active.count > 0)
    }
}

impl PolicyOverrides {
    fn active(&self, now: Timestamp) -> ActiveOverrides<'_> {
        let mut active = ActiveOverrides { policy: &self.name, count: 0, until: None };
        for target in self.after(None) {
            let until = target.row().until();
            let has_ended = until.is_some_and(|until| now >= until);
            if !has_ended && target.is_fit() {
                active.count += 1;
                active.until = active.until.into_iter().chain(until).min();
            }
        }
        active
    }
}

impl TargetRow<'_> {
    /// Returns whether it can apply at all.
    fn is_fit(self) -> bool {
        let is_refused = matches!(self, Self::Text { attribute, .. } if attribute.refusal.is_some());
        !is_refused && self.row().terms.ruling.is_ok()
    }
}
