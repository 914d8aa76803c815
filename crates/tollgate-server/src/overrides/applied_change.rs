//! A change of the store, as a change of the live set.

use tollgate_policy::{OverrideName, OverrideRecord};
use tollgate_redis::LoggedChange;

use crate::overrides::text::{UnknownName, read_record};

/// See the [module](self).
pub(super) enum AppliedChange {
    Set(Box<OverrideRecord>),
    Delete(OverrideName),
}

impl AppliedChange {
    pub(super) fn of(change: LoggedChange) -> Result<Self, UnknownName> {
        match change {
            LoggedChange::Set(record) => read_record(record).map(|record| Self::Set(Box::new(record))),
            LoggedChange::Deleted { name, .. } => match name.parse() {
                Ok(name) => Ok(Self::Delete(name)),
                Err(_) => Err(UnknownName(name)),
            },
        }
    }
}
