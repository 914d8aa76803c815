//! Overrides as a set has them: in as few bytes as possible, because there may be a million.

use std::sync::Arc;

use tollgate::Timestamp;

use super::OverrideKey;
use super::terms::Terms;
use super::tree::TreeRow;

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
    pub(super) high: u64,
    pub(super) low: u64,
}

/// An override of a text.
#[derive(Debug, Clone)]
pub(super) struct TextRow {
    pub(super) text: Arc<str>,
    pub(super) row: OverrideRow,
}

impl OverrideRow {
    pub(super) fn new(terms: Arc<Terms>, until: Option<Timestamp>, at: Timestamp, version: u64) -> Self {
        let until = until.map_or(NO_END, Timestamp::as_unix_millis);
        Self { terms, until, at, version, label: None, remarks: None }
    }

    #[cfg(test)]
    pub(super) fn for_test() -> Self {
        Self::new(Arc::new(Terms::for_test()), None, Timestamp::from_unix_millis(0), 0)
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
    pub(super) fn new(key: impl Into<Digest>, row: OverrideRow) -> Self {
        Self { digest: key.into(), row }
    }

    pub(super) const fn digest(&self) -> Digest {
        self.digest
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

impl TreeRow for KeyRow {
    type Key = Digest;

    fn key(&self) -> &Digest {
        &self.digest
    }
}

impl TreeRow for TextRow {
    type Key = Arc<str>;

    fn key(&self) -> &Arc<str> {
        &self.text
    }
}

impl Remarks {
    pub(super) fn new(by: Option<Arc<str>>, note: Option<Box<str>>) -> Option<Self> {
        (by.is_some() || note.is_some()).then_some(Self { by, note })
    }
}
