//! Overrides: limits for some requests of a policy that are changed while the service runs.
//!
//! Decisions read the set of overrides that is live in the limiter, and nothing here.

#![allow(dead_code, reason = "nothing keeps overrides yet")]

mod change;
mod status;

use tollgate_policy::OverrideName;
use tollgate_redis::RecordMatch;

pub(crate) use self::change::{OverrideChange, OverridesError, SetOverride};
pub(crate) use self::status::OverridesStatus;

/// Keeps the overrides of a process.
pub(crate) struct Overrides {
    keeper: Keeper,
}

enum Keeper {
    /// There are none.
    Off,
    /// Counters are in memory, and nothing keeps overrides.
    Nothing,
}

impl Overrides {
    /// Those of a service whose domains decide.
    pub(crate) const fn none() -> Self {
        Self { keeper: Keeper::Off }
    }

    /// Those of a service that has no place for any.
    pub(crate) const fn without_place() -> Self {
        Self { keeper: Keeper::Nothing }
    }

    /// Sets an override, if the one that there is matches. Once this returns, it is live in this process.
    pub(crate) async fn set(
        &self,
        set: SetOverride,
        matching: RecordMatch,
    ) -> Result<OverrideChange, OverridesError> {
        let _ = (set, matching);
        Err(self.refusal())
    }

    /// Deletes an override, if there is one and it matches. Once this returns, it applies no more in this process.
    pub(crate) async fn delete(
        &self,
        name: &OverrideName,
        matching: RecordMatch,
    ) -> Result<OverrideChange, OverridesError> {
        let _ = (name, matching);
        Err(self.refusal())
    }

    /// Returns whether they are those of all processes that share them.
    pub(crate) fn status(&self) -> OverridesStatus {
        OverridesStatus { version: None, is_stale: false, age: None, trouble: None }
    }

    const fn refusal(&self) -> OverridesError {
        match self.keeper {
            Keeper::Off => OverridesError::Off,
            Keeper::Nothing => OverridesError::NoPlace,
        }
    }
}
