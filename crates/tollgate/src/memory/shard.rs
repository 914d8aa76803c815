//! A part of the counters behind one lock.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;

use crate::{Counter, Timestamp, Window};

/// Counters found by hash; the hash is computed outside, once for a step.
#[derive(Default)]
pub(super) struct Shard {
    entries: HashTable<Entry>,
    /// At this many counters the closed ones are swept out: twice as many as were live after the last sweep,
    /// so that sweeping costs each new counter a constant share.
    sweep_at: usize,
}

struct Entry {
    hash: u64,
    /// The counter's scope, then the canonical bytes of its key.
    name: Box<[u8]>,
    state: State,
}

/// What a counter holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) used: u64,
    pub(super) window: Window,
}

/// What a sweep did and left.
pub(super) struct Swept {
    pub(super) freed: usize,
    /// When the next counter can be swept.
    pub(super) earliest_end: Timestamp,
}

impl Shard {
    pub(super) fn find(&self, hash: u64, counter: &Counter<'_>) -> Option<State> {
        self.entries.find(hash, |entry| entry.is_named(hash, counter)).map(|entry| entry.state)
    }

    pub(super) fn put(&mut self, hash: u64, counter: &Counter<'_>, state: State) {
        if let Some(entry) = self.entries.find_mut(hash, |entry| entry.is_named(hash, counter)) {
            entry.state = state;
        } else {
            let entry = Entry { hash, name: name(counter), state };
            self.entries.insert_unique(hash, entry, |entry| entry.hash);
        }
    }

    /// Forgets the counter and says whether there was one.
    pub(super) fn remove(&mut self, hash: u64, counter: &Counter<'_>) -> bool {
        self.entries
            .find_entry(hash, |entry| entry.is_named(hash, counter))
            .map(|entry| entry.remove())
            .is_ok()
    }

    /// Whether so many counters have come since the last sweep that another is due.
    pub(super) fn has_grown(&self) -> bool {
        self.entries.len() >= self.sweep_at
    }

    /// Drops the counters whose windows have closed.
    pub(super) fn sweep(&mut self, now: Timestamp) -> Swept {
        let before = self.entries.len();
        let mut earliest_end = Timestamp::from_unix_millis(i64::MAX);
        self.entries.retain(|entry| {
            let live = now < entry.state.window.end();
            if live {
                earliest_end = earliest_end.min(entry.state.window.end());
            }
            live
        });
        let live = self.entries.len();
        self.sweep_at = 2 * live.max(32);
        if self.entries.capacity() > 4 * self.sweep_at {
            self.entries.shrink_to(self.sweep_at, |entry| entry.hash);
        }
        Swept { freed: before - live, earliest_end }
    }
}

impl Entry {
    fn is_named(&self, hash: u64, counter: &Counter<'_>) -> bool {
        let (head, payload) = counter.key().pieces();
        let scope = counter.quota().scope();
        self.hash == hash
            && self.name.len() == scope.len() + head.len() + payload.len()
            && self.name.starts_with(scope)
            && self.name.ends_with(payload)
            && self.name.get(scope.len()..scope.len() + head.len()) == Some(&head[..])
    }
}

/// Feeds what names the counter to a hasher.
pub(super) fn hash_name<H: Hasher>(counter: &Counter<'_>, hasher: &mut H) {
    hasher.write(counter.quota().scope());
    counter.key().hash(hasher);
}

fn name(counter: &Counter<'_>) -> Box<[u8]> {
    let (head, payload) = counter.key().pieces();
    [counter.quota().scope(), &head, payload].concat().into_boxed_slice()
}
