//! `GET /v1/whatif`: what another quota would have done.

use std::borrow::Cow;
use std::sync::Arc;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tollgate::{Clock, Quota, SystemClock};
use tollgate_policy::{Mode, Policy, PolicyKind};
use tollgate_wire::body::TimeText;

use crate::access::caller::{Caller, OtherPolicy};
use crate::answer::rejection::{Rejection, Repeat};
use crate::answer::rejection_kind::RejectionKind;
use crate::dashboard::what_if::{Circumstances, Estimate, WhatIfQuestion};
use crate::http::asked_client::no_policy;
use crate::http::query::{self, QueryParameter};
use crate::http::wire::{WhatIfKind, WhatIfPoint, WhatIfReply};
use crate::http::{Edge, Reply, reply};
use crate::sample::PolicySample;

/// Its parameters, for the description of the service.
pub(super) const PARAMETERS: &[QueryParameter] = &[
    QueryParameter { name: "policy", description: "The policy. Required" },
    QueryParameter { name: "quota", description: "The quota, such as `60/1m` or `60/1m~burst`. Required" },
];

pub(super) const REJECTIONS: &[(StatusCode, &str)] = &[
    (
        StatusCode::NOT_FOUND,
        "There is no such policy. Or: Envoy's limits decide, or the service runs with `--talkers off`",
    ),
    (
        StatusCode::CONFLICT,
        "The policy has no sample: it is in shadow mode, or exempts or denies what it matches",
    ),
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "Another answer is being computed, or this one took too long. `Retry-After` says when to ask again",
    ),
];

/// What is asked.
#[derive(Debug)]
struct WhatIfQuery<'a> {
    policy: Cow<'a, str>,
    quota: Quota,
}

impl Edge {
    pub(in crate::http) async fn what_if(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let dashboard = self.dashboard()?;
        let WhatIfQuery { policy: name, quota } =
            WhatIfQuery::read(request.uri().query().unwrap_or_default())?;
        if !caller.may_touch(&name) {
            return Err(OtherPolicy.into());
        }
        let engine = self.decider.policies().ok_or_else(|| {
            not_found("Envoy's limits decide in this service, and only requests under policies are sampled")
        })?;
        let talkers = dashboard.talkers.as_deref().ok_or_else(|| {
            not_found(
                "this service samples no requests, because it counts no talkers (`serve --talkers off`)",
            )
        })?;
        let set = engine.live();
        let policy = set.policies().as_slice().iter().find(|policy| policy.name() == name);
        let policy = policy.ok_or_else(|| no_policy("query.policy"))?;
        has_sample(policy)?;
        // No request may have come since the policies changed. `None` if another thread is about to follow them.
        talkers.follow(&set);
        let sample = talkers.sample_of(&name);
        let question = WhatIfQuestion {
            quota,
            count_denied: policy.count_denied(),
            circumstances: Circumstances {
                now: SystemClock.now(),
                quotas: policy.quotas().len(),
                has_in_flight: policy.has_in_flight(),
                is_shared: dashboard.store_kind.is_some(),
            },
        };
        let begun = dashboard.what_if.begin().ok_or_else(|| {
            unavailable("another answer of this kind is being computed, and there is one at a time")
        })?;
        // Its time is bounded, but other requests would wait for it on this thread.
        let computed = tokio::task::spawn_blocking(move || {
            let _begun = begun;
            estimate(&question, sample.as_ref())
        });
        let estimate = computed
            .await
            .map_err(|_| Rejection::new(RejectionKind::Unavailable, "the answer could not be computed"))??;
        Ok(reply::json(StatusCode::OK, &body(&name, &estimate)))
    }
}

fn estimate(question: &WhatIfQuestion, sample: Option<&Arc<PolicySample>>) -> Result<Estimate, Rejection> {
    let requests = sample.map(|sample| sample.requests()).unwrap_or_default();
    Estimate::new(question, requests).map_err(|_| {
        unavailable("the answer takes more than 50 ms, which is more than this service grants it")
    })
}

fn has_sample(policy: &Policy) -> Result<(), Rejection> {
    let refused = |detail| Err(Rejection::conflict("query.policy", detail));
    match (policy.kind(), policy.mode()) {
        (PolicyKind::Exempt, _) => refused("the policy exempts what it matches, and counts no requests"),
        (PolicyKind::Deny, _) => refused("the policy denies all that it matches, and counts no requests"),
        (PolicyKind::Count, Mode::Off) => refused("the policy is off, and matches no requests"),
        (PolicyKind::Count, Mode::Shadow) => {
            refused("the policy is in shadow mode, and its requests are not sampled")
        }
        (PolicyKind::Count, Mode::Enforce) => Ok(()),
    }
}

fn not_found(detail: &'static str) -> Rejection {
    Rejection::new(RejectionKind::NotFound, detail)
}

fn unavailable(detail: &'static str) -> Rejection {
    Rejection::new(RejectionKind::Unavailable, detail).repeating(Repeat::After(1))
}

fn body<'a>(policy: &'a str, estimate: &Estimate) -> WhatIfReply<'a> {
    let Estimate { quota, since, until, one_in, keys, requests, denied, skipped, .. } = estimate;
    let share = |some: u64, all: u64| some as f64 / all.max(1) as f64;
    let curve = estimate.points.iter().map(|point| WhatIfPoint {
        limit: point.limit,
        refused_requests: point.requests,
        refused_keys: point.keys,
        share_requests: share(point.requests, *requests),
        share_keys: share(point.keys, *keys),
        low: point.band.map(|band| band.low),
        high: point.band.map(|band| band.high),
    });
    let kinds = estimate.kinds.iter().map(|kind| WhatIfKind {
        quota: kind.quota.to_string(),
        refused_requests: kind.requests,
        refused_keys: kind.keys,
    });
    let mut says: Vec<&str> = estimate.doubts.iter().map(|doubt| &**doubt).collect();
    says.extend(&estimate.remarks);
    WhatIfReply {
        policy,
        quota: quota.to_string(),
        exact: estimate.doubts.is_empty(),
        says: (!says.is_empty()).then(|| says.join(" ")),
        since: since.map(TimeText),
        until: TimeText(*until),
        span_seconds: since.map_or(0.0, |since| until.since(since).as_secs_f64()),
        sampled: (*one_in > 1).then(|| format!("1 of {one_in} keys")),
        keys: *keys,
        requests: *requests,
        denied_requests: *denied,
        skipped: *skipped,
        basis: if estimate.is_replayed { "replayed" } else { "calculated" },
        curve: curve.collect(),
        kinds: kinds.collect(),
        candidate: format!("candidate: [{quota}]"),
    }
}

impl<'a> WhatIfQuery<'a> {
    /// Reads `name=value` pairs.
    ///
    /// # Errors
    ///
    /// If one is missing, unknown or given twice, or a value is not what it has to be.
    fn read(query: &'a str) -> Result<Self, Rejection> {
        let (mut policy, mut quota) = (None, None);
        for pair in query::pairs(query) {
            let (name, value) = pair?;
            let wrong = |detail: &str| Rejection::bad_field(format!("query.{name}"), detail.to_owned());
            let is_new = match &*name {
                "policy" => {
                    let known = Policy::is_name(&value).then_some(value);
                    policy.replace(known.ok_or_else(|| wrong("expected the name of a policy"))?).is_none()
                }
                "quota" => {
                    let read: Quota =
                        value.parse().map_err(|error: tollgate::QuotaError| wrong(&error.to_string()))?;
                    quota.replace(read).is_none()
                }
                _ => return Err(wrong("unknown parameter, expected `policy` or `quota`")),
            };
            if !is_new {
                return Err(wrong("the parameter is given twice"));
            }
        }
        let missing =
            |name: &str| Rejection::bad_field(format!("query.{name}"), format!("`{name}` is missing"));
        Ok(Self {
            policy: policy.ok_or_else(|| missing("policy"))?,
            quota: quota.ok_or_else(|| missing("quota"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_policy_and_a_quota() {
        let read = WhatIfQuery::read("quota=60%2F1m&policy=a.b").unwrap();
        assert_eq!((&*read.policy, read.quota.to_string().as_str()), ("a.b", "60/1m"));
        assert_eq!(WhatIfQuery::read("policy=a&quota=5/1m~burst:2").unwrap().quota.capacity(), 2);
    }

    #[test]
    fn an_answer_that_takes_too_long_may_be_asked_for_again() {
        let rejection = unavailable("too long");
        assert_eq!(rejection.kind().status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(rejection.repeat(), Repeat::After(1));
    }

    #[test]
    fn what_is_missing_unknown_doubled_or_no_quota_is_refused() {
        for (query, field) in [
            ("", "query.policy"),
            ("quota=5/1m", "query.policy"),
            ("policy=a", "query.quota"),
            ("policy=a%20b&quota=5/1m", "query.policy"),
            ("policy=a&policy=a&quota=5/1m", "query.policy"),
            ("policy=a&quota=5/1m&quota=5/1m", "query.quota"),
            ("policy=a&quota=5", "query.quota"),
            ("policy=a&quota=5/1x", "query.quota"),
            ("policy=a&quota=5/1m&limit=3", "query.limit"),
        ] {
            assert_eq!(WhatIfQuery::read(query).unwrap_err().field(), Some(field), "{query}");
        }
    }
}
