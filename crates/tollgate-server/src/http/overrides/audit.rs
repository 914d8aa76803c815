//! The log lines about changes of overrides, one for each change, with its author.
//!
//! The override is its id: a key is a digest there, and what an attribute is compared with is plain. Notes are not logged.

use std::fmt;

use tollgate_policy::OverrideName;
use tollgate_wire::body::TimeText;
use tracing::{info, warn};

use crate::access::caller::Caller;
use crate::observe::with_sources::WithSources;
use crate::overrides::{OverrideChange, OverridesError};

/// A change that a principal asks for.
pub(super) struct AuditedChange<'a> {
    /// `set` or `delete`.
    pub(super) operation: &'static str,
    pub(super) caller: &'a Caller,
    pub(super) name: &'a OverrideName,
    /// Absent for a deletion.
    pub(super) limits: Option<String>,
    pub(super) label: Option<&'a str>,
}

impl AuditedChange<'_> {
    /// Logs that the change was made, that it may have been, or that the store failed. A change that was refused has
    /// changed nothing.
    pub(super) fn log(&self, outcome: &Result<OverrideChange, OverridesError>) {
        let Self { operation, caller, name, limits, label } = self;
        let principal = caller.principal().map(|name| &**name).unwrap_or_default();
        let (policy, limits) = (&*name.policy, limits.as_deref());
        match outcome {
            Ok(OverrideChange { version, record, .. }) => {
                let until = record.as_ref().and_then(|record| record.until).map(TimeText);
                let until = until.as_ref().map(|until| until as &dyn fmt::Display);
                info!(
                    operation,
                    principal,
                    policy,
                    r#override = %name,
                    limits,
                    until = until.map(tracing::field::display),
                    label,
                    %version,
                    "override changed"
                );
            }
            Err(error) if error.may_be_made() => {
                let error = cause(error);
                warn!(
                    operation,
                    principal,
                    policy,
                    r#override = %name,
                    limits,
                    label,
                    error,
                    "an override may have been changed"
                );
            }
            Err(error @ (OverridesError::Store { .. } | OverridesError::Journal { .. })) => {
                let error = cause(error);
                warn!(operation, principal, policy, r#override = %name, error, "an override was not changed");
            }
            Err(_) => {}
        }
    }
}

/// Returns the error with its causes.
fn cause(error: &OverridesError) -> String {
    match error {
        OverridesError::Store { error, .. } => WithSources(error).to_string(),
        error => WithSources(error).to_string(),
    }
}
