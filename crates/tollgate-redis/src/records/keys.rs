//! The keys of shared records, all in one slot.

use crate::names::CounterNames;
use crate::script::KeyText;
use crate::slot::{self, ClusterSlot};

use super::damage::{DamagedRecord, DamagedRecords};

/// The keys of shared records, in the order in which the script has them.
#[derive(Debug)]
pub(super) struct RecordKeys {
    keys: [KeyText; 4],
    slot: ClusterSlot,
}

/// The parts of shared records, each under a key of its own, and what each of them holds.
const PARTS: [(&str, &str); 4] = [
    ("head", "the version of the records"),
    ("records", "as many records as the head says"),
    ("ends", "the ends of records"),
    ("log", "the last changes"),
];

/// The place of the hash of records.
const RECORDS: usize = 1;

impl RecordKeys {
    pub(super) fn new(names: &CounterNames, records: &str, is_cluster: bool) -> Self {
        let keys = PARTS.map(|(part, _)| names.record_part(records, part));
        let slot = ClusterSlot(if is_cluster { slot::of(&keys[RECORDS]) } else { 0 });
        Self { keys, slot }
    }

    pub(super) const fn slot(&self) -> ClusterSlot {
        self.slot
    }

    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.keys.iter().map(|key| &**key)
    }

    /// The hash of records.
    pub(super) fn records(&self) -> &[u8] {
        &self.keys[RECORDS]
    }

    /// The error of a key that holds something else, by its place from 1 on.
    pub(super) fn damaged(&self, place: i64) -> Option<DamagedRecords> {
        let place = usize::try_from(place).ok()?.checked_sub(1)?;
        let (key, (part, expected)) = (self.keys.get(place)?, PARTS.get(place)?);
        let key = String::from_utf8_lossy(key);
        let beginning =
            key.rsplit_once(&format!("{part}:{{")).map_or(&*key, |(beginning, _)| beginning).into();
        Some(DamagedRecords { expected, beginning, key: key.into() })
    }

    /// The same of one record.
    pub(super) fn damaged_record(&self, name: &[u8]) -> DamagedRecord {
        let text = |bytes| String::from_utf8_lossy(bytes).into();
        DamagedRecord { name: text(name), key: text(self.records()) }
    }
}
