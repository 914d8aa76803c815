//! All overrides of a store that are being compiled, page by page.

use tollgate_policy::{OverrideSet, OverridesLoad, OverridesVersion, Policies};
use tollgate_redis::{LoggedChange, RecordsPage, RecordsVersion, WholeRecords};

use super::applied_change::AppliedChange;
use super::text::{UnknownName, read_record};

/// See the [module](self).
pub(super) struct PagedLoad<'a> {
    empty: OverrideSet,
    policies: &'a Policies,
    overrides: OverridesLoad<'a>,
    /// A record that is no override, if there is one.
    foreign: Option<UnknownName>,
}

impl<'a> PagedLoad<'a> {
    /// Begins with the digest, the clock and the fit of this set.
    pub(super) fn new(set: &OverrideSet, policies: &'a Policies) -> Self {
        let empty = set.cleared();
        Self { overrides: empty.loading(policies), empty, policies, foreign: None }
    }

    /// Applies a page. Returns what is known about all overrides after the last one.
    pub(super) fn apply(&mut self, page: RecordsPage) -> Option<WholeRecords> {
        match page {
            RecordsPage::Records(records) => {
                for record in records {
                    match read_record(record) {
                        Ok(record) => self.overrides.set(record),
                        Err(name) => self.foreign = Some(name),
                    }
                }
            }
            RecordsPage::Changes(changes) => changes.into_iter().for_each(|change| self.change(change)),
            RecordsPage::Again => *self = Self::new(&self.empty, self.policies),
            RecordsPage::End(whole) => return Some(whole),
        }
        None
    }

    fn change(&mut self, change: LoggedChange) {
        match AppliedChange::of(change) {
            Ok(AppliedChange::Set(record)) => self.overrides.set(*record),
            Ok(AppliedChange::Delete(name)) => self.overrides.delete(&name),
            Err(name) => self.foreign = Some(name),
        }
    }

    /// Returns the overrides under this version, and a record that is none, if there is one.
    pub(super) fn finish(self, version: RecordsVersion) -> (OverrideSet, Option<UnknownName>) {
        let overrides = self.overrides.finish();
        let overrides = match version.number {
            // Without a change, there is no version.
            0 => overrides,
            number => overrides.at_version(OverridesVersion { epoch: version.epoch, number }),
        };
        (overrides, self.foreign)
    }
}
