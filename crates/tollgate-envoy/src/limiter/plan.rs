//! The plan of a request: its steps in the store.

use std::borrow::Cow;
use std::collections::HashSet;

use smallvec::SmallVec;
use tollgate::{Charge, CountDenied, Key, PolicyQuota};

use crate::domains::Domain;
use crate::rule::{Limit, Rule};
use crate::{ChargingMode, Descriptor, InvalidRequest, Request, Settings, Unit};

/// The plan of each descriptor of a request, in order.
pub(super) struct Plan<'a>(pub(super) SmallVec<[DescriptorPlan<'a>; 2]>);

/// The plan of one descriptor.
pub(super) enum DescriptorPlan<'a> {
    /// No limit applies to it.
    NoLimit,
    Unlimited(&'a Rule),
    Counted(CountedPlan<'a>),
}

/// The counted part of one descriptor.
pub(super) struct CountedPlan<'a> {
    pub(super) quota: Cow<'a, PolicyQuota>,
    pub(super) key: Key<'static>,
    pub(super) cost: u32,
    pub(super) effect: Effect,
    pub(super) requests_per_unit: u32,
    pub(super) unit: Unit,
    /// `None` for a limit that came with the descriptor.
    pub(super) rule: Option<&'a Rule>,
}

/// The effect of a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The request is denied.
    Denies,
    /// The request is denied if all limits with this effect deny it.
    DeniesWithAllQuotas,
    /// Nothing.
    Shadow,
    /// The units are given back, which is never denied.
    Refund,
}

impl<'a> Plan<'a> {
    /// Creates the plan of a request in its domain.
    ///
    /// # Errors
    ///
    /// If the request is invalid.
    pub(super) fn new(
        request: &Request<'_>,
        domain: Option<&'a Domain>,
        settings: &Settings,
    ) -> Result<Self, InvalidRequest> {
        InvalidRequest::check(request.domain, request.descriptors.len())?;
        let Some(domain) = domain else {
            return Ok(Self(request.descriptors.iter().map(|_| DescriptorPlan::NoLimit).collect()));
        };
        let planned = (1..).zip(&request.descriptors).map(|(number, descriptor)| {
            let cost = InvalidRequest::units(number, descriptor.hits_addend, request.hits_addend)?;
            planned(number, descriptor, cost, domain, settings)
        });
        let mut plan = Self(planned.collect::<Result<_, InvalidRequest>>()?);
        plan.replace();
        Ok(plan)
    }

    /// Drops the limits that others replace. An unlimited one counts nothing, so there is nothing to drop.
    fn replace(&mut self) {
        let rules = self.0.iter().filter_map(DescriptorPlan::rule);
        // Usually nothing is replaced, and then nothing is allocated.
        let replaced: HashSet<_> = rules.flat_map(|rule| &rule.replaces).cloned().collect();
        if replaced.is_empty() {
            return;
        }
        for planned in &mut self.0 {
            let DescriptorPlan::Counted(CountedPlan { rule: Some(rule), .. }) = planned else { continue };
            if rule.name.as_ref().is_some_and(|name| replaced.contains(name)) {
                *planned = DescriptorPlan::NoLimit;
            }
        }
    }

    /// The descriptors that are counted, with their places.
    pub(super) fn counted(&self) -> impl Iterator<Item = (usize, &CountedPlan<'a>)> {
        self.0.iter().enumerate().filter_map(|(place, planned)| match planned {
            DescriptorPlan::Counted(counted) => Some((place, counted)),
            DescriptorPlan::NoLimit | DescriptorPlan::Unlimited(_) => None,
        })
    }
}

impl<'a> DescriptorPlan<'a> {
    pub(super) fn rule(&self) -> Option<&'a Rule> {
        match self {
            Self::NoLimit => None,
            Self::Unlimited(rule) => Some(rule),
            Self::Counted(counted) => counted.rule,
        }
    }
}

impl CountedPlan<'_> {
    pub(super) fn charge(&self) -> Charge<'_> {
        Charge::new(&self.quota, &self.key, self.cost)
    }

    /// Returns whether the descriptor costs more than the whole limit, which an overdraft admits.
    pub(super) fn is_above_limit(&self) -> bool {
        self.cost > self.requests_per_unit && !self.is_overdraft()
    }

    /// Returns whether a denial may deny the request.
    pub(super) const fn decides(&self) -> bool {
        matches!(self.effect, Effect::Denies | Effect::DeniesWithAllQuotas)
    }

    pub(super) fn is_overdraft(&self) -> bool {
        self.quota.count_denied() == CountDenied::Overdraft
    }
}

fn planned<'a>(
    number: usize,
    descriptor: &Descriptor<'_>,
    cost: u32,
    domain: &'a Domain,
    settings: &Settings,
) -> Result<DescriptorPlan<'a>, InvalidRequest> {
    let (quota, key, requests_per_unit, unit, rule) = match descriptor.limit {
        Some(limit) => {
            let unit = InvalidRequest::unit(number, limit.unit)?;
            let quota = Cow::Owned(domain.quota(limit.requests_per_unit, unit));
            (
                quota,
                domain.key(&descriptor.entries, &[], settings.max_value_bytes),
                limit.requests_per_unit,
                unit,
                None,
            )
        }
        None => {
            let found = domain.find(&descriptor.entries, settings.max_value_bytes);
            let Some((rule, key)) = found else { return Ok(DescriptorPlan::NoLimit) };
            let Limit::Counted(limit) = &rule.limit else { return Ok(DescriptorPlan::Unlimited(rule)) };
            (Cow::Borrowed(&limit.quota), key, limit.requests_per_unit, limit.unit, Some(rule))
        }
    };
    let effect = if descriptor.is_negative_hits {
        Effect::Refund
    } else if rule.is_some_and(|rule| rule.is_shadow) {
        Effect::Shadow
    } else if settings.quota_mode || rule.is_some_and(|rule| rule.is_quota) {
        Effect::DeniesWithAllQuotas
    } else {
        Effect::Denies
    };
    let quota = match settings.charging {
        ChargingMode::AllOrNothing => quota,
        ChargingMode::Each if quota.count_denied() == CountDenied::Overdraft => quota,
        ChargingMode::Each => Cow::Owned(quota.into_owned().with_count_denied(CountDenied::Yes)),
    };
    Ok(DescriptorPlan::Counted(CountedPlan { quota, key, cost, effect, requests_per_unit, unit, rule }))
}
