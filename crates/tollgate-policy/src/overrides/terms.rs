//! What overrides say, compiled once for all that say the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::quotas::LimitSettings;
use super::targets::expect_comparable;
use super::{InertReason, OverrideLimits, OverrideQuotas, OverrideTargetError};
use crate::{Identity, Policies, Policy, PolicyKind};

/// What some overrides of a policy say, and what that means.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) id: Arc<TermsId>,
    pub(super) ruling: Result<Ruling, InertReason>,
}

/// What overrides say, as they are written.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TermsId {
    /// The written form of the policy's key.
    pub(super) key: Box<str>,
    pub(super) limits: OverrideLimits,
}

/// What an override does to the requests that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ruling {
    Limits(OverrideQuotas),
    Unlimited,
    Denied,
}

/// Decides whether the store can count the limits of overrides.
pub trait OverrideFit: Send + Sync {
    /// Returns why the store cannot count these limits of one of the policies; `None` if it can.
    fn misfit(&self, policies: &Policies, policy: &Policy, limits: &OverrideQuotas) -> Option<Box<str>>;
}

/// What rulings depend on, next to their terms.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TermsBasis {
    Policy(Box<PolicyBasis>),
    /// No override of the policy applies.
    Inert(InertReason),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct PolicyBasis {
    name: Box<str>,
    identity: Identity,
    settings: LimitSettings,
}

/// Each of the terms that a policy's overrides have, once.
#[derive(Debug, Default)]
pub(super) struct TermsTable(Mutex<TableRows>);

#[derive(Debug, Default)]
struct TableRows {
    by_id: HashMap<Arc<TermsId>, Arc<Terms>>,
    /// How many there were when those that nobody has were last removed.
    kept: usize,
}

#[cfg(test)]
impl Terms {
    pub(super) fn for_test() -> Self {
        let id = TermsId { key: "user".into(), limits: OverrideLimits::Unlimited };
        Self { id: Arc::new(id), ruling: Ok(Ruling::Unlimited) }
    }
}

impl TermsBasis {
    pub(super) fn of(name: &str, policy: Option<&Policy>) -> Self {
        match policy {
            None => Self::Inert(InertReason::NoPolicy(name.into())),
            Some(policy) if policy.kind() != PolicyKind::Count => {
                Self::Inert(InertReason::CountsNothing(name.into()))
            }
            Some(policy) => Self::Policy(Box::new(PolicyBasis {
                name: name.into(),
                identity: policy.identity().clone(),
                settings: LimitSettings::of(policy),
            })),
        }
    }

    pub(super) fn ruling(&self, id: &TermsId) -> Result<Ruling, InertReason> {
        let PolicyBasis { name, identity, settings } = match self {
            Self::Policy(basis) => &**basis,
            Self::Inert(reason) => return Err(reason.clone()),
        };
        let now = identity.to_string();
        if now != *id.key {
            let (policy, was) = (name.clone(), id.key.clone());
            return Err(InertReason::OtherKey { policy, now: now.into(), was });
        }
        match &id.limits {
            OverrideLimits::Unlimited => Ok(Ruling::Unlimited),
            OverrideLimits::Denied => Ok(Ruling::Denied),
            OverrideLimits::Unreadable(reason) => Err(InertReason::Unreadable(reason.clone())),
            OverrideLimits::Limits(texts) => {
                Ok(Ruling::Limits(OverrideQuotas::read(name, texts, *settings)?))
            }
        }
    }

    /// Returns why no override of the policy can compare the attribute with a text; `None` if one can.
    pub(super) fn refusal(&self, attribute: &str) -> Option<OverrideTargetError> {
        match self {
            Self::Policy(basis) => expect_comparable(&basis.identity, attribute).err(),
            Self::Inert(_) => None,
        }
    }
}

impl TermsTable {
    /// Returns the terms of this id, and compiles them if there are none yet.
    pub(super) fn get(
        &self,
        id: TermsId,
        ruling: impl FnOnce(&TermsId) -> Result<Ruling, InertReason>,
    ) -> Arc<Terms> {
        let mut rows = self.rows();
        if let Some(terms) = rows.by_id.get(&id) {
            return Arc::clone(terms);
        }
        rows.prune();
        let id = Arc::new(id);
        let terms = Arc::new(Terms { ruling: ruling(&id), id: Arc::clone(&id) });
        rows.by_id.insert(id, Arc::clone(&terms));
        terms
    }

    /// Returns the terms that overrides have.
    pub(super) fn live(&self) -> Vec<Arc<Terms>> {
        let mut rows = self.rows();
        rows.by_id.retain(|_, terms| Arc::strong_count(terms) > 1);
        rows.by_id.values().map(Arc::clone).collect()
    }

    pub(super) fn of(terms: impl IntoIterator<Item = Arc<Terms>>) -> Self {
        let by_id: HashMap<_, _> = terms.into_iter().map(|terms| (Arc::clone(&terms.id), terms)).collect();
        Self(Mutex::new(TableRows { kept: by_id.len(), by_id }))
    }

    fn rows(&self) -> MutexGuard<'_, TableRows> {
        // Nothing that is done under the lock leaves half of it undone.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TableRows {
    /// Removes the terms that no override has any more, each time that the table has doubled.
    fn prune(&mut self) {
        if self.by_id.len() >= 2 * self.kept.max(32) {
            self.by_id.retain(|_, terms| Arc::strong_count(terms) > 1);
            self.kept = self.by_id.len();
        }
    }
}
