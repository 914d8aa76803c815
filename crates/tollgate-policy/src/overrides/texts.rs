//! The overrides that compare an attribute with texts.

use std::cmp::Ordering;
use std::sync::Arc;

use super::row::{OverrideRow, TextRow};
use super::tree::{Rows, Tree};
use super::{OverrideTarget, OverrideTargetError};

/// The overrides that compare one attribute.
#[derive(Debug, Clone)]
pub(super) struct AttributeRows {
    pub(super) attribute: Arc<str>,
    pub(super) wholes: TextRows,
    pub(super) prefixes: TextRows,
    /// Why none of them applies, if the policy's overrides cannot compare the attribute with a text.
    pub(super) refusal: Option<OverrideTargetError>,
}

/// The overrides of texts, each of which is either a whole or a prefix.
#[derive(Debug, Clone, Default)]
pub(super) struct TextRows {
    rows: Tree<TextRow>,
    /// The lengths of the texts, the longest first, and how many have each.
    lengths: Box<[(u32, u32)]>,
    /// How many are not inert.
    usable: usize,
}

impl AttributeRows {
    pub(super) fn new(attribute: Arc<str>, refusal: Option<OverrideTargetError>) -> Self {
        Self { attribute, wholes: TextRows::default(), prefixes: TextRows::default(), refusal }
    }

    pub(super) fn len(&self) -> usize {
        self.wholes.rows.len() + self.prefixes.rows.len()
    }

    pub(super) const fn rows(&self, is_whole: bool) -> &TextRows {
        if is_whole { &self.wholes } else { &self.prefixes }
    }

    /// Returns the same with other overrides of whole texts, or of prefixes.
    pub(super) fn with_rows(&self, rows: TextRows, is_whole: bool) -> Self {
        let same = self.clone();
        if is_whole { Self { wholes: rows, ..same } } else { Self { prefixes: rows, ..same } }
    }

    pub(super) fn refused(self, refusal: Option<OverrideTargetError>) -> Self {
        Self { refusal, ..self }
    }

    /// Returns the overrides of whole texts and of prefixes behind this target, or all.
    pub(super) fn after(&self, after: Option<&OverrideTarget>) -> (Rows<'_, TextRow>, Rows<'_, TextRow>) {
        let (wholes, prefixes) = (&self.wholes.rows, &self.prefixes.rows);
        let Some(OverrideTarget::Attribute { attribute, text, is_whole }) = after else {
            return (wholes.iter(), prefixes.iter());
        };
        match (*self.attribute).cmp(attribute) {
            Ordering::Less => (Rows::none(), Rows::none()),
            Ordering::Equal if *is_whole => (wholes.rows_behind(by_text(text)), prefixes.iter()),
            Ordering::Equal => (Rows::none(), prefixes.rows_behind(by_text(text))),
            Ordering::Greater => (wholes.iter(), prefixes.iter()),
        }
    }

    /// Returns the same with each row replaced by another.
    pub(super) fn map(&self, mut row: impl FnMut(&OverrideRow) -> OverrideRow) -> Self {
        let (wholes, prefixes) = (self.wholes.map(&mut row), self.prefixes.map(&mut row));
        Self { wholes, prefixes, ..self.clone() }
    }
}

impl TextRows {
    /// Creates the rows of many overrides, which are sorted by their texts.
    pub(super) fn of_sorted(rows: Vec<TextRow>) -> Self {
        let mut lengths = Lengths::default();
        rows.iter().for_each(|row| lengths.add(&row.text));
        let usable = rows.iter().filter(|row| is_usable(&row.row)).count();
        Self { lengths: lengths.0.into(), usable, rows: Tree::of_sorted([rows]) }
    }

    /// Returns whether some of them may apply.
    pub(super) const fn has_usable(&self) -> bool {
        self.usable > 0
    }

    /// Returns the same with this override.
    pub(super) fn with(&self, row: TextRow) -> Self {
        let mut lengths = Lengths(self.lengths.to_vec());
        lengths.add(&row.text);
        let usable = self.usable + usize::from(is_usable(&row.row));
        let (rows, replaced) = self.rows.with(row);
        if let Some(replaced) = &replaced {
            lengths.remove(&replaced.text);
        }
        let was_usable = replaced.is_some_and(|row| is_usable(&row.row));
        Self { rows, lengths: lengths.0.into(), usable: usable - usize::from(was_usable) }
    }

    /// Returns the same without the override of this text; `None` if there is none.
    pub(super) fn without(&self, text: &str) -> Option<Self> {
        let (rows, removed) = self.rows.without(by_text(text))?;
        let mut lengths = Lengths(self.lengths.to_vec());
        lengths.remove(text);
        let usable = self.usable - usize::from(is_usable(&removed.row));
        Some(Self { rows, lengths: lengths.0.into(), usable })
    }

    pub(super) fn get(&self, text: &str) -> Option<&TextRow> {
        self.rows.get(by_text(text))
    }

    /// Returns the overrides of the beginnings of this text, the longest first.
    pub(super) fn beginnings<'a, 't>(
        &'a self,
        text: &'t str,
    ) -> impl Iterator<Item = &'a TextRow> + use<'a, 't> {
        let beginnings = self.lengths.iter().filter_map(|(length, _)| text.get(..*length as usize));
        beginnings.filter_map(|beginning| self.rows.get(by_text(beginning)))
    }

    fn map(&self, row: &mut impl FnMut(&OverrideRow) -> OverrideRow) -> Self {
        let mut usable = 0;
        let rows = self.rows.map(|TextRow { text, row: old }| {
            let (text, row) = (Arc::clone(text), row(old));
            usable += usize::from(is_usable(&row));
            TextRow { text, row }
        });
        Self { rows, lengths: self.lengths.clone(), usable }
    }
}

fn is_usable(row: &OverrideRow) -> bool {
    row.terms.ruling.is_ok()
}

/// Returns the order of texts to this one.
fn by_text(text: &str) -> impl Fn(&Arc<str>) -> Ordering {
    move |other| (**other).cmp(text)
}

/// Lengths of texts, the longest first, and how many have each.
#[derive(Default)]
struct Lengths(Vec<(u32, u32)>);

impl Lengths {
    fn place(&self, text: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(length, _)| text.len().cmp(&(*length as usize)))
    }

    fn add(&mut self, text: &str) {
        match self.place(text) {
            Ok(place) => self.0.iter_mut().skip(place).take(1).for_each(|(_, count)| *count += 1),
            Err(place) => self.0.insert(place, (text.len() as u32, 1)),
        }
    }

    fn remove(&mut self, text: &str) {
        let Ok(place) = self.place(text) else { return };
        self.0.iter_mut().skip(place).take(1).for_each(|(_, count)| *count -= 1);
        self.0.retain(|(_, count)| *count > 0);
    }
}
