//! What is written about policies, once for each version of them.

use tollgate_policy::{Policy, PolicyKind};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct PolicyTexts {
    version: Option<u64>,
    texts: Box<[PolicyText]>,
}

/// What is written about a policy.
#[derive(Debug)]
pub(crate) struct PolicyText {
    /// The key; `None` if it counts nothing.
    pub(crate) key: Option<String>,
    pub(crate) quotas: Box<[String]>,
    pub(crate) candidates: Box<[String]>,
    /// `None` if it counts nothing.
    pub(crate) on_store_failure: Option<String>,
}

impl PolicyTexts {
    /// Returns what is written about these policies, in their order, which are of this version.
    pub(crate) fn of(&mut self, version: u64, policies: &[Policy]) -> &[PolicyText] {
        if self.version != Some(version) {
            self.version = Some(version);
            self.texts = policies.iter().map(PolicyText::from).collect();
        }
        &self.texts
    }
}

impl From<&Policy> for PolicyText {
    fn from(policy: &Policy) -> Self {
        let counts = policy.kind() == PolicyKind::Count;
        Self {
            key: counts.then(|| policy.identity().to_string()),
            quotas: policy.written_limits().collect(),
            candidates: policy.written_candidates().collect(),
            on_store_failure: counts.then(|| policy.on_store_failure().to_string()),
        }
    }
}
