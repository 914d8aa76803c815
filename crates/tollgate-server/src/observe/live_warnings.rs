//! Probable mistakes in the live rules, for people who did not see them in the log.

use std::sync::{Arc, Mutex, PoisonError};

/// See the [module](self). Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveWarnings(Arc<Mutex<Arc<[LiveWarning]>>>);

/// A probable mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveWarning {
    pub(crate) code: Option<&'static str>,
    pub(crate) policy: Option<Box<str>>,
    pub(crate) text: Box<str>,
}

impl LiveWarnings {
    /// Replaces them, together with the rules.
    pub(crate) fn replace(&self, warnings: impl IntoIterator<Item = LiveWarning>) {
        let warnings = warnings.into_iter().collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = warnings;
    }

    pub(crate) fn all(&self) -> Arc<[LiveWarning]> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl From<&tollgate_policy::Warning> for LiveWarning {
    fn from(warning: &tollgate_policy::Warning) -> Self {
        Self {
            code: Some(warning.code()),
            policy: Some(warning.policy().into()),
            text: warning.kind().to_string().into(),
        }
    }
}

/// Those of domains have places and no codes.
impl From<&tollgate_envoy::Warning> for LiveWarning {
    fn from(warning: &tollgate_envoy::Warning) -> Self {
        Self { code: None, policy: None, text: warning.to_string().into() }
    }
}
