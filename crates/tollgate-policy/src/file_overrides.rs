//! Overrides: other quotas for some requests of a policy.

use tollgate::{PolicyInFlight, PolicyQuota};

use crate::index::Table;
use crate::limit::QuotaLists;
use crate::{Condition, Conditions, Position, QuotaSpec, UndecidedValue, Value, View};

/// An override: other quotas for some requests of a policy, by conditions or by a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOverride {
    pub(crate) at: Position,
    pub(crate) rule: FileOverrideRule,
    /// One list for conditions. For a table, each list once, even if several values have it.
    pub(crate) lists: Box<[QuotaLists]>,
}

/// The requests that an override applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileOverrideRule {
    /// Requests that meet these conditions.
    When(Conditions),
    /// Requests whose value is in the table.
    In(FileOverrideTable),
}

/// The values of an attribute for which an override has quotas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOverrideTable {
    pub(crate) attribute: Box<str>,
    /// The number of each value's list.
    pub(crate) values: Table<u32>,
    pub(crate) len: usize,
}

/// Which of a policy's lists of quotas: one of an override, or its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListPlace(Option<(u32, u32)>);

impl ListPlace {
    /// That of the policy's own list.
    pub(crate) const OWN: Self = Self(None);

    pub(crate) const fn is_own(self) -> bool {
        self.0.is_none()
    }

    /// The list for a request: that of the first override that holds, else the policy's own.
    pub(crate) fn find<'a, V: View>(
        overrides: &'a [FileOverride],
        view: &V,
    ) -> Result<Self, UndecidedValue<'a>> {
        for (number, over) in (0..).zip(overrides) {
            if let Some(list) = over.list(view)? {
                return Ok(Self(Some((number, list))));
            }
        }
        Ok(Self(None))
    }

    pub(crate) fn of<'a>(self, overrides: &'a [FileOverride], own: &'a QuotaLists) -> &'a QuotaLists {
        let Self(Some((number, list))) = self else { return own };
        let over = overrides.get(number as usize);
        over.and_then(|over| over.lists.get(list as usize)).unwrap_or(own)
    }

    /// The override that has it, if one does.
    pub(crate) fn of_override(self, overrides: &[FileOverride]) -> Option<&FileOverride> {
        self.0.and_then(|(number, _)| overrides.get(number as usize))
    }
}

impl FileOverride {
    /// Returns its place in the file.
    #[must_use]
    pub const fn at(&self) -> Position {
        self.at
    }

    /// Returns its conditions, unless it is a [table](Self::table).
    #[must_use]
    pub const fn when(&self) -> Option<&Conditions> {
        match &self.rule {
            FileOverrideRule::When(conditions) => Some(conditions),
            FileOverrideRule::In(_) => None,
        }
    }

    /// Returns the table, if it is one.
    #[must_use]
    pub const fn table(&self) -> Option<&FileOverrideTable> {
        match &self.rule {
            FileOverrideRule::When(_) => None,
            FileOverrideRule::In(table) => Some(table),
        }
    }

    /// Returns its lists of quotas, each of which replaces the policy's. A table has each of its lists once.
    pub fn quotas(&self) -> impl Iterator<Item = &[PolicyQuota]> {
        self.lists.iter().map(|list| list.enforced.quotas.as_ref())
    }

    /// Returns the limit in flight of each of its lists, in the order of [`quotas`](Self::quotas).
    pub fn in_flight(&self) -> impl Iterator<Item = Option<&PolicyInFlight>> {
        self.lists.iter().map(|list| list.enforced.in_flight.as_ref())
    }

    /// Returns the limits of all its lists, as they are written in a file, with the limits in flight.
    pub fn written_limits(&self) -> impl Iterator<Item = String> {
        self.lists.iter().flat_map(|list| list.enforced.written())
    }

    /// Returns the limits that are tried out, of all its lists, as they are written in a file, with the limits in flight.
    pub fn written_candidates(&self) -> impl Iterator<Item = String> {
        self.lists.iter().flat_map(|list| list.candidates.written())
    }

    /// Returns its lists of quotas that are tried out where it counts.
    pub fn candidates(&self) -> impl Iterator<Item = &[PolicyQuota]> {
        self.lists.iter().map(|list| list.candidates.quotas.as_ref())
    }

    /// Returns the quotas of all its lists, as they are written in a file.
    pub fn quota_specs(&self) -> impl Iterator<Item = QuotaSpec<'_>> {
        self.lists.iter().flat_map(|list| list.enforced.iter())
    }

    /// Returns the quotas that are tried out, of all its lists, as they are written in a file.
    pub fn candidate_specs(&self) -> impl Iterator<Item = QuotaSpec<'_>> {
        self.lists.iter().flat_map(|list| list.candidates.iter())
    }

    /// Returns the names of the attributes that it uses.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = &str> {
        let table = self.table().map(FileOverrideTable::attribute);
        let limit_attributes =
            self.lists.iter().flat_map(|list| list.enforced.attributes().chain(list.candidates.attributes()));
        self.when()
            .into_iter()
            .flat_map(Conditions::iter)
            .map(Condition::attribute)
            .chain(table)
            .chain(limit_attributes)
    }

    /// The number of the list for a request, if it is for that.
    fn list<V: View>(&self, view: &V) -> Result<Option<u32>, UndecidedValue<'_>> {
        match &self.rule {
            FileOverrideRule::When(conditions) => Ok(conditions.holds(view)?.then_some(0)),
            FileOverrideRule::In(table) => {
                let attribute = table.attribute();
                let value = view.value(attribute).map_err(|unknown| UndecidedValue { attribute, unknown })?;
                // Of a list, the first text that is in the table counts.
                let mut texts = value.into_iter().flat_map(|texts| Value::of(attribute, texts).texts());
                Ok(texts.find_map(|text| table.values.get(text)).copied())
            }
        }
    }
}

impl FileOverrideTable {
    /// Returns the name of the attribute that is looked up.
    #[must_use]
    pub fn attribute(&self) -> &str {
        &self.attribute
    }

    /// Returns how many values it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}
