//! Where and how decisions count.

use std::sync::Arc;

use tollgate::MemoryStore;
use tollgate_policy::WhenFull;

use crate::metrics::Metrics;
use crate::observe::public_url::PublicUrl;
use crate::store::ServedStore;
use crate::talkers::Talkers;

/// Where and how decisions count, for whatever decides.
#[derive(Clone)]
pub(crate) struct CountingParts {
    pub(crate) store: ServedStore,
    /// Counts while a shared store fails, if a policy or domain wants that.
    pub(crate) memory: MemoryStore,
    pub(crate) when_full: WhenFull,
    /// Longer values are counted by a digest.
    pub(crate) max_attribute_bytes: usize,
    /// Whether requests may bring limits.
    pub(crate) caller_quotas: bool,
    pub(crate) metrics: Arc<Metrics>,
    /// The live page, to which log lines lead.
    pub(crate) page: Option<PublicUrl>,
    /// `None` if nobody sees them.
    pub(crate) talkers: Option<Arc<Talkers>>,
}
