//! The beginning of a key, for people and for changes by administrators. It never leaves the process but where
//! `GET /v1/talkers` shows it to a principal with the scope `keys`.

use std::fmt;
use std::sync::Arc;

use tollgate::Key;

use super::memory::{Memory, ReservedBytes};

/// The first of the canonical bytes of a key, in memory that is used for one key after another.
#[derive(Default)]
pub(super) struct KeptKey {
    bytes: Vec<u8>,
    memory: Option<ReservedBytes>,
}

impl KeptKey {
    /// Bytes that are kept of a key. Those of usual keys fit, and what a client sends cannot fill the memory.
    pub(super) const MAX_BYTES: usize = 128;

    /// The smallest memory.
    const MIN_BYTES: usize = 16;

    pub(super) fn new(key: &Key<'_>, memory: &Arc<Memory>) -> Self {
        let mut kept = Self::default();
        kept.replace(key, memory);
        kept
    }

    /// Keeps this key instead. It allocates nothing, unless the key is larger than all before it. If there is no memory
    /// for that, only the beginning is kept, or nothing.
    pub(super) fn replace(&mut self, key: &Key<'_>, memory: &Arc<Memory>) {
        self.bytes.clear();
        key.write_canonical_bytes(|piece| {
            self.grow((self.bytes.len() + piece.len()).min(Self::MAX_BYTES), memory);
            let room = self.bytes.capacity().min(Self::MAX_BYTES).saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
        });
    }

    fn grow(&mut self, length: usize, memory: &Arc<Memory>) {
        if length <= self.bytes.capacity() {
            return;
        }
        let wanted = length.next_power_of_two().max(Self::MIN_BYTES);
        // Before what it has is given back.
        if let Some(reserved) = memory.reserve(wanted) {
            let mut bytes = Vec::with_capacity(wanted);
            bytes.extend_from_slice(&self.bytes);
            self.bytes = bytes;
            self.memory = Some(reserved);
        }
    }

    /// Returns the canonical bytes, or the first of them.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Hides the key, which may be a person or a secret.
impl fmt::Debug for KeptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeptKey({} bytes)", self.bytes.len())
    }
}
