//! The memory of all samples, which has a bound.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::request::SampledRequest;

/// The memory that all samples use together, in chunks.
#[derive(Debug, Default)]
pub(crate) struct SampleMemory {
    /// Chunks in use.
    used: AtomicUsize,
    /// Only the thread with this lock reads or thins a sample. Checks never take it.
    arranging: Mutex<()>,
}

/// Room for a few requests.
#[derive(Debug)]
pub(super) struct SampleChunk {
    requests: Vec<SampledRequest>,
    memory: Arc<SampleMemory>,
}

impl SampleMemory {
    /// The most requests of all policies together: 6 MiB.
    pub(crate) const MAX_REQUESTS: usize = 1 << 18;

    pub(super) const MAX_CHUNKS: usize = Self::MAX_REQUESTS / SampleChunk::REQUESTS;

    /// Returns room for more requests; `None` if there is none left.
    pub(super) fn chunk(self: &Arc<Self>) -> Option<SampleChunk> {
        let one_more = |used: usize| Some(used + 1).filter(|used| *used <= Self::MAX_CHUNKS);
        // Relaxed: the number guards no other memory.
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(SampleChunk { requests: Vec::with_capacity(SampleChunk::REQUESTS), memory: Arc::clone(self) })
    }

    /// Returns how many chunks are in use.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn arranging(&self) -> MutexGuard<'_, ()> {
        self.arranging.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SampleChunk {
    /// A service may have 1,000 policies with few requests each, so a chunk is small: 1.5 KiB.
    pub(super) const REQUESTS: usize = 64;

    pub(super) fn is_full(&self) -> bool {
        self.requests.len() >= Self::REQUESTS
    }

    /// Adds a request. The chunk must not be full.
    pub(super) fn push(&mut self, request: SampledRequest) {
        self.requests.push(request);
    }

    /// Has these requests in place of its own, at most [`REQUESTS`](Self::REQUESTS).
    pub(super) fn refill(&mut self, requests: &[SampledRequest]) {
        self.requests.clear();
        self.requests.extend_from_slice(requests);
    }

    pub(super) fn requests(&self) -> &[SampledRequest] {
        &self.requests
    }
}

impl Drop for SampleChunk {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(1, Ordering::Relaxed);
    }
}
