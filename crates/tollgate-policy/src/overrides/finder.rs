//! Which override applies to a request.

use std::cell::{Cell, OnceCell};
use std::time::Duration;

use tollgate::{Key, Timestamp};

use super::policy_overrides::PolicyOverrides;
use super::row::{OverrideRow, TextRow};
use super::terms::Ruling;
use super::texts::AttributeRows;
use super::{OverrideEntry, OverrideQuotas, OverrideSet};
use crate::{Policy, UndecidedValue, Value, View};

/// The overrides under which a request is matched, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OverridesAt<'a> {
    pub(crate) set: Option<&'a OverrideSet>,
    /// The store's time, if it is known. An override with an end applies strictly before it then.
    pub(crate) at: Option<Timestamp>,
}

/// Finds the overrides of one request, all at one time.
pub(crate) struct OverrideFinder<'a> {
    /// `None` if there is no override at all, as is usual.
    set: Option<&'a OverrideSet>,
    time: FinderTime,
}

enum FinderTime {
    Known(Timestamp),
    /// The process's estimate of the store's time, which is read once an override with an end is found.
    Estimated {
        now: OnceCell<Timestamp>,
        slack: EndSlack,
        /// Whether an override was found after its end.
        has_kept_one: Cell<bool>,
    },
}

/// What happens to an override with limits whose end is near.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndSlack {
    /// It applies for a while after its end, because the step that charges compares the end with its own time.
    Kept,
    /// It applies up to its end: no step compares it.
    None,
}

/// How long an override with limits is found after its end, by an estimate of the store's time. A store whose clock is
/// further behind the estimate decides without the override before its end.
const SLACK: Duration = Duration::from_secs(2);

/// An override that applies to a request. It is not inert.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByOverride<'a>(&'a OverrideRow);

impl<'a> OverridesAt<'a> {
    pub(crate) const NONE: Self = Self { set: None, at: None };
}

impl<'a> ByOverride<'a> {
    /// Returns its end.
    pub(crate) fn until(self) -> Option<Timestamp> {
        self.0.until()
    }

    /// Returns its limits; `None` if it has none.
    pub(crate) fn limits(self) -> Option<&'a OverrideQuotas> {
        match &self.0.terms.ruling {
            Ok(Ruling::Limits(limits)) => Some(limits),
            _ => None,
        }
    }

    pub(crate) fn is_denial(self) -> bool {
        matches!(self.0.terms.ruling, Ok(Ruling::Denied))
    }
}

impl<'a> OverrideFinder<'a> {
    pub(crate) fn new(OverridesAt { set, at }: OverridesAt<'a>, slack: EndSlack) -> Self {
        let time = match at {
            Some(now) => FinderTime::Known(now),
            None => FinderTime::Estimated { now: OnceCell::new(), slack, has_kept_one: Cell::new(false) },
        };
        Self { set: set.filter(|set| set.has_placed_parts()), time }
    }

    /// Returns whether there may be overrides.
    pub(crate) const fn has_any(&self) -> bool {
        self.set.is_some()
    }

    /// Returns whether an override was found that has ended by the estimate of the store's time.
    pub(crate) fn has_kept_one(&self) -> bool {
        matches!(&self.time, FinderTime::Estimated { has_kept_one, .. } if has_kept_one.get())
    }

    /// Returns the override of this policy for a request with this key: that of the key, else that of the longest whole
    /// text, else that of the longest prefix.
    ///
    /// # Errors
    ///
    /// If that depends on an attribute whose value is not known.
    #[inline]
    pub(crate) fn find<V: View>(
        &self,
        policy: &Policy,
        place: u32,
        key: &Key<'_>,
        view: &V,
    ) -> Result<Option<ByOverride<'a>>, UndecidedValue<'a>> {
        let Some(set) = self.set else { return Ok(None) };
        match set.part_at(place, policy) {
            None => Ok(None),
            Some(part) => self.find_in(set, part, key, view),
        }
    }

    fn find_in<V: View>(
        &self,
        set: &'a OverrideSet,
        part: &'a PolicyOverrides,
        key: &Key<'_>,
        view: &V,
    ) -> Result<Option<ByOverride<'a>>, UndecidedValue<'a>> {
        if let Some(row) = part.key(set.context(), key)
            && let Some(found) = self.applied(set, row)
        {
            return Ok(Some(found));
        }
        if part.attributes.is_empty() {
            return Ok(None);
        }
        let wholes = |rows: &'a AttributeRows, text: &str| {
            let row = rows.wholes.get(text)?;
            self.applied(set, &row.row).map(|found| (row, found))
        };
        if let Some(found) = longest(part, view, |rows| rows.wholes.has_usable(), wholes)? {
            return Ok(Some(found));
        }
        let prefixes = |rows: &'a AttributeRows, text: &str| {
            rows.prefixes
                .beginnings(text)
                .find_map(|row| self.applied(set, &row.row).map(|found| (row, found)))
        };
        longest(part, view, |rows| rows.prefixes.has_usable(), prefixes)
    }

    /// Returns the override if it is neither inert nor at its end.
    fn applied(&self, set: &OverrideSet, row: &'a OverrideRow) -> Option<ByOverride<'a>> {
        let ruling = row.terms.ruling.as_ref().ok()?;
        let Some(until) = row.until() else { return Some(ByOverride(row)) };
        let is_before = match &self.time {
            FinderTime::Known(now) => *now < until,
            FinderTime::Estimated { now, slack, has_kept_one } => {
                let now = *now.get_or_init(|| set.now());
                match (slack, ruling) {
                    (EndSlack::Kept, Ruling::Limits(_)) => {
                        let is_kept = now < until + SLACK;
                        has_kept_one.set(has_kept_one.get() || is_kept && now >= until);
                        is_kept
                    }
                    _ => now < until,
                }
            }
        };
        is_before.then_some(ByOverride(row))
    }
}

impl OverrideSet {
    /// Returns the override of this policy that applies to a request at this time of the store's clock, whether or not the
    /// policy matches the request; `None` if the request lacks the policy's key, or if one of its attributes is
    /// not known. This is for people: it looks through all overrides of the policy.
    #[must_use]
    pub fn applied<V: View>(&self, policy: &Policy, view: &V, at: Timestamp) -> Option<OverrideEntry<'_>> {
        let (part, key) = (self.part(policy.name())?, policy.identity().key(view).ok()?);
        let finder = OverrideFinder::new(OverridesAt { set: Some(self), at: Some(at) }, EndSlack::None);
        let ByOverride(found) = finder.find_in(self, part, &key, view).ok()??;
        // What applies is found as rows, which do not have their names: requests do not need them.
        let mut targets = part.after(None);
        let target = targets.find(|target| std::ptr::eq(target.row(), found))?;
        Some(OverrideEntry { context: self.context(), part, target })
    }
}

/// Returns the override of the longest text that one of the attributes meets. Of two of one length, the attribute whose
/// name comes first counts, then the text that comes first.
fn longest<'a, V: View>(
    part: &'a PolicyOverrides,
    view: &V,
    is_asked: impl Fn(&AttributeRows) -> bool,
    find: impl Fn(&'a AttributeRows, &str) -> Option<(&'a TextRow, ByOverride<'a>)>,
) -> Result<Option<ByOverride<'a>>, UndecidedValue<'a>> {
    let mut longest: Option<(&'a TextRow, ByOverride<'a>)> = None;
    let mut undecided: Option<UndecidedValue<'a>> = None;
    // In the order of the attributes' names.
    for rows in part.attributes.iter().filter(|rows| rows.refusal.is_none() && is_asked(rows)) {
        let attribute = &*rows.attribute;
        let texts = match view.value(attribute) {
            Ok(texts) => texts,
            Err(unknown) => {
                let other = UndecidedValue { attribute, unknown };
                undecided = Some(undecided.map_or(other, |earlier| earlier.sooner(other)));
                continue;
            }
        };
        let mut best: Option<(&'a TextRow, ByOverride<'a>)> = None;
        for text in texts.into_iter().flat_map(|texts| Value::of(attribute, texts).texts()) {
            let Some((row, found)) = find(rows, text) else { continue };
            let is_better = |(other, _): &(&TextRow, _)| {
                row.text.len() > other.text.len()
                    || (row.text.len() == other.text.len() && row.text < other.text)
            };
            if best.as_ref().is_none_or(is_better) {
                best = Some((row, found));
            }
        }
        let is_longer = |(row, _): &(&TextRow, _)| {
            longest.as_ref().is_none_or(|(other, _)| row.text.len() > other.text.len())
        };
        if best.as_ref().is_some_and(is_longer) {
            longest = best;
        }
    }
    match undecided {
        Some(undecided) => Err(undecided),
        None => Ok(longest.map(|(_, found)| found)),
    }
}
