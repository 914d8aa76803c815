//! Overrides as a set has them: in as few bytes as possible, because there may be a million.

use std::cmp::Ordering;
use std::sync::Arc;

use tollgate::Timestamp;

use super::terms::Terms;
use super::tree::{Row, Rows, Tree};
use super::{OverrideKey, OverrideTarget, OverrideTargetError};

/// An override, without its target.
#[derive(Debug, Clone)]
pub(super) struct OverrideRow {
    pub(super) terms: Arc<Terms>,
    /// [`NO_END`] if it has no end.
    until: i64,
    pub(super) at: Timestamp,
    pub(super) version: u64,
    pub(super) label: Option<Arc<str>>,
    pub(super) remarks: Option<Arc<Remarks>>,
}

/// An end that is never reached.
const NO_END: i64 = i64::MAX;

/// What only people read of an override.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remarks {
    pub(super) by: Option<Arc<str>>,
    pub(super) note: Option<Box<str>>,
}

/// An override of a key.
#[derive(Debug, Clone)]
pub(super) struct KeyRow {
    digest: Digest,
    pub(super) row: OverrideRow,
}

/// A key's digest in two words: a number of 128 bits would leave a gap of 8 bytes in each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Digest {
    high: u64,
    low: u64,
}

/// An override of a text.
#[derive(Debug, Clone)]
pub(super) struct TextRow {
    pub(super) text: Arc<str>,
    pub(super) row: OverrideRow,
}

/// The overrides of an attribute's texts.
#[derive(Debug, Clone)]
pub(super) struct AttributeRows {
    pub(super) attribute: Arc<str>,
    pub(super) wholes: Tree<TextRow>,
    pub(super) prefixes: Tree<TextRow>,
    /// The lengths of the prefixes, the longest first, and how many have each.
    lengths: Box<[(u32, u32)]>,
    /// Why none of them applies, if the policy's overrides cannot compare the attribute with a text.
    pub(super) refusal: Option<OverrideTargetError>,
}

impl OverrideRow {
    pub(super) fn new(terms: Arc<Terms>, until: Option<Timestamp>, at: Timestamp, version: u64) -> Self {
        let until = until.map_or(NO_END, Timestamp::as_unix_millis);
        Self { terms, until, at, version, label: None, remarks: None }
    }

    pub(super) fn with_texts(self, label: Option<Arc<str>>, remarks: Option<Arc<Remarks>>) -> Self {
        Self { label, remarks, ..self }
    }

    /// Returns the same with other terms.
    pub(super) fn under(&self, terms: Arc<Terms>) -> Self {
        Self { terms, ..self.clone() }
    }

    pub(super) fn until(&self) -> Option<Timestamp> {
        (self.until != NO_END).then(|| Timestamp::from_unix_millis(self.until))
    }
}

impl KeyRow {
    pub(super) fn new(key: OverrideKey, row: OverrideRow) -> Self {
        Self { digest: key.into(), row }
    }

    pub(super) fn target(&self) -> OverrideKey {
        let Digest { high, low } = self.digest;
        OverrideKey(u128::from(high) << 64 | u128::from(low))
    }
}

impl From<OverrideKey> for Digest {
    fn from(OverrideKey(key): OverrideKey) -> Self {
        Self { high: (key >> 64) as u64, low: key as u64 }
    }
}

impl Row for KeyRow {
    type Key = Digest;

    fn key(&self) -> &Digest {
        &self.digest
    }
}

impl Row for TextRow {
    type Key = Arc<str>;

    fn key(&self) -> &Arc<str> {
        &self.text
    }
}

impl AttributeRows {
    /// Creates the rows of many overrides, which are sorted by their texts.
    pub(super) fn of_sorted(
        attribute: Arc<str>,
        wholes: Vec<TextRow>,
        prefixes: Vec<TextRow>,
        refusal: Option<OverrideTargetError>,
    ) -> Self {
        let mut lengths = Lengths::default();
        prefixes.iter().for_each(|row| lengths.add(&row.text));
        let (wholes, prefixes) = (Tree::of_sorted(wholes), Tree::of_sorted(prefixes));
        Self { attribute, wholes, prefixes, lengths: lengths.0.into(), refusal }
    }

    pub(super) fn len(&self) -> usize {
        self.wholes.len() + self.prefixes.len()
    }

    /// Returns the same with this override, and the one that it replaces.
    pub(super) fn with(&self, row: TextRow, is_whole: bool) -> (Self, Option<TextRow>) {
        if is_whole {
            let (wholes, replaced) = self.wholes.with(row);
            return (Self { wholes, ..self.clone() }, replaced);
        }
        let mut lengths = Lengths(self.lengths.to_vec());
        let text = Arc::clone(&row.text);
        let (prefixes, replaced) = self.prefixes.with(row);
        if replaced.is_none() {
            lengths.add(&text);
        }
        (Self { prefixes, lengths: lengths.0.into(), ..self.clone() }, replaced)
    }

    /// Returns the same without the override of this text; `None` if there is none.
    pub(super) fn without(&self, text: &str, is_whole: bool) -> Option<Self> {
        if is_whole {
            let (wholes, _) = self.wholes.without(by_text(text))?;
            return Some(Self { wholes, ..self.clone() });
        }
        let (prefixes, _) = self.prefixes.without(by_text(text))?;
        let mut lengths = Lengths(self.lengths.to_vec());
        lengths.remove(text);
        Some(Self { prefixes, lengths: lengths.0.into(), ..self.clone() })
    }

    pub(super) fn get(&self, text: &str, is_whole: bool) -> Option<&TextRow> {
        let rows = if is_whole { &self.wholes } else { &self.prefixes };
        rows.get(by_text(text))
    }

    /// Returns the override of this whole text.
    pub(super) fn whole(&self, text: &str) -> Option<&TextRow> {
        self.wholes.get(by_text(text))
    }

    /// Returns the overrides of its beginnings, the longest first.
    pub(super) fn prefixes_of<'a, 't>(
        &'a self,
        text: &'t str,
    ) -> impl Iterator<Item = &'a TextRow> + use<'a, 't> {
        let beginnings = self.lengths.iter().filter_map(|(length, _)| text.get(..*length as usize));
        beginnings.filter_map(|beginning| self.prefixes.get(by_text(beginning)))
    }

    pub(super) fn refused(self, refusal: Option<OverrideTargetError>) -> Self {
        Self { refusal, ..self }
    }

    /// Returns the overrides of whole texts and of prefixes behind this target, or all.
    pub(super) fn after(&self, after: Option<&OverrideTarget>) -> (Rows<'_, TextRow>, Rows<'_, TextRow>) {
        let Some(OverrideTarget::Attribute { attribute, text, is_whole }) = after else {
            return (self.wholes.iter(), self.prefixes.iter());
        };
        match (*self.attribute).cmp(attribute) {
            Ordering::Less => (Rows::none(), Rows::none()),
            Ordering::Equal if *is_whole => (self.wholes.rows_behind(by_text(text)), self.prefixes.iter()),
            Ordering::Equal => (Rows::none(), self.prefixes.rows_behind(by_text(text))),
            Ordering::Greater => (self.wholes.iter(), self.prefixes.iter()),
        }
    }

    /// Returns the same with another row in the place of each.
    pub(super) fn map(&self, mut row: impl FnMut(&OverrideRow) -> OverrideRow) -> Self {
        let mut text_row = |TextRow { text, row: old }: &_| TextRow { text: Arc::clone(text), row: row(old) };
        let (wholes, prefixes) = (self.wholes.map(&mut text_row), self.prefixes.map(&mut text_row));
        Self { wholes, prefixes, ..self.clone() }
    }
}

impl Remarks {
    pub(super) fn new(by: Option<Arc<str>>, note: Option<Box<str>>) -> Option<Self> {
        (by.is_some() || note.is_some()).then_some(Self { by, note })
    }
}

/// Returns the order of texts to this one.
pub(super) fn by_text(text: &str) -> impl Fn(&Arc<str>) -> Ordering {
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
