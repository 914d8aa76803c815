//! Many overrides at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::filter::DigestFilter;
use super::policy_overrides::{Compiler, PolicyOverrides};
use super::row::{KeyRow, TextRow};
use super::texts::{AttributeRows, TextRows};
use super::tree::{Tree, TreeRow};
use super::{OverrideRecord, OverrideTarget};

/// The overrides of a policy that are being loaded, in any order.
pub(super) struct BulkOverrides {
    part: PolicyOverrides,
    keys: BulkKeys,
    texts: BTreeMap<Box<str>, BulkTexts>,
}

#[derive(Default)]
struct BulkTexts {
    wholes: Vec<TextRow>,
    prefixes: Vec<TextRow>,
}

/// Overrides of keys, in lists by the first bits of their digests. A list is freed once it is in the tree, so that a
/// million overrides are never there twice.
struct BulkKeys {
    lists: Vec<Vec<KeyRow>>,
    bits: u32,
    len: usize,
}

/// Rows of a list. Twice as many would be as good.
const LIST: usize = 4_096;

impl BulkOverrides {
    /// Adds an override to those of its policy.
    pub(super) fn add(parts: &mut BTreeMap<Box<str>, Self>, compiler: Compiler<'_>, record: OverrideRecord) {
        if !parts.contains_key(&record.name.policy) {
            let part = PolicyOverrides::new(compiler, &record.name.policy);
            let keys = BulkKeys { lists: vec![Vec::new()], bits: 0, len: 0 };
            parts.insert(record.name.policy.clone(), Self { part, keys, texts: BTreeMap::new() });
        }
        let Some(Self { part, keys, texts }) = parts.get_mut(&record.name.policy) else { return };
        match part.row(compiler, record) {
            (OverrideTarget::Key(key), row) => keys.add(KeyRow::new(key, row)),
            (OverrideTarget::Attribute { attribute, text, is_whole }, row) => {
                let BulkTexts { wholes, prefixes } = texts.entry(attribute).or_default();
                let rows = if is_whole { wholes } else { prefixes };
                rows.push(TextRow { text: text.into(), row });
            }
        }
    }

    pub(super) fn finish(self) -> PolicyOverrides {
        let Self { part, keys, texts } = self;
        let attributes = texts.into_iter().map(|(attribute, BulkTexts { wholes, prefixes })| {
            let refusal = part.basis.refusal(&attribute);
            let rows = |rows| TextRows::of_sorted(sorted(rows, |row: &TextRow| row.row.version));
            let (wholes, prefixes) = (rows(wholes), rows(prefixes));
            AttributeRows { attribute: attribute.into(), wholes, prefixes, refusal }
        });
        let attributes = attributes.collect();
        let lists = keys.lists.into_iter().map(|list| sorted(list, |row| row.row.version));
        let keys = Tree::of_sorted(lists);
        let filter = DigestFilter::of(&keys).map(Arc::new);
        PolicyOverrides { keys, filter, attributes, ..part }
    }
}

impl BulkKeys {
    fn add(&mut self, row: KeyRow) {
        if self.len >= LIST << self.bits {
            self.split();
        }
        self.len += 1;
        self.push(row);
    }

    fn push(&mut self, row: KeyRow) {
        // Without any bits, there is one list.
        let place = row.digest().high.checked_shr(64 - self.bits).unwrap_or(0);
        if let Some(list) = self.lists.get_mut(place as usize) {
            list.push(row);
        }
    }

    /// Makes sixteen lists of each.
    fn split(&mut self) {
        self.bits += 4;
        let lists = std::mem::replace(&mut self.lists, vec![Vec::new(); 1 << self.bits]);
        for list in lists {
            list.into_iter().for_each(|row| self.push(row));
        }
    }
}

/// Sorts the rows by their keys. Of two with one key, that of the higher version stays.
fn sorted<R: TreeRow>(mut rows: Vec<R>, version: impl Fn(&R) -> u64) -> Vec<R> {
    rows.sort_unstable_by(|one, other| one.key().cmp(other.key()).then(version(other).cmp(&version(one))));
    rows.dedup_by(|next, kept| next.key() == kept.key());
    rows
}
