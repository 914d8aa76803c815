//! An answer that is made once a second, however many viewers ask.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;

use super::page::PackedBody;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct SharedAnswer {
    /// Drawn for this process, so that no other one has its tags.
    process: u64,
    last: Mutex<Option<(u64, Arc<PackedBody>)>>,
}

impl Default for SharedAnswer {
    fn default() -> Self {
        Self { process: fastrand::u64(..), last: Mutex::default() }
    }
}

impl SharedAnswer {
    /// Returns the answer for this second. The first who asks makes it, and the others wait for it. `make` gets the length
    /// of the last one.
    pub(crate) async fn get(&self, second: u64, make: impl AsyncFnOnce(usize) -> Bytes) -> Arc<PackedBody> {
        let mut last = self.last.lock().await;
        if let Some((known, answer)) = &*last
            && *known == second
        {
            return Arc::clone(answer);
        }
        let length = last.as_ref().map_or(0, |(_, answer)| answer.plain().len());
        // A second of a process has one answer, so nothing is hashed while viewers wait.
        let tag = format!("{:x}-{second}", self.process);
        let answer = Arc::new(PackedBody::short_lived(make(length).await, tag));
        *last = Some((second, Arc::clone(&answer)));
        answer
    }
}
