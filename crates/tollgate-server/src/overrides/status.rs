//! Whether the overrides of a process are those of all processes that share them.

use std::time::Duration;

use tollgate_policy::OverridesVersion;

/// See the [module](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OverridesStatus {
    /// The live version; `None` if there is none, because none was ever set or read.
    pub(crate) version: Option<OverridesVersion>,
    /// Whether they have not been read for one second.
    pub(crate) is_stale: bool,
    /// The time since the last read; `None` if there was none, or none is needed.
    pub(crate) age: Option<Duration>,
    /// Why they cannot be read, for people.
    pub(crate) trouble: Option<Box<str>>,
}

impl OverridesStatus {
    /// Returns a line for `/readyz` if they are stale. It has no reason, because not everyone should see addresses.
    pub(crate) fn stale_line(&self) -> Option<String> {
        self.is_stale.then(|| match (&self.version, self.age) {
            (Some(version), _) => format!("the overrides are stale: version {version} stays live\n"),
            (None, Some(_)) => "the overrides are stale: there were none\n".to_owned(),
            (None, None) => "the overrides could not be read yet: none is live\n".to_owned(),
        })
    }
}
