//! The quotas of one policy: its own, and those of overrides, tables and tiers.

use std::collections::HashMap;

use tollgate::{CountDenied, InFlight, OnStoreFailure, PolicyInFlight, PolicyQuota, Quota};
use tollgate_yaml::{At, FilePlace, Position, ProblemKind, Problems, Sources, WrittenText};

use super::attribute;
use crate::file::{NamedQuotas, QuotaList, RawOverride, RawTier};
use crate::file_overrides::FileOverrideRule;
use crate::index::Table;
use crate::limit::{QuotaLists, QuotaSpecs};
use crate::policy::candidate_name;
use crate::problem::PolicyProblem;
use crate::{FileOverride, FileOverrideTable, LimitAttribute};

/// Definitions that policies refer to by name.
pub(super) struct Definitions<'a> {
    pub(super) tiers: HashMap<Box<str>, QuotaList>,
    pub(super) sources: &'a Sources,
}

/// The common settings of one policy's quotas.
pub(super) struct Scope<'a> {
    pub(super) policy: &'a str,
    pub(super) count_denied: CountDenied,
    pub(super) on_store_failure: OnStoreFailure,
    pub(super) named: &'a Definitions<'a>,
}

/// Tiers by the attribute that names them.
pub(super) struct ByTier {
    at: Position,
    attribute: Box<str>,
}

impl Scope<'_> {
    /// Returns the quotas of the default tier, and the attribute that selects other tiers.
    pub(super) fn tier(
        &self,
        at: Position,
        raw: RawTier,
        problems: &mut Problems,
    ) -> Option<(At<QuotaList>, ByTier)> {
        raw.need(&["tier", "default"], at, problems);
        let attribute = attribute(raw.tier, problems);
        let At { at: default_at, value: WrittenText { text, written }, .. } = raw.default?;
        let tier = self.named.tiers.get(&text).cloned();
        let value = problems.take(default_at, tier.ok_or(PolicyProblem::UnknownTier(written)))?;
        Some((At { at, end: default_at, value }, ByTier { at, attribute: attribute? }))
    }

    /// The tiers as a table. Candidates are the same for all tiers.
    pub(super) fn by_tier(&self, by: ByTier, candidates: &QuotaSpecs) -> FileOverride {
        let at = |value: &QuotaList| At { at: by.at, end: by.at, value: value.clone() };
        let tiers = self.named.tiers.iter().map(|(name, list)| (name.clone(), at(list))).collect();
        let mut over = self.table(by.at, by.attribute, tiers);
        over.lists.iter_mut().for_each(|list| list.candidates = candidates.clone());
        over
    }

    /// Each list once, and which of them a value has.
    fn table(
        &self,
        at: Position,
        attribute: Box<str>,
        mut values: Vec<(Box<str>, At<QuotaList>)>,
    ) -> FileOverride {
        // Sorted, so that equal tables compare equal whatever the order of the file.
        values.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut lists = Vec::new();
        let mut numbers = HashMap::<(Vec<(Quota, Option<LimitAttribute>)>, Option<InFlight>), u32>::new();
        let mut slots = Vec::with_capacity(values.len());
        for (name, list) in &values {
            let rules =
                list.value.quotas.iter().map(|quota| (quota.value.quota.clone(), quota.value.limit.clone()));
            let in_flight = list.value.in_flight.as_ref().map(|in_flight| in_flight.value);
            let number = *numbers.entry((rules.collect(), in_flight)).or_insert_with(|| {
                lists.push(self.quotas(Some(list.clone()), None));
                lists.len() as u32 - 1
            });
            slots.push((name.as_ref(), number));
        }
        let table = FileOverrideTable { attribute, values: Table::new(slots), len: values.len() };
        FileOverride { at, rule: FileOverrideRule::In(table), lists: lists.into() }
    }

    fn resolve_table(&self, at: Position, raw: RawOverride, problems: &mut Problems) -> Option<FileOverride> {
        for (key, at) in raw.given.iter().filter(|(key, _)| ["when", "quotas", "candidate"].contains(key)) {
            problems.add(*at, ProblemKind::Needless { section: "a table of overrides", key });
        }
        if !raw.gives("values_from") {
            raw.need(&["values"], at, problems);
        }
        let by = attribute(raw.by, problems);
        let mut values = raw.values.map(|values| values.value.0).unwrap_or_default();
        if let Some(file) = raw.values_from {
            let (name, at) = (file.value.0, file.at);
            let table = self.named.sources.table(at.file, &name);
            let (number, text) =
                problems.take(at, table.map_err(|reason| ProblemKind::Table { name, reason }))?;
            let known: HashMap<Box<str>, Position> =
                values.iter().map(|(name, list)| (name.clone(), list.at)).collect();
            for (key, list) in NamedQuotas::of_lines(text, number, problems).0 {
                match known.get(&key) {
                    Some(first) => {
                        let names: Vec<Box<str>> = self.named.sources.all_names().collect();
                        let first = FilePlace::seen_from(list.at, *first, &names);
                        problems.add(list.at, ProblemKind::DuplicateKey { key, first });
                    }
                    None => values.push((key, list)),
                }
            }
        }
        Some(self.table(at, by?, values))
    }

    pub(super) fn quotas(
        &self,
        enforced: Option<At<QuotaList>>,
        candidates: Option<At<QuotaList>>,
    ) -> QuotaLists {
        QuotaLists {
            enforced: self.under(self.policy, enforced),
            candidates: self.under(&candidate_name(self.policy), candidates),
        }
    }

    fn under(&self, name: &str, list: Option<At<QuotaList>>) -> QuotaSpecs {
        let QuotaList { quotas, in_flight } = list.map(|list| list.value).unwrap_or_default();
        // A limit in flight on trial takes nothing, so it is asked about the policy's own units.
        let in_flight = in_flight.map(|At { value, .. }| {
            PolicyInFlight::new(self.policy, value).with_on_store_failure(self.on_store_failure)
        });
        let rules = quotas.into_iter().map(|At { value, .. }| {
            let quota = PolicyQuota::new(name, value.quota)
                .with_count_denied(self.count_denied)
                .with_on_store_failure(self.on_store_failure);
            (quota, value.limit)
        });
        QuotaSpecs::new(rules.collect()).with_in_flight(in_flight)
    }

    pub(super) fn resolve_override(
        &self,
        raw: At<RawOverride>,
        problems: &mut Problems,
    ) -> Option<FileOverride> {
        let At { at, value: raw, .. } = raw;
        if ["by", "values", "values_from"].iter().any(|key| raw.gives(key)) {
            raw.need(&["by"], at, problems);
            return self.resolve_table(at, raw, problems);
        }
        raw.need(&["when", "quotas"], at, problems);
        let quotas = self.quotas(raw.quotas, raw.candidate);
        Some(FileOverride { at, rule: FileOverrideRule::When(raw.when?.value), lists: [quotas].into() })
    }
}
