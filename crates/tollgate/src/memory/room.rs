//! The cap on the number of counters.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::lock;
use super::shard::Shard;
use crate::Timestamp;

/// How many counters there are and may be.
pub(super) struct Room {
    max_keys: usize,
    /// Counters in all shards, those of closed windows included until they are swept.
    keys: AtomicUsize,
    /// No counter's window ends before this (Unix milliseconds), so no sweep before it frees anything.
    earliest_end: AtomicI64,
    /// Held while all shards are swept.
    sweeping: Mutex<()>,
}

impl Room {
    pub(super) fn new(max_keys: usize) -> Self {
        let (keys, earliest_end) = (AtomicUsize::new(0), AtomicI64::new(i64::MAX));
        Self { max_keys, keys, earliest_end, sweeping: Mutex::new(()) }
    }

    pub(super) fn max_keys(&self) -> usize {
        self.max_keys
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// Whether so many more counters would fit.
    pub(super) fn has(&self, more: usize) -> bool {
        self.keys().saturating_add(more) <= self.max_keys
    }

    /// Takes room for so many more counters, or none.
    pub(super) fn take(&self, more: usize) -> bool {
        // Relaxed, here and below: the count guards no other memory.
        let fits = |keys: usize| keys.checked_add(more).filter(|sum| *sum <= self.max_keys);
        self.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    pub(super) fn give_back(&self, keys: usize) {
        self.keys.fetch_sub(keys, Ordering::Relaxed);
    }

    /// Notes that a counter was written whose window ends then; called with its shard locked.
    pub(super) fn note_end(&self, end: Timestamp) {
        // The load keeps the usual case from writing: ends seldom come earlier than all that are known.
        if end.as_unix_millis() < self.earliest_end.load(Ordering::Relaxed) {
            self.earliest_end.fetch_min(end.as_unix_millis(), Ordering::Relaxed);
        }
    }

    /// Sweeps closed counters out of all shards, and says whether there is room to find now.
    pub(super) fn make(&self, now: Timestamp, shards: &[Mutex<Shard>]) -> bool {
        let _sweeping = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have swept while this one waited; then no counter is left that has closed.
        if self.earliest_end.load(Ordering::Relaxed) <= now.as_unix_millis() {
            // What is written from here on notes its end itself; what was written before is found by the
            // sweep, because it takes every shard's lock after this.
            self.earliest_end.store(i64::MAX, Ordering::Relaxed);
            for shard in shards {
                let mut shard = lock(shard);
                let swept = shard.sweep(now);
                self.give_back(swept.freed);
                self.note_end(swept.earliest_end);
            }
        }
        self.has(1)
    }
}
