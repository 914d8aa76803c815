//! Where new rules come from while the service runs.

use std::sync::Arc;

use super::record::ReloadState;
use super::reload::Reload;

/// See the [module](self).
pub(crate) enum RuleSource {
    /// Flags, which do not change.
    Flags,
    /// Files, which are reloaded.
    Files(Arc<dyn Reload>),
    /// A management server, which sends them by itself.
    Xds(Arc<ReloadState>),
}

impl RuleSource {
    /// Returns the outcomes of reloads so far, unless the rules never change.
    pub(crate) fn reloads(&self) -> Option<&Arc<ReloadState>> {
        match self {
            Self::Flags => None,
            Self::Files(reloads) => Some(reloads.state()),
            Self::Xds(reloads) => Some(reloads),
        }
    }
}
