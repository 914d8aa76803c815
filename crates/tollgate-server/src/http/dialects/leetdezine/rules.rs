//! The study's rules, as overrides: a rule is for a tier and an endpoint, and replaces the limits of the policy that counts
//! the requests of that endpoint.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use schemars::JsonSchema;
use tollgate::{Key, Quota};
use tollgate_policy::{OverrideLimits, OverrideName, OverrideTarget, TargetValue};
use tollgate_redis::RecordEnd;

use super::TIER;
use super::dimension::Dimension;
use super::rule_policy::RuleRequests;
use crate::access::caller::Caller;
use crate::answer::rejection::Rejection;
use crate::http::overrides::condition;
use crate::http::{Edge, Reply};
use crate::net::body;
use crate::overrides::SetOverride;
use crate::request::json::{self, Text, Whole};

/// A rule of the study.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LeetdezineRule")]
pub(in crate::http) struct RuleRequest<'a> {
    /// The endpoint, as checks have it. Required, except for the dimension `global`, which has none.
    #[serde(default, borrow, deserialize_with = "json::some")]
    #[schemars(with = "String", length(min = 1))]
    endpoint: Option<Text<'a>>,
    dimension: Dimension,
    /// Requests in a window.
    #[schemars(range(min = 1))]
    limit: Whole<{ Quota::MAX_LIMIT }>,
    /// The length of the window, which begins at a multiple of it since 1970.
    #[schemars(range(min = 1))]
    window_seconds: Whole<MAX_SECONDS>,
    /// The tier whose requests it limits; `free` by default.
    #[serde(default, borrow, deserialize_with = "json::some")]
    #[schemars(with = "String", length(min = 1, max = OverrideTarget::MAX_TEXT))]
    tier: Option<Text<'a>>,
}

const MAX_SECONDS: u64 = Quota::MAX_WINDOW.as_secs();

impl Edge {
    /// Sets the override that a rule is in Tollgate's terms.
    pub(in crate::http) async fn set_rule(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let matching = condition::of_set(request.headers())?;
        let body = body::read(request, &self.budget).await?;
        let rule: RuleRequest<'_> = json::read(&body)?;
        let (limits, tier) = (rule.limits()?, rule.tier()?);
        let requests = rule.requests(tier)?;
        let (overrides, live) = (self.overrides()?, self.engine()?.live());
        let policies = live.policies().as_slice().iter();
        let policy = requests.policy(policies.filter(|policy| caller.may_touch(policy.name())))?;
        let digest = |key: &Key<'_>| live.overrides().key(key).0;
        // Checks of the study always have a tier, so a policy need not look at it.
        let known = BTreeSet::from(["tier"]);
        let target = [("tier", TargetValue::Whole(tier))];
        let name = OverrideName::of_attributes(policy, &target, &known, &digest);
        let set = SetOverride {
            name: name.map_err(|error| Rejection::bad_field("tier", error.to_string()))?,
            key: policy.identity().to_string().into(),
            limits,
            end: RecordEnd::Never,
            label: None,
            note: None,
            by: caller.principal().cloned(),
        };
        self.put_override(caller, overrides, set, matching).await
    }
}

impl RuleRequest<'_> {
    fn limits(&self) -> Result<OverrideLimits, Rejection> {
        for (field, number) in
            [("limit", self.limit.value()), ("window_seconds", self.window_seconds.value())]
        {
            if number == 0 {
                return Err(Rejection::bad_field(field, "expected at least 1"));
            }
        }
        let quota = Quota::new(self.limit.value(), Duration::from_secs(self.window_seconds.value()));
        let quota = quota.map_err(|error| Rejection::bad_field("limit", error.kind().to_string()))?;
        Ok(OverrideLimits::Limits([quota.to_string().into()].into()))
    }

    fn tier(&self) -> Result<&str, Rejection> {
        let tier = self.tier.as_ref().map_or(TIER, |Text(tier)| &**tier);
        if !OverrideTarget::is_text(tier) {
            let max = OverrideTarget::MAX_TEXT;
            return Err(Rejection::bad_field("tier", format!("expected a text of 1 to {max} bytes")));
        }
        Ok(tier)
    }

    fn requests<'a>(&'a self, tier: &'a str) -> Result<RuleRequests<'a>, Rejection> {
        let endpoint = self.endpoint.as_ref().map(|Text(endpoint)| &**endpoint);
        let is_global = self.dimension == Dimension::Global;
        match endpoint {
            None if !is_global => Err(Rejection::bad_field("endpoint", "the endpoint is missing")),
            Some(_) if is_global => {
                let detail =
                    "the dimension `global` is for all endpoints: leave it out, or use `per_endpoint`";
                Err(Rejection::bad_field("endpoint", detail))
            }
            Some("") => Err(Rejection::bad_field("endpoint", "the endpoint is empty")),
            endpoint => Ok(RuleRequests { endpoint, dimension: self.dimension, tier }),
        }
    }
}
