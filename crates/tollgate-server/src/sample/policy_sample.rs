//! The sample of one policy.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use tollgate::Timestamp;

use super::kept_requests::{KeptRequests, has_many_keys, latest};
use super::memory::{SampleChunk, SampleMemory};
use super::request::{SampledRequest, is_sampled};

/// Requests of some keys of a policy.
#[derive(Debug)]
pub(crate) struct PolicySample {
    memory: Arc<SampleMemory>,
    /// One key in two to the power of this is sampled.
    rarity: AtomicU8,
    /// Requests that found it locked, or that there was no memory for.
    skipped: AtomicU64,
    kept: Mutex<KeptRequests>,
}

/// What a sample has.
#[derive(Debug, Default)]
pub(crate) struct SampledRequests {
    /// In no order.
    pub(crate) requests: Vec<SampledRequest>,
    /// One key in two to the power of this is sampled.
    pub(crate) rarity: u8,
    /// All requests of sampled keys from then on are there; `None` if there were none at all.
    pub(crate) since: Option<Timestamp>,
    /// Whether there were requests before that, which are forgotten.
    pub(crate) is_cut: bool,
    /// Requests of sampled keys that are not there.
    pub(crate) skipped: u64,
}

/// The span that a sample is to have.
pub(super) const SPAN: Duration = Duration::from_secs(3_600);

impl PolicySample {
    /// One key in 2^15 is the least. The rest of a hash is for other purposes.
    const MAX_RARITY: u8 = 15;

    pub(crate) fn new(memory: &Arc<SampleMemory>) -> Self {
        let (rarity, skipped, kept) = Default::default();
        Self { memory: Arc::clone(memory), rarity, skipped, kept }
    }

    /// Notes a request if its key is sampled. It never waits: if another thread uses the sample, the request is only
    /// counted as skipped.
    #[inline]
    pub(crate) fn note(&self, key: u64, request: impl FnOnce() -> SampledRequest) {
        // Relaxed: requests of keys that are no longer sampled are left out when the sample is read.
        if !is_sampled(key, self.rarity.load(Ordering::Relaxed)) {
            return;
        }
        self.keep(request());
    }

    fn keep(&self, request: SampledRequest) {
        let is_kept = match self.kept.try_lock() {
            Ok(mut kept) => kept.push(request, &self.memory),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().push(request, &self.memory),
            Err(TryLockError::WouldBlock) => false,
        };
        if !is_kept {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns a copy of what it has.
    pub(crate) fn requests(&self) -> SampledRequests {
        self.aside(|chunks| {
            let requests = chunks.iter().flat_map(SampleChunk::requests).copied();
            let mut requests: Vec<SampledRequest> = requests.collect();
            let kept = self.kept();
            requests.extend(kept.chunks.iter().flat_map(SampleChunk::requests));
            let (since, is_cut) = (kept.since, kept.is_cut);
            let skipped = kept.skipped + self.skipped.load(Ordering::Relaxed);
            // While there are requests from the time when fewer keys were sampled, only those keys are complete.
            let rarity = self.rarity.load(Ordering::Relaxed) + u8::from(kept.commoner_since.is_some());
            drop(kept);
            requests.retain(|request| {
                is_sampled(request.key, rarity) && since.is_none_or(|since| request.at >= since)
            });
            SampledRequests { requests, rarity, since, is_cut, skipped }
        })
    }

    /// Returns how many chunks of memory it uses.
    pub(super) fn chunks(&self) -> usize {
        self.kept().chunks.len()
    }

    /// Forgets requests before this time, as soon as they fill a chunk.
    pub(super) fn forget_before(&self, time: Timestamp) {
        let mut kept = self.kept();
        while kept.chunks.front().is_some_and(|first| latest(first).is_some_and(|latest| latest < time)) {
            kept.forget_first();
            kept.cut(time);
        }
    }

    /// Forgets its oldest requests, so many chunks of them.
    pub(super) fn forget(&self, chunks: usize) {
        let mut kept = self.kept();
        (0..chunks).for_each(|_| drop(kept.forget_first()));
    }

    /// Samples half as many keys. Returns `false`, and changes nothing, if there are too few.
    pub(super) fn thin(&self) -> bool {
        self.aside(|chunks| {
            let rarity = self.rarity.load(Ordering::Relaxed) + 1;
            if rarity > Self::MAX_RARITY || !has_many_keys(chunks) {
                return false;
            }
            self.rarity.store(rarity, Ordering::Relaxed);
            self.kept().commoner_since = None;
            let all = chunks.iter().flat_map(SampleChunk::requests);
            let rest: Vec<SampledRequest> =
                all.filter(|request| is_sampled(request.key, rarity)).copied().collect();
            let mut spare = mem::take(chunks);
            for requests in rest.chunks(SampleChunk::REQUESTS) {
                // There are more than before of nothing.
                let Some(mut chunk) = spare.pop_front() else { break };
                chunk.refill(requests);
                chunks.push_back(chunk);
            }
            true
        })
    }

    /// Samples twice as many keys, if the last hour has few requests. It takes an hour until they count, because those of
    /// the new keys before it are unknown.
    pub(super) fn relax(&self, now: Timestamp, few_chunks: usize) {
        let mut kept = self.kept();
        match kept.commoner_since {
            Some(since) if now.since(since) >= SPAN => {
                kept.commoner_since = None;
                kept.cut(since);
            }
            Some(_) => {}
            None => {
                let rarity = self.rarity.load(Ordering::Relaxed);
                let is_recent = |chunk: &&SampleChunk| latest(chunk).is_some_and(|at| now.since(at) < SPAN);
                if rarity > 0
                    && kept.chunks.iter().rev().take(few_chunks + 1).take_while(is_recent).count()
                        <= few_chunks
                {
                    self.rarity.store(rarity - 1, Ordering::Relaxed);
                    kept.commoner_since = Some(now);
                }
            }
        }
    }

    /// Dates the requests that were skipped, so that they are forgotten with those of their time.
    pub(super) fn date_skipped(&self, now: Timestamp) {
        let skipped = self.skipped.swap(0, Ordering::Relaxed);
        let mut kept = self.kept();
        if skipped > 0 {
            kept.skipped += skipped;
            kept.skipped_at = Some(now);
        }
        if kept.since.zip(kept.skipped_at).is_some_and(|(since, skipped_at)| skipped_at < since) {
            (kept.skipped, kept.skipped_at) = (0, None);
        }
    }

    /// Takes the requests out while something reads or changes them, so that checks can go on to note theirs.
    fn aside<T>(&self, then: impl FnOnce(&mut VecDeque<SampleChunk>) -> T) -> T {
        let _arranging = self.memory.arranging();
        let mut chunks = mem::take(&mut self.kept().chunks);
        let result = then(&mut chunks);
        let mut kept = self.kept();
        chunks.append(&mut kept.chunks);
        kept.chunks = chunks;
        result
    }

    fn kept(&self) -> MutexGuard<'_, KeptRequests> {
        // Nothing under this lock leaves a half-made change.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn locked_while(&self, then: impl FnOnce()) {
        let _kept = self.kept();
        then();
    }
}
