//! The keys that occur most often in a stream, by the Space-Saving algorithm (A. Metwally, D. Agrawal, A. El Abbadi:
//! "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005).
//!
//! With `n` rows, after `counted` requests:
//! - The true count of a row's key lies between `count - error` and `count`.
//! - No error exceeds `counted / n`, and neither does the true count of a key that has no row. So every key with more
//!   than that has a row.

use std::sync::Arc;

use tollgate::Key;

use super::kept_key::KeptKey;
use super::memory::{Memory, ReservedBytes};

/// The most frequent keys of a stream.
///
/// Places are the order by count, largest first. Rows stay where they are, and only their places change. A count grows
/// by one, so its row changes places with the first of those that had the same count.
#[derive(Debug)]
pub(super) struct Summary {
    rows: Vec<SummaryRow>,
    /// The ids of the rows, close together for the index.
    ids: Vec<u64>,
    /// The places of the rows.
    places: Vec<u8>,
    /// The counts by place: sorted, and close together for the search.
    counts: Vec<u64>,
    /// The rows by place.
    order: Vec<u8>,
    /// Rows by the hash of their ids, with linear probing.
    index: Box<[u8]>,
    capacity: usize,
    counted: u64,
    /// The first place with the smallest count, unless that has changed since.
    first_of_smallest: usize,
    /// That of all but the keys.
    _memory: ReservedBytes,
}

#[derive(Debug)]
struct SummaryRow {
    /// What `count` may be too high by.
    error: u64,
    key: KeptKey,
}

/// A key with its count.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedKey<'a> {
    pub(super) id: u64,
    pub(super) count: u64,
    pub(super) error: u64,
    pub(super) key: &'a KeptKey,
}

/// No row is here.
const VACANT: u8 = u8::MAX;

/// Places of the index for each row: half of them are vacant, so probes are short.
const INDEX_PER_ROW: usize = 2;

impl Summary {
    /// The most rows: their numbers fit into a byte, and the index is sized by a power of two.
    pub(super) const MAX_ROWS: usize = 128;

    /// Creates a summary with so many rows, a power of two up to [`MAX_ROWS`](Self::MAX_ROWS); `None` if there is no
    /// memory for it.
    pub(super) fn new(capacity: usize, memory: &Arc<Memory>) -> Option<Self> {
        debug_assert!(capacity.is_power_of_two() && capacity <= Self::MAX_ROWS, "{capacity}");
        let reserved = memory.reserve(Self::bytes(capacity))?;
        Some(Self {
            rows: Vec::with_capacity(capacity),
            ids: Vec::with_capacity(capacity),
            places: Vec::with_capacity(capacity),
            counts: Vec::with_capacity(capacity),
            order: Vec::with_capacity(capacity),
            index: vec![VACANT; capacity * INDEX_PER_ROW].into(),
            capacity,
            counted: 0,
            first_of_smallest: 0,
            _memory: reserved,
        })
    }

    /// The bytes of so many rows, without their keys.
    pub(super) const fn bytes(capacity: usize) -> usize {
        size_of::<Self>() + capacity * (size_of::<SummaryRow>() + 2 * size_of::<u64>() + 2 + INDEX_PER_ROW)
    }

    /// Forgets everything, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.counts.clear();
        self.ids.clear();
        self.places.clear();
        self.order.clear();
        self.index.fill(VACANT);
        (self.counted, self.first_of_smallest) = (0, 0);
        // Rows keep the memory of their keys, and are used again in turn.
    }

    /// Counts one request of a key.
    pub(super) fn count(&mut self, id: u64, key: &Key<'_>, memory: &Arc<Memory>) {
        self.counted += 1;
        let place = match self.find(id) {
            Some(place) => place,
            None if self.len() < self.capacity => self.add(id, key, memory),
            None => self.replace_smallest(id, key, memory),
        };
        self.increment(place);
    }

    fn len(&self) -> usize {
        self.counts.len()
    }

    /// Gives a free row to a key. Its count is still 0, so it is the last one.
    fn add(&mut self, id: u64, key: &Key<'_>, memory: &Arc<Memory>) -> usize {
        let place = self.len();
        let row = place as u8;
        match self.rows.get_mut(place) {
            // From before the last `clear`.
            Some(row) => {
                row.error = 0;
                row.key.replace(key, memory);
            }
            None => {
                let key = KeptKey::new(key, memory);
                self.rows.push(SummaryRow { error: 0, key });
            }
        }
        self.counts.push(0);
        self.ids.push(id);
        self.places.push(row);
        self.order.push(row);
        self.insert(id, row);
        place
    }

    /// Gives a row with the smallest count to a key, which may have had as many requests as that.
    fn replace_smallest(&mut self, id: u64, key: &Key<'_>, memory: &Arc<Memory>) -> usize {
        // Of all with this count the first one, because it keeps its place when its count grows.
        let place = self.first_of_smallest();
        let (number, count) = (self.order[place], self.counts[place]);
        self.remove(number);
        self.ids[usize::from(number)] = id;
        let row = &mut self.rows[usize::from(number)];
        row.error = count;
        row.key.replace(key, memory);
        self.insert(id, number);
        place
    }

    /// Adds one to the count at a place.
    fn increment(&mut self, place: usize) {
        let count = self.counts[place];
        // The first one with the same count. Usually it is this one.
        let first = match place.checked_sub(1).map(|before| self.counts[before]) {
            Some(before) if before != count => place,
            _ if self.counts.last() == Some(&count) => self.first_of_smallest(),
            None => place,
            Some(_) => self.counts[..place].partition_point(|other| *other > count),
        };
        if first != place {
            self.order.swap(first, place);
            let (here, there) = (self.order[first], self.order[place]);
            self.places[usize::from(here)] = first as u8;
            self.places[usize::from(there)] = place as u8;
        }
        self.counts[first] = count + 1;
        if first == self.first_of_smallest {
            self.first_of_smallest += 1;
        }
    }

    /// Returns the first place with the smallest count. Rows leave these places one after another, from the first one, so
    /// the search is seldom.
    fn first_of_smallest(&mut self) -> usize {
        let smallest = self.counts.last().copied().unwrap_or_default();
        let first = self.first_of_smallest;
        let is_it = self.counts.get(first) == Some(&smallest)
            && first.checked_sub(1).is_none_or(|before| self.counts[before] > smallest);
        if !is_it {
            self.first_of_smallest = self.counts.partition_point(|other| *other > smallest);
        }
        self.first_of_smallest
    }

    /// Returns the place of a key.
    fn find(&self, id: u64) -> Option<usize> {
        let mut slot = self.home(id);
        loop {
            let number = self.index[slot];
            if number == VACANT {
                return None;
            }
            if self.ids[usize::from(number)] == id {
                return Some(usize::from(self.places[usize::from(number)]));
            }
            slot = self.after(slot);
        }
    }

    fn insert(&mut self, id: u64, row: u8) {
        let mut slot = self.home(id);
        while self.index[slot] != VACANT {
            slot = self.after(slot);
        }
        self.index[slot] = row;
    }

    /// Removes a key from the index, and moves those behind it, so that no probe ends too early.
    fn remove(&mut self, row: u8) {
        let mut slot = self.home(self.ids[usize::from(row)]);
        while self.index[slot] != row {
            if self.index[slot] == VACANT {
                return;
            }
            slot = self.after(slot);
        }
        let (mut hole, mut next) = (slot, self.after(slot));
        while self.index[next] != VACANT {
            let home = self.home(self.ids[usize::from(self.index[next])]);
            // It may move if its home is not behind the hole.
            let mask = self.index.len() - 1;
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.index[hole] = self.index[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.index[hole] = VACANT;
    }

    /// Where the search for an id begins. Ids are keyed hashes, so nobody can make them meet.
    fn home(&self, id: u64) -> usize {
        id as usize & (self.index.len() - 1)
    }

    fn after(&self, slot: usize) -> usize {
        (slot + 1) & (self.index.len() - 1)
    }

    /// Returns the keys, the most frequent first.
    pub(super) fn keys(&self) -> impl Iterator<Item = CountedKey<'_>> {
        self.order.iter().zip(&self.counts).filter_map(|(row, count)| {
            let SummaryRow { error, key } = self.rows.get(usize::from(*row))?;
            Some(CountedKey { id: *self.ids.get(usize::from(*row))?, count: *count, error: *error, key })
        })
    }

    /// Returns how many requests were counted.
    pub(super) const fn counted(&self) -> u64 {
        self.counted
    }

    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns how many requests a key may have had that has no row, and the most that a row's count may be too high by.
    pub(super) fn max_error(&self) -> u64 {
        if self.len() < self.capacity { 0 } else { self.counts.last().copied().unwrap_or_default() }
    }

    /// Returns the bytes in use, with keys.
    pub(super) fn memory_bytes(&self) -> usize {
        Self::bytes(self.capacity) + self.rows.iter().map(|row| row.key.memory_bytes()).sum::<usize>()
    }
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
