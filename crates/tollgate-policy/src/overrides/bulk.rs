//! Many overrides at once.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use super::filter::DigestFilter;
use super::policy_overrides::{Compiler, PolicyOverrides};
use super::row::{Digest, KeyRow, OverrideRow, TextRow};
use super::texts::{AttributeRows, TextRows};
use super::tree::{MAX_ROWS, Tree, filled};
use super::{OverrideName, OverrideRecord, OverrideSet, OverrideTarget};
use crate::Policies;

/// Overrides that are being loaded into a set, one after another: see [`OverrideSet::loading`].
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use tollgate::{Key, Quota, SystemClock, Timestamp};
/// use tollgate_policy::{OverrideLimits, OverrideRecord, OverrideSet, Policies, Policy};
///
/// let policies = Policies::of([Policy::builder("search").quota(Quota::per_minute(100)).build()?])?;
/// let digest = |key: &Key<'_>| u128::from(key.canonical_bytes().len() as u64); // A real one is a hash.
/// let set = OverrideSet::new(Arc::new(digest), Arc::new(SystemClock));
/// let record = |id: &str| {
///     Ok::<_, tollgate_policy::OverrideNameError>(OverrideRecord {
///         name: id.parse()?,
///         key: "global".into(),
///         limits: OverrideLimits::Unlimited,
///         until: None,
///         label: None,
///         note: None,
///         by: None,
///         at: Timestamp::from_unix_millis(0),
///         version: 1,
///     })
/// };
/// let mut loading = set.loading(&policies);
/// loading.set(record("search:tenant=acme")?);
/// loading.set(record("search:tenant=other")?);
/// loading.delete(&"search:tenant=acme".parse()?);
/// assert_eq!(loading.finish().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OverridesLoad<'a> {
    empty: OverrideSet,
    policies: &'a Policies,
    by_name: HashMap<&'a str, u32>,
    parts: BTreeMap<Box<str>, BulkOverrides>,
}

/// The overrides of a policy that are being loaded.
struct BulkOverrides {
    part: PolicyOverrides,
    keys: BulkKeys,
    texts: BTreeMap<Box<str>, BulkTexts>,
}

/// An override, or nothing in place of those of its name that came before.
type BulkRow<Name> = (Name, Option<OverrideRow>);

#[derive(Default)]
struct BulkTexts {
    wholes: Vec<BulkRow<Arc<str>>>,
    prefixes: Vec<BulkRow<Arc<str>>>,
}

/// Overrides of keys, in lists by the first bits of their digests. A list is freed once it is in the tree, so that a
/// million overrides are never there twice.
struct BulkKeys {
    lists: Vec<BulkList>,
    bits: u32,
    len: usize,
}

/// Rows in chunks. A chunk is as large as a leaf of the tree, so an allocator has room for leaves where chunks were. The
/// memory of one long vector would still be in use for other vectors when the leaves are made.
#[derive(Clone, Default)]
struct BulkList {
    chunks: Vec<Vec<BulkRow<Digest>>>,
}

/// Rows of a list. Twice as many would be as good.
const LIST: usize = 4_096;

/// Rows of a chunk: with its header, a leaf that is loaded has one row less.
const CHUNK: usize = filled(MAX_ROWS) + 1;

impl<'a> OverridesLoad<'a> {
    pub(super) fn new(empty: OverrideSet, policies: &'a Policies) -> Self {
        Self { empty, policies, by_name: Compiler::names(policies), parts: BTreeMap::new() }
    }

    /// Adds an override. It replaces one of its name.
    pub fn set(&mut self, record: OverrideRecord) {
        let Self { empty, policies, by_name, parts } = self;
        let compiler = Compiler { context: empty.context(), policies, by_name: Some(by_name) };
        if !parts.contains_key(&record.name.policy) {
            let part = PolicyOverrides::new(compiler, &record.name.policy);
            parts.insert(record.name.policy.clone(), BulkOverrides::new(part));
        }
        if let Some(part) = parts.get_mut(&record.name.policy) {
            let (target, row) = part.part.row(compiler, record);
            part.add(target, Some(row));
        }
    }

    /// Removes the override of this name, if there is one.
    pub fn delete(&mut self, name: &OverrideName) {
        if let Some(part) = self.parts.get_mut(&name.policy) {
            part.add(name.target.clone(), None);
        }
    }

    /// Returns the set.
    #[must_use]
    pub fn finish(self) -> OverrideSet {
        let Self { empty, parts, .. } = self;
        parts.into_values().fold(empty, |set, part| set.with_part(part.finish()))
    }
}

/// Without the overrides, which may be many.
impl fmt::Debug for OverridesLoad<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverridesLoad").finish_non_exhaustive()
    }
}

impl BulkOverrides {
    fn new(part: PolicyOverrides) -> Self {
        let keys = BulkKeys { lists: vec![BulkList::default()], bits: 0, len: 0 };
        Self { part, keys, texts: BTreeMap::new() }
    }

    fn add(&mut self, target: OverrideTarget, row: Option<OverrideRow>) {
        match target {
            OverrideTarget::Key(key) => self.keys.add((key.into(), row)),
            OverrideTarget::Attribute { attribute, text, is_whole } => {
                let BulkTexts { wholes, prefixes } = self.texts.entry(attribute).or_default();
                let rows = if is_whole { wholes } else { prefixes };
                rows.push((text.into(), row));
            }
        }
    }

    fn finish(self) -> PolicyOverrides {
        let Self { part, keys, texts } = self;
        let attributes = texts.into_iter().map(|(attribute, BulkTexts { wholes, prefixes })| {
            let refusal = part.basis.refusal(&attribute);
            let rows = |rows| TextRows::of_sorted(sorted(rows, |text, row| TextRow { text, row }));
            let (wholes, prefixes) = (rows(wholes), rows(prefixes));
            AttributeRows { attribute: attribute.into(), wholes, prefixes, refusal }
        });
        let attributes = attributes.filter(|rows| rows.len() > 0).collect();
        let keys = Tree::of_sorted(keys.lists.into_iter().map(|list| sorted(list.into_rows(), KeyRow::new)));
        let filter = DigestFilter::of(&keys).map(Arc::new);
        PolicyOverrides { keys, filter, attributes, ..part }
    }
}

impl BulkKeys {
    fn add(&mut self, row: BulkRow<Digest>) {
        if self.len >= LIST << self.bits {
            self.split();
        }
        self.len += 1;
        self.push(row);
    }

    fn push(&mut self, row: BulkRow<Digest>) {
        // Without any bits, there is one list.
        let place = row.0.high.checked_shr(64 - self.bits).unwrap_or(0);
        if let Some(list) = self.lists.get_mut(place as usize) {
            list.push(row);
        }
    }

    /// Makes sixteen lists of each.
    fn split(&mut self) {
        self.bits += 4;
        let lists = std::mem::replace(&mut self.lists, vec![BulkList::default(); 1 << self.bits]);
        for chunk in lists.into_iter().flat_map(|list| list.chunks) {
            chunk.into_iter().for_each(|row| self.push(row));
        }
    }
}

impl BulkList {
    fn push(&mut self, row: BulkRow<Digest>) {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(row),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(row);
                self.chunks.push(chunk);
            }
        }
    }

    fn into_rows(self) -> Vec<BulkRow<Digest>> {
        let mut rows = Vec::with_capacity(self.chunks.len() * CHUNK);
        self.chunks.into_iter().for_each(|chunk| rows.extend(chunk));
        rows
    }
}

/// Sorts the rows by their names. Of those of one name, the last one stays, if it is an override.
fn sorted<Name: Ord, Row>(mut rows: Vec<BulkRow<Name>>, row: impl Fn(Name, OverrideRow) -> Row) -> Vec<Row> {
    // Those of one name stay in their order.
    rows.sort_by(|(one, _), (other, _)| one.cmp(other));
    rows.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        if is_same {
            std::mem::swap(next, kept);
        }
        is_same
    });
    rows.into_iter().filter_map(|(name, found)| found.map(|found| row(name, found))).collect()
}
