//! The overrides of one policy.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate::Key;

use super::context::Context;
use super::filter::DigestFilter;
use super::row::{Digest, KeyRow, OverrideRow, Remarks, TextRow};
use super::terms::{Ruling, Terms, TermsBasis, TermsId, TermsTable};
use super::texts::AttributeRows;
use super::tree::{Rows, Tree};
use super::{InertReason, OverrideRecord, OverrideTarget};
use crate::{Policies, Policy};

/// The overrides of one policy.
#[derive(Debug, Clone)]
pub(super) struct PolicyOverrides {
    pub(super) name: Arc<str>,
    /// The place of the policy among all, if it exists.
    pub(super) place: Option<u32>,
    pub(super) basis: Arc<TermsBasis>,
    pub(super) table: Arc<TermsTable>,
    pub(super) keys: Tree<KeyRow>,
    /// `None` while they are few.
    pub(super) filter: Option<Arc<DigestFilter>>,
    /// In the order of their names. They are as many as the attributes that overrides compare.
    pub(super) attributes: Box<[AttributeRows]>,
}

/// A row with its target.
#[derive(Debug, Clone, Copy)]
pub(super) enum TargetRow<'a> {
    Key(&'a KeyRow),
    Text { attribute: &'a AttributeRows, row: &'a TextRow, is_whole: bool },
}

impl<'a> TargetRow<'a> {
    pub(super) const fn row(self) -> &'a OverrideRow {
        match self {
            Self::Key(row) => &row.row,
            Self::Text { row, .. } => &row.row,
        }
    }
}

/// The policies under which overrides are compiled.
#[derive(Clone, Copy)]
pub(super) struct Compiler<'a> {
    pub(super) context: &'a Context,
    pub(super) policies: &'a Policies,
    /// All policies by their names, where many are looked for.
    pub(super) by_name: Option<&'a HashMap<&'a str, u32>>,
}

impl<'a> Compiler<'a> {
    pub(super) fn names(policies: &'a Policies) -> HashMap<&'a str, u32> {
        policies.as_slice().iter().map(Policy::name).zip(0..).collect()
    }

    /// Returns the policy of this name, and its place.
    fn find(self, name: &str) -> Option<(&'a Policy, u32)> {
        if let Some(by_name) = self.by_name {
            let place = *by_name.get(name)?;
            return Some((self.policies.policy(place)?, place));
        }
        self.policies.as_slice().iter().zip(0..).find(|(policy, _)| policy.name() == name)
    }

    fn ruling(self, basis: &TermsBasis, place: Option<u32>, id: &TermsId) -> Result<Ruling, InertReason> {
        let ruling = basis.ruling(id)?;
        if let Ruling::Limits(limits) = &ruling
            && let Some(policy) = place.and_then(|place| self.policies.policy(place))
            && let Some(misfit) = self.context.misfit(self.policies, policy, limits)
        {
            return Err(InertReason::Store(misfit));
        }
        Ok(ruling)
    }
}

impl PolicyOverrides {
    /// Creates the part of a policy that has no overrides yet.
    pub(super) fn new(compiler: Compiler<'_>, name: &str) -> Self {
        let policy = compiler.find(name);
        Self {
            name: name.into(),
            place: policy.map(|(_, place)| place),
            basis: Arc::new(TermsBasis::of(name, policy.map(|(policy, _)| policy))),
            table: Arc::default(),
            keys: Tree::default(),
            filter: None,
            attributes: Box::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len() + self.attributes.iter().map(AttributeRows::len).sum::<usize>()
    }

    /// Returns why some of them apply to nothing; `None` if all may apply.
    pub(super) fn inert(&self) -> Option<InertReason> {
        let refused = || self.attributes.iter().find_map(|rows| rows.refusal.clone()).map(InertReason::from);
        let ruled = || self.table.live().iter().find_map(|terms| terms.ruling.clone().err());
        ruled().or_else(refused)
    }

    /// Fails if this record would be inert.
    pub(super) fn expect_fit(
        &self,
        compiler: Compiler<'_>,
        record: OverrideRecord,
    ) -> Result<(), InertReason> {
        if let OverrideTarget::Attribute { attribute, .. } = &record.name.target
            && let Some(refusal) = self.basis.refusal(attribute)
        {
            return Err(refusal.into());
        }
        let OverrideRecord { key, limits, .. } = record;
        compiler.ruling(&self.basis, self.place, &TermsId { key, limits }).map(drop)
    }

    /// Returns the target and the row of this record.
    pub(super) fn row(
        &self,
        compiler: Compiler<'_>,
        record: OverrideRecord,
    ) -> (OverrideTarget, OverrideRow) {
        let OverrideRecord { name, key, limits, until, label, note, by, at, version } = record;
        let compile = |id: &TermsId| compiler.ruling(&self.basis, self.place, id);
        let terms = self.table.get(TermsId { key, limits }, compile);
        let label = label.map(|label| compiler.context.label(label));
        let remarks = Remarks::new(by, note).map(|remarks| compiler.context.remarks(remarks));
        (name.target, OverrideRow::new(terms, until, at, version).with_texts(label, remarks))
    }

    /// Returns the same with this override.
    pub(super) fn with(&self, compiler: Compiler<'_>, record: OverrideRecord) -> Self {
        match self.row(compiler, record) {
            (OverrideTarget::Key(key), row) => {
                let (keys, _) = self.keys.with(KeyRow::new(key, row));
                let kept = self.filter.as_ref().filter(|filter| filter.add(key.into()));
                let filter = kept.map(Arc::clone).or_else(|| DigestFilter::of(&keys).map(Arc::new));
                Self { keys, filter, ..self.clone() }
            }
            (OverrideTarget::Attribute { attribute, text, is_whole }, row) => {
                let row = TextRow { text: text.into(), row };
                let (place, kept, replaced) = match self.place_of(&attribute) {
                    Ok(place) => (place, self.attributes.get(place).cloned(), 1),
                    Err(place) => (place, None, 0),
                };
                let empty = || {
                    let refusal = self.basis.refusal(&attribute);
                    AttributeRows::new(attribute.as_ref().into(), refusal)
                };
                let rows = kept.unwrap_or_else(empty);
                let changed = rows.rows(is_whole).with(row);
                self.with_attribute(place, replaced, Some(rows.with_rows(changed, is_whole)))
            }
        }
    }

    /// Returns the same without the override of this target; `None` if there is none.
    pub(super) fn without(&self, target: &OverrideTarget) -> Option<Self> {
        match target {
            OverrideTarget::Key(key) => {
                let digest = Digest::from(*key);
                let (keys, _) = self.keys.without(|other| other.cmp(&digest))?;
                Some(Self { keys, ..self.clone() })
            }
            OverrideTarget::Attribute { attribute, text, is_whole } => {
                let place = self.place_of(attribute).ok()?;
                let rows = self.attributes.get(place)?;
                let rows = rows.with_rows(rows.rows(*is_whole).without(text)?, *is_whole);
                Some(self.with_attribute(place, 1, (rows.len() > 0).then_some(rows)))
            }
        }
    }

    fn with_attribute(&self, place: usize, replaced: usize, rows: Option<AttributeRows>) -> Self {
        let before = self.attributes.iter().take(place).cloned();
        let behind = self.attributes.iter().skip(place + replaced).cloned();
        Self { attributes: before.chain(rows).chain(behind).collect(), ..self.clone() }
    }

    /// Returns the same overrides under other policies. They stay as they are if they mean the same there.
    pub(super) fn under(&self, compiler: Compiler<'_>) -> Self {
        let policy = compiler.find(&self.name);
        let place = policy.map(|(_, place)| place);
        let basis = TermsBasis::of(&self.name, policy.map(|(policy, _)| policy));
        let is_same = basis == *self.basis;
        if is_same && !compiler.context.has_fit() {
            return Self { place, ..self.clone() };
        }
        let mut is_changed = !is_same;
        let compiled = self.table.live().into_iter().map(|old| {
            let id = Arc::clone(&old.id);
            let ruling = compiler.ruling(&basis, place, &id);
            if ruling == old.ruling {
                return (Arc::as_ptr(&id), old);
            }
            is_changed = true;
            (Arc::as_ptr(&id), Arc::new(Terms { id, ruling }))
        });
        let compiled: HashMap<*const TermsId, Arc<Terms>> = compiled.collect();
        if !is_changed {
            return Self { place, ..self.clone() };
        }
        let terms = |old: &Arc<Terms>| Arc::clone(compiled.get(&Arc::as_ptr(&old.id)).unwrap_or(old));
        let translated = |row: &OverrideRow| row.under(terms(&row.terms));
        let key_row = |row: &KeyRow| KeyRow::new(row.target(), translated(&row.row));
        let attributes =
            self.attributes.iter().map(|rows| rows.map(translated).refused(basis.refusal(&rows.attribute)));
        Self {
            name: Arc::clone(&self.name),
            place,
            table: Arc::new(TermsTable::of(compiled.values().map(Arc::clone))),
            keys: self.keys.map(key_row),
            filter: self.filter.clone(),
            attributes: attributes.collect(),
            basis: Arc::new(basis),
        }
    }

    /// Returns the override of this key.
    pub(super) fn key(&self, context: &Context, key: &Key<'_>) -> Option<&OverrideRow> {
        if self.keys.is_empty() {
            return None;
        }
        let digest = Digest::from(context.digest_of_request(key));
        if self.filter.as_ref().is_some_and(|filter| !filter.may_have(digest)) {
            return None;
        }
        self.keys.get(|other| other.cmp(&digest)).map(|row| &row.row)
    }

    /// Returns the override of this target.
    pub(super) fn get(&self, target: &OverrideTarget) -> Option<TargetRow<'_>> {
        match target {
            OverrideTarget::Key(key) => {
                let digest = Digest::from(*key);
                self.keys.get(|other| other.cmp(&digest)).map(TargetRow::Key)
            }
            OverrideTarget::Attribute { attribute: name, text, is_whole } => {
                let attribute = self.attributes.get(self.place_of(name).ok()?)?;
                let (row, is_whole) = (attribute.rows(*is_whole).get(text)?, *is_whole);
                Some(TargetRow::Text { attribute, row, is_whole })
            }
        }
    }

    /// Returns the overrides behind this target, or all, in the order of their names.
    pub(super) fn after<'a>(
        &'a self,
        after: Option<&'a OverrideTarget>,
    ) -> impl Iterator<Item = TargetRow<'a>> {
        let keys = match after {
            None => self.keys.iter(),
            Some(OverrideTarget::Key(key)) => {
                let digest = Digest::from(*key);
                self.keys.rows_behind(|other| other.cmp(&digest))
            }
            Some(OverrideTarget::Attribute { .. }) => Rows::none(),
        };
        let texts = self.attributes.iter().flat_map(move |attribute| {
            let (wholes, prefixes) = attribute.after(after);
            let row = |is_whole| move |row| TargetRow::Text { attribute, row, is_whole };
            wholes.map(row(true)).chain(prefixes.map(row(false)))
        });
        keys.map(TargetRow::Key).chain(texts)
    }

    fn place_of(&self, attribute: &str) -> Result<usize, usize> {
        self.attributes.binary_search_by(|rows| (*rows.attribute).cmp(attribute))
    }
}
