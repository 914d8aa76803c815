//! The requests that the sample of a policy keeps.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use tollgate::Timestamp;

use super::memory::{SampleChunk, SampleMemory};
use super::request::SampledRequest;

/// Requests of sampled keys.
#[derive(Debug, Default)]
pub(super) struct KeptRequests {
    /// The oldest first, as far as threads agree on it.
    pub(super) chunks: VecDeque<SampleChunk>,
    /// Every request of a sampled key from then on is there, unless it was skipped.
    pub(super) since: Option<Timestamp>,
    /// Whether there were requests before that.
    pub(super) is_cut: bool,
    /// Since when more keys are sampled than before.
    pub(super) commoner_since: Option<Timestamp>,
    /// Requests that were skipped since `since`, and when some of them were found last.
    pub(super) skipped: u64,
    pub(super) skipped_at: Option<Timestamp>,
}

/// With fewer keys, a sample of half of them says too little.
const MIN_KEYS: usize = 128;

impl KeptRequests {
    /// Adds a request, in place of its oldest ones if there is no more memory. Returns whether there was room.
    pub(super) fn push(&mut self, request: SampledRequest, memory: &Arc<SampleMemory>) -> bool {
        if self.chunks.back().is_none_or(SampleChunk::is_full) {
            let Some(chunk) = memory.chunk().or_else(|| self.forget_first()) else { return false };
            self.chunks.push_back(chunk);
        }
        if let Some(last) = self.chunks.back_mut() {
            last.push(request);
        }
        if !self.is_cut {
            // Threads may note their requests in another order.
            self.since = Some(self.since.map_or(request.at, |since| since.min(request.at)));
        }
        true
    }

    /// Returns its oldest chunk, empty.
    pub(super) fn forget_first(&mut self) -> Option<SampleChunk> {
        let mut chunk = self.chunks.pop_front()?;
        if let Some(latest) = latest(&chunk) {
            // Another request of the same millisecond may be in the next chunk.
            self.cut(Timestamp::from_unix_millis(latest.as_unix_millis().saturating_add(1)));
        }
        chunk.refill(&[]);
        Some(chunk)
    }

    /// Nothing is known of requests before this time.
    pub(super) fn cut(&mut self, time: Timestamp) {
        self.since = self.since.max(Some(time));
        self.is_cut = true;
    }
}

/// When its last request was counted. Threads do not quite agree on the order.
pub(super) fn latest(chunk: &SampleChunk) -> Option<Timestamp> {
    chunk.requests().iter().map(|request| request.at).max()
}

/// Whether the latest requests, at most some thousands, are of many keys.
pub(super) fn has_many_keys(chunks: &VecDeque<SampleChunk>) -> bool {
    const LATEST: usize = 8_192 / SampleChunk::REQUESTS;
    let mut keys = HashSet::with_capacity(MIN_KEYS);
    let mut latest = chunks.iter().rev().take(LATEST).flat_map(SampleChunk::requests);
    latest.any(|request| {
        keys.insert(request.key);
        keys.len() >= MIN_KEYS
    })
}
