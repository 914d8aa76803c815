//! Many overrides at once.

use std::collections::BTreeMap;

use super::part::{Compiler, Part};
use super::row::{KeyRow, TextRow};
use super::texts::{AttributeRows, TextRows};
use super::tree::{Row, Tree};
use super::{OverrideRecord, OverrideTarget};

/// The overrides of a policy that are being loaded, in any order.
pub(super) struct BulkPart {
    part: Part,
    keys: Vec<KeyRow>,
    texts: BTreeMap<Box<str>, BulkTexts>,
}

#[derive(Default)]
struct BulkTexts {
    wholes: Vec<TextRow>,
    prefixes: Vec<TextRow>,
}

impl BulkPart {
    /// Adds an override to those of its policy.
    pub(super) fn add(parts: &mut BTreeMap<Box<str>, Self>, compiler: Compiler<'_>, record: OverrideRecord) {
        if !parts.contains_key(&record.name.policy) {
            let part = Part::new(compiler, &record.name.policy);
            let empty = Self { part, keys: Vec::new(), texts: BTreeMap::new() };
            parts.insert(record.name.policy.clone(), empty);
        }
        let Some(Self { part, keys, texts }) = parts.get_mut(&record.name.policy) else { return };
        match part.row(compiler, record) {
            (OverrideTarget::Key(key), row) => keys.push(KeyRow::new(key, row)),
            (OverrideTarget::Attribute { attribute, text, is_whole }, row) => {
                let BulkTexts { wholes, prefixes } = texts.entry(attribute).or_default();
                let rows = if is_whole { wholes } else { prefixes };
                rows.push(TextRow { text: text.into(), row });
            }
        }
    }

    pub(super) fn finish(self) -> Part {
        let Self { part, keys, texts } = self;
        let attributes = texts.into_iter().map(|(attribute, BulkTexts { wholes, prefixes })| {
            let refusal = part.basis.refusal(&attribute);
            let rows = |rows| TextRows::of_sorted(sorted(rows, |row: &TextRow| row.row.version));
            let (wholes, prefixes) = (rows(wholes), rows(prefixes));
            AttributeRows { attribute: attribute.into(), wholes, prefixes, refusal }
        });
        let attributes = attributes.collect();
        Part { keys: Tree::of_sorted(sorted(keys, |row| row.row.version)), attributes, ..part }
    }
}

/// Sorts the rows by their keys. Of two with one key, that of the higher version stays.
fn sorted<R: Row>(mut rows: Vec<R>, version: impl Fn(&R) -> u64) -> Vec<R> {
    rows.sort_unstable_by(|one, other| one.key().cmp(other.key()).then(version(other).cmp(&version(one))));
    rows.dedup_by(|next, kept| next.key() == kept.key());
    rows
}
