//! An extractor without its type.

use std::sync::Arc;

use crate::Head;
use crate::boxed::BoxFuture;
use crate::key::{AsyncKeyExtractor, Extracted, KeyExtractor};

#[derive(Clone)]
pub(crate) enum Extractor {
    Now(Arc<dyn KeyExtractor>),
    Later(Arc<dyn Later>),
}

/// An [`AsyncKeyExtractor`] whose future has no type of its own.
pub(crate) trait Later: Send + Sync {
    fn extract<'r>(&'r self, head: Head<'r>) -> BoxFuture<'r, Extracted<'r>>;

    fn counts_peers(&self) -> bool;
}

impl<K: AsyncKeyExtractor> Later for K {
    fn extract<'r>(&'r self, head: Head<'r>) -> BoxFuture<'r, Extracted<'r>> {
        Box::pin(self.extract_async(head))
    }

    fn counts_peers(&self) -> bool {
        self.counts_peers_async()
    }
}

impl Extractor {
    pub(crate) fn now(extractor: impl KeyExtractor + 'static) -> Self {
        Self::Now(Arc::new(extractor))
    }

    pub(crate) fn later(extractor: impl AsyncKeyExtractor + 'static) -> Self {
        Self::Later(Arc::new(extractor))
    }

    pub(crate) fn counts_peers(&self) -> bool {
        match self {
            Self::Now(extractor) => extractor.counts_peers(),
            Self::Later(extractor) => extractor.counts_peers(),
        }
    }
}
