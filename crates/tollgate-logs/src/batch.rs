//! Requests that are read together.

use std::{fmt, mem};

use crate::record::Bucket;
use crate::request::Request;

/// Requests that were read together, in the order of time. The next ones that are read into it use the same memory.
#[derive(Default)]
pub struct Batch {
    buckets: Vec<Bucket>,
    requests: usize,
    bytes: usize,
}

/// A batch is full with this many requests or bytes. Threads wait for each other at the end of a batch; with batches of
/// this size, that costs little.
const REQUESTS: usize = 32_768;
const BYTES: usize = 8 << 20;

impl Batch {
    /// Returns the requests.
    pub fn requests(&self) -> impl Iterator<Item = Request<'_>> {
        self.buckets.iter().flat_map(|bucket| bucket.heads.iter().map(move |head| Request { bucket, head }))
    }

    /// Returns the number of requests. Whole seconds are added until there are 32,768 requests, or 8 MiB of them.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.requests
    }

    /// Returns whether there are no requests.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.requests == 0
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.requests >= REQUESTS || self.bytes >= BYTES
    }

    pub(crate) fn push(&mut self, bucket: Bucket) {
        self.requests += bucket.heads.len();
        self.bytes += bucket.size();
        self.buckets.push(bucket);
    }

    /// Takes all buckets out.
    pub(crate) fn take(&mut self) -> Vec<Bucket> {
        mem::take(self).buckets
    }
}

impl fmt::Debug for Batch {
    /// Data from clients is left out: it may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("requests", &self.requests).finish_non_exhaustive()
    }
}
