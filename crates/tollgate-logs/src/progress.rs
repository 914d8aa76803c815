//! The progress of reading.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The progress of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The bytes that have been read, as they are in the files: compressed ones are counted compressed.
    pub bytes: u64,
    /// The bytes of all files. `None` if one of the inputs has no known size, as a pipe.
    pub of: Option<u64>,
    /// The lines that have been read, of every kind.
    pub lines: u64,
}

/// Tells how far a [`Reader`](crate::Reader) has come, from any thread and while it reads.
#[derive(Debug, Clone)]
pub struct Watch {
    pub(crate) counts: Arc<Counts>,
    pub(crate) of: Option<u64>,
}

impl Watch {
    /// How far reading has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.counts.progress(self.of)
    }
}

/// The counts of a reader. They are for display alone, so no order between them matters.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    bytes: AtomicU64,
    lines: AtomicU64,
}

impl Counts {
    pub(crate) fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_lines(&self, lines: u64) {
        self.lines.fetch_add(lines, Ordering::Relaxed);
    }

    pub(crate) fn progress(&self, of: Option<u64>) -> Progress {
        Progress { bytes: self.bytes.load(Ordering::Relaxed), of, lines: self.lines.load(Ordering::Relaxed) }
    }
}
