//! Checks of descriptors: each becomes the attributes of a request, and all of them are one decision.

use std::time::Instant;

use tollgate::Quota;
use tollgate_envoy::InvalidRequest;
use tollgate_policy::{AttributeValue, Policy, TogetherError};

use super::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use super::messages::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use super::{Service, response};
use crate::access::caller::{Caller, CallerAttributes};
use crate::answer::rejection::Rejection;
use crate::decide::decider::Decider;
use crate::request::attributes::{GivenAttributes, MAX_TEXTS};

/// The attribute that holds the domain.
const DOMAIN: &str = "domain";

/// Under this name limits are counted that come with descriptors.
const OVERRIDES: &str = "envoy";

/// The check of one descriptor.
pub(super) type DescriptorCheck<'a> = (CallerAttributes<'a>, u32, Option<Policy>);

impl Service {
    /// Charges the units of every descriptor, or of none. The caller waits until this time at most, if it has said so.
    pub(super) async fn rate_limit(
        &self,
        caller: &Caller,
        request: &RateLimitRequest,
        caller_until: Option<Instant>,
    ) -> Result<RateLimitResponse, Rejection> {
        let engine = match &*self.decider {
            Decider::Policies(engine) => engine,
            Decider::Domains(engine) => {
                let response = engine.decide(caller, &request.into(), caller_until).await;
                return response.map(Into::into).map_err(Rejection::undecided);
            }
        };
        let RateLimitRequest { domain, descriptors, hits_addend } = request;
        InvalidRequest::check(domain, descriptors.len()).map_err(invalid)?;
        let asks = |(index, descriptor)| self.asked(caller, domain, descriptor, *hits_addend, index);
        let decisions = match descriptors.as_slice() {
            [only] => {
                let (attributes, cost, limits) = asks((0, only))?;
                let decision = engine.check(limits.into(), &attributes, cost, caller_until).await;
                vec![decision.map_err(|error| Rejection::check(&error, "descriptors[0]"))?]
            }
            many => {
                let asked: Vec<DescriptorCheck<'_>> =
                    many.iter().enumerate().map(asks).collect::<Result<_, _>>()?;
                let decisions = engine.check_together(&asked, caller_until).await;
                decisions.map_err(|TogetherError { index, error, .. }| {
                    Rejection::check(&error, &format!("descriptors[{index}]"))
                })?
            }
        };
        Ok(response::of(&decisions, &self.settings.added_headers))
    }

    pub(super) fn asked<'a>(
        &self,
        caller: &'a Caller,
        domain: &'a str,
        descriptor: &'a RateLimitDescriptor,
        hits_addend: u32,
        index: usize,
    ) -> Result<DescriptorCheck<'a>, Rejection> {
        if descriptor.is_negative_hits {
            let detail = "units can only be given back over HTTP, by settling a hold or by an administrator";
            return Err(Rejection::bad_field(format!("descriptors[{index}].is_negative_hits"), detail));
        }
        let attributes = attributes(domain, descriptor, index)?;
        let attributes = attributes.into_counted_attributes(self.settings.max_attribute_bytes);
        let cost = InvalidRequest::units(index + 1, descriptor.hits_addend, hits_addend).map_err(invalid)?;
        let limits = descriptor.limit.as_ref().map(|limit| self.limits(limit, index)).transpose()?;
        Ok((caller.asks(attributes), cost, limits))
    }

    /// The limit that comes with a descriptor.
    fn limits(&self, limit: &RateLimitOverride, index: usize) -> Result<Policy, Rejection> {
        let field = format!("descriptors[{index}].limit");
        if !self.settings.caller_quotas {
            return Err(Rejection::no_limits(field));
        }
        let RateLimitOverride { requests_per_unit, unit } = *limit;
        let unit = InvalidRequest::unit(index + 1, unit).map_err(invalid)?;
        let impossible = |error: String| Rejection::bad_field(field.clone(), error);
        let quota = Quota::new(requests_per_unit.into(), unit.length());
        let quota = quota.map_err(|error| impossible(error.to_string()))?;
        Policy::of_caller(OVERRIDES, [quota], None).map_err(|error| impossible(error.to_string()))
    }
}

/// The domain under its name, and each entry under its key. Several entries with one key are a list.
fn attributes<'a>(
    domain: &'a str,
    descriptor: &'a RateLimitDescriptor,
    index: usize,
) -> Result<GivenAttributes<'a>, Rejection> {
    let field = || format!("descriptors[{index}].entries");
    if descriptor.entries.is_empty() {
        return Err(invalid(InvalidRequest::NoEntries(index + 1)));
    }
    let mut given = GivenAttributes::default();
    let mut insert = |name: &'a str, value: AttributeValue<'a>| {
        given.insert(name.into(), value).map_err(|error| Rejection::bad_field(field(), error.to_string()))
    };
    insert(DOMAIN, domain.into())?;
    for (place, Entry { key, value }) in descriptor.entries.iter().enumerate() {
        let mut earlier = descriptor.entries.iter().take(place);
        if earlier.any(|earlier| earlier.key == *key) {
            continue;
        }
        let rest = descriptor.entries.iter().skip(place + 1).filter(|later| later.key == *key);
        let later: Vec<&'a str> = rest.take(MAX_TEXTS).map(|later| &*later.value).collect();
        if later.len() == MAX_TEXTS {
            let detail = format!("more than {MAX_TEXTS} entries with one key");
            return Err(Rejection::bad_field(field(), detail));
        }
        match later.is_empty() {
            true => insert(key, (&**value).into())?,
            false => insert(key, [&[&**value], &later[..]].concat().into())?,
        }
    }
    Ok(given)
}

pub(super) fn invalid(error: InvalidRequest) -> Rejection {
    Rejection::bad_field(error.field(), error.to_string())
}
