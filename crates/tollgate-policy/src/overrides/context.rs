//! What all versions of the overrides have in common.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tollgate::{Clock, Key, Timestamp};

use super::key_cache::KeyCache;
use super::row::Remarks;
use super::{OverrideDigest, OverrideFit, OverrideKey, OverrideQuotas};
use crate::{Policies, Policy};

/// What all versions of the overrides have in common: how keys are digested, the store's clock, and texts that many
/// overrides share.
pub(super) struct Context {
    digest: Arc<dyn OverrideDigest>,
    clock: Arc<dyn Clock>,
    fit: Option<Arc<dyn OverrideFit>>,
    shared: Mutex<SharedTexts>,
    /// Made once a request needs the digest of its key.
    cache: OnceLock<KeyCache>,
}

/// Texts that are kept once for all overrides that have them.
#[derive(Default)]
struct SharedTexts {
    labels: HashSet<Arc<str>>,
    /// By who set the override, of those without a note.
    principals: HashMap<Arc<str>, Arc<Remarks>>,
}

/// How many labels are shared, and how many principals. If there are more, they are probably different for each
/// override, and looking for equal ones saves nothing.
const SHARED: usize = 4_096;

impl Context {
    pub(super) fn new(digest: Arc<dyn OverrideDigest>, clock: Arc<dyn Clock>) -> Self {
        Self { digest, clock, fit: None, shared: Mutex::default(), cache: OnceLock::new() }
    }

    pub(super) fn with_fit(&self, fit: Arc<dyn OverrideFit>) -> Self {
        let (digest, clock) = (Arc::clone(&self.digest), Arc::clone(&self.clock));
        Self { fit: Some(fit), ..Self::new(digest, clock) }
    }

    pub(super) const fn has_fit(&self) -> bool {
        self.fit.is_some()
    }

    /// Returns why the store cannot count these limits of the policy.
    pub(super) fn misfit(
        &self,
        policies: &Policies,
        policy: &Policy,
        limits: &OverrideQuotas,
    ) -> Option<Box<str>> {
        self.fit.as_ref()?.misfit(policies, policy, limits)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the digest of a request's key, which other requests probably have as well.
    #[inline]
    pub(super) fn digest_of_request(&self, key: &Key<'_>) -> OverrideKey {
        let cache = self.cache.get_or_init(KeyCache::new);
        OverrideKey(cache.get(key, || self.digest.digest(key)))
    }

    /// Returns the label, in one place for those who share it.
    pub(super) fn label(&self, label: Arc<str>) -> Arc<str> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shared.labels.get(&label) {
            return Arc::clone(known);
        }
        if shared.labels.len() >= SHARED {
            shared.labels.retain(|label| Arc::strong_count(label) > 1);
        }
        if shared.labels.len() < SHARED {
            shared.labels.insert(Arc::clone(&label));
        }
        label
    }

    /// Returns the remarks, in one place for those who share them.
    pub(super) fn remarks(&self, remarks: Remarks) -> Arc<Remarks> {
        let Remarks { by: Some(by), note: None } = &remarks else { return Arc::new(remarks) };
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shared.principals.get(by) {
            return Arc::clone(known);
        }
        if shared.principals.len() >= SHARED {
            shared.principals.retain(|_, remarks| Arc::strong_count(remarks) > 1);
        }
        let by = Arc::clone(by);
        let remarks = Arc::new(remarks);
        if shared.principals.len() < SHARED {
            shared.principals.insert(by, Arc::clone(&remarks));
        }
        remarks
    }
}

impl OverrideDigest for Context {
    fn digest(&self, key: &Key<'_>) -> u128 {
        self.digest.digest(key)
    }
}
