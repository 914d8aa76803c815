//! An override of a set.

use std::fmt;

use tollgate::Timestamp;

use super::context::Context;
use super::policy_overrides::{PolicyOverrides, TargetRow};
use super::row::OverrideRow;
use super::terms::Ruling;
use super::{OverrideName, OverrideQuotas, OverrideRecord, OverrideState, OverrideTarget};

/// An override of a [set](super::OverrideSet).
#[derive(Clone, Copy)]
pub struct OverrideEntry<'a> {
    pub(super) context: &'a Context,
    pub(super) part: &'a PolicyOverrides,
    pub(super) target: TargetRow<'a>,
}

impl<'a> OverrideEntry<'a> {
    /// Returns the name of its policy.
    #[must_use]
    pub fn policy(&self) -> &'a str {
        &self.part.name
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> OverrideName {
        let target = match self.target {
            TargetRow::Key(row) => OverrideTarget::Key(row.target()),
            TargetRow::Text { attribute, row, is_whole } => OverrideTarget::Attribute {
                attribute: (&*attribute.attribute).into(),
                text: (&*row.text).into(),
                is_whole,
            },
        };
        OverrideName { policy: self.policy().into(), target }
    }

    /// Returns a copy of the whole record.
    #[must_use]
    pub fn record(&self) -> OverrideRecord {
        let row = self.row();
        let remarks = row.remarks.as_deref();
        OverrideRecord {
            name: self.name(),
            key: row.terms.id.key.clone(),
            limits: row.terms.id.limits.clone(),
            until: row.until(),
            label: row.label.clone(),
            note: remarks.and_then(|remarks| remarks.note.clone()),
            by: remarks.and_then(|remarks| remarks.by.clone()),
            at: row.at,
            version: row.version,
        }
    }

    /// Returns the time from which on it does not apply any more, if it has an end.
    #[must_use]
    pub fn until(&self) -> Option<Timestamp> {
        self.row().until()
    }

    /// Returns its label.
    #[must_use]
    pub fn label(&self) -> Option<&'a str> {
        self.row().label.as_deref()
    }

    /// Returns the number of the change that set it.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.row().version
    }

    /// Returns whether it applies now.
    #[must_use]
    pub fn state(&self) -> OverrideState {
        if self.until().is_some_and(|until| self.context.now() >= until) {
            return OverrideState::Ended;
        }
        if let TargetRow::Text { attribute, .. } = self.target
            && let Some(refusal) = &attribute.refusal
        {
            return OverrideState::Inert(refusal.clone().into());
        }
        match &self.row().terms.ruling {
            Ok(_) => OverrideState::Active,
            Err(reason) => OverrideState::Inert(reason.clone()),
        }
    }

    /// Returns its limits as its policy counts them, unless it is inert or has none.
    #[must_use]
    pub fn quotas(&self) -> Option<&'a OverrideQuotas> {
        match &self.row().terms.ruling {
            Ok(Ruling::Limits(quotas)) => Some(quotas),
            _ => None,
        }
    }

    const fn row(&self) -> &'a OverrideRow {
        self.target.row()
    }
}

impl fmt::Debug for OverrideEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OverrideEntry({})", self.name())
    }
}
