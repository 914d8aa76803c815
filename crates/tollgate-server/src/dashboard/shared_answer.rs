//! An answer that is made once a second, however many viewers ask.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;

use super::page::PackedBody;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct SharedAnswer(Mutex<Option<(u64, Arc<PackedBody>)>>);

impl SharedAnswer {
    /// Returns the answer for this second. The first who asks makes it, and the others wait for it.
    pub(crate) async fn get(&self, second: u64, make: impl AsyncFnOnce() -> Bytes) -> Arc<PackedBody> {
        let mut last = self.0.lock().await;
        if let Some((known, answer)) = &*last
            && *known == second
        {
            return Arc::clone(answer);
        }
        let answer = Arc::new(PackedBody::new(make().await));
        *last = Some((second, Arc::clone(&answer)));
        answer
    }
}
