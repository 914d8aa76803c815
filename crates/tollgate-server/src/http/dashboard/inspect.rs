//! `POST /v1/inspect`: what policies make of one request, and what is used.

use std::sync::Arc;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tollgate::{Reason, Source, Timestamp};
use tollgate_policy::{CheckError, Ground, InFlightStanding, PolicyDecision, QuotaStanding, Refusal};
use tollgate_wire::body::{DenialReason, TimeText, millis};

use crate::access::caller::Caller;
use crate::answer::rejection::Rejection;
use crate::explain::{ExplainReport, ExplainedRequest, PolicyReport};
use crate::http::asked_client::expect_id;
use crate::http::override_body::OverridesVersionText;
use crate::http::wire::{
    AppliedPolicy, InspectReply, InspectRequest, InspectedSource, InspectedTalker, InspectedVerdict,
    UnappliedPolicy,
};
use crate::http::{Edge, Reply, reply};
use crate::net::body;
use crate::observe::shortened::shortened;
use crate::request::json;
use crate::talkers::TalkerId;

/// The most policies that do not apply in an answer, and the most characters of a reason: a file may have thousands of
/// conditions.
const MAX_OTHERS: usize = 1_000;
const MAX_REASON: usize = 500;

impl Edge {
    /// Answers 200 also if the policies refuse the request or the store fails: that is what was asked about.
    pub(in crate::http) async fn inspect(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let InspectRequest { attributes, policy, id, cost } = json::read(&body)?;
        expect_id(policy.as_deref(), id)?;
        let client = self.asked_client(caller, attributes.as_ref(), policy.as_deref(), id)?;
        let (attributes, cost) = (caller.asks(client.attributes(attributes)?), cost.units());
        let engine = self.engine()?;
        // Both answers are made under one version.
        let set =
            client.talker.as_ref().map_or_else(|| engine.live(), |talker| Arc::clone(talker.policies()));
        let peeked = engine.peek_with_trials(Arc::clone(&set), &attributes, cost).await;
        let refusal = match &peeked {
            Err(error @ CheckError::Refused(_)) if client.talker.as_ref().is_some() => {
                return Err(client.rejection(error));
            }
            Err(error @ CheckError::Refused(Refusal::OtherPolicy { .. })) => {
                return Err(Rejection::check(error, "attributes"));
            }
            Err(CheckError::Refused(refusal)) => Some(refusal.clone()),
            _ => None,
        };
        let peek = Peek::new(&peeked);
        let request = ExplainedRequest {
            policies: set.policies(),
            attributes: attributes.as_attributes(),
            cost,
            at: set.overrides().now(),
            overrides: Some(set.overrides()),
        };
        let report = ExplainReport::new(&request, refusal, |_| None);
        let counted = peek.counted.and_then(|decision| message(decision, report.outcome));
        let mut message = counted.unwrap_or(report.message);
        if peek.failure.is_some() {
            message.push_str("; what is used could not be read");
        }
        if let Some(talker) = client.talker.as_ref() {
            let policy = talker.policy_name();
            message = format!("by `{policy}` alone, {message}; which other policies apply is unknown");
        }
        let (applied, others): (Vec<PolicyReport<'_>>, Vec<PolicyReport<'_>>) =
            report.policies.into_iter().partition(|policy| policy.because.is_empty());
        // What exempts or denies a request does so for every caller.
        let is_known =
            |policy: &PolicyReport<'_>| policy.exempt || policy.denies || caller.may_touch(policy.policy);
        let applied = applied.into_iter().filter(is_known).map(|policy| {
            let policy = AppliedPolicy::new(policy, peek.counted);
            let id = self.talker_id(policy.policy(), peek.decision);
            if client.talker.as_ref().is_some() {
                policy.with_id(id).without_key()
            } else {
                policy.with_id(id)
            }
        });
        let others: Vec<PolicyReport<'_>> =
            others.into_iter().filter(|policy| caller.may_touch(policy.policy)).collect();
        let not_applied = others.iter().take(MAX_OTHERS).map(|policy| UnappliedPolicy {
            policy: policy.policy,
            reason: shortened(&policy.because.join("; "), MAX_REASON),
        });
        // Only one policy is known to decide.
        let decision = peek.decision.filter(|_| client.talker.as_ref().is_none());
        let talker = client.talker.as_ref();
        let body = InspectReply {
            at: TimeText(Timestamp::from_unix_millis(report.at)),
            policies_version: set.version(),
            overrides_version: OverridesVersionText::of(&set),
            outcome: report.outcome,
            message,
            talker: talker
                .map(|talker| InspectedTalker { policy: talker.policy_name(), id: talker.id.to_string() }),
            verdict: decision.map(|decision| match decision.is_allowed() {
                true => InspectedVerdict::Allowed,
                false => InspectedVerdict::Denied,
            }),
            source: decision.map(InspectedSource::of),
            reason: decision.and_then(DenialReason::of_policies),
            retry_after_ms: decision.and_then(PolicyDecision::retry_after).map(millis),
            peek_failed: peek.failure,
            path: report.path,
            applied: applied.collect(),
            not_applied: not_applied.collect(),
            not_applied_count: others.len(),
        };
        Ok(reply::json(StatusCode::OK, &body))
    }
}

impl Edge {
    /// Returns the id of the key by which a policy counts a request that was peeked at.
    fn talker_id(&self, policy: &str, peeked: Option<&PolicyDecision>) -> Option<TalkerId> {
        let talkers = self.dashboard.as_deref()?.talkers.as_deref()?;
        let charged = peeked?.charged_keys().find(|charged| charged.policy.name() == policy)?;
        talkers.id_of(charged.policy, charged.key)
    }
}

/// What came of a peek.
struct Peek<'a> {
    /// What a check would get.
    decision: Option<&'a PolicyDecision>,
    /// The same, if the counters were read.
    counted: Option<&'a PolicyDecision>,
    /// Why they were not.
    failure: Option<String>,
}

impl<'a> Peek<'a> {
    fn new(peeked: &'a Result<PolicyDecision, CheckError>) -> Self {
        let failed = |decision, failure: String| Self { decision, counted: None, failure: Some(failure) };
        match peeked {
            Err(CheckError::Refused(_)) => Self { decision: None, counted: None, failure: None },
            // In the words that a check would get.
            Err(error) => failed(None, Rejection::check(error, "attributes").detail().to_owned()),
            Ok(decision) if decision.is_without_room() => {
                failed(Some(decision), "the store is full, and has no counter for this key".to_owned())
            }
            // The states are those of the fallback, not of the counters.
            Ok(decision) if decision.source() == Source::Fallback => failed(
                Some(decision),
                "the store does not answer, and the policies decide without it".to_owned(),
            ),
            Ok(decision) => Self { decision: Some(decision), counted: Some(decision), failure: None },
        }
    }
}

/// Returns what counters have decided, in words; `None` if what the policies say is all.
fn message(decision: &PolicyDecision, outcome: &str) -> Option<String> {
    // A check would be refused for another reason, and the policies say which.
    if outcome == "hold" && decision.is_allowed() {
        return None;
    }
    let word = if decision.is_allowed() { "allowed" } else { "denied" };
    match decision.ground() {
        Ground::Quotas(_) => {
            let QuotaStanding { quota, state, .. } = decision.quota()?;
            // What costs more than the limit is denied whatever is used.
            if state.limit() == 0 || decision.reason() == Some(Reason::CostExceedsLimit) {
                return None;
            }
            let (used, limit, policy) = (state.used(), state.limit(), quota.policy());
            Some(format!("{word}: {used} of {limit} units of {} of `{policy}` are used", quota.quota()))
        }
        Ground::InFlight(InFlightStanding { policy, state, .. })
            if !decision.is_allowed() && state.limit() > 0 =>
        {
            let (held, limit, policy) = (state.live(), state.limit(), policy.name());
            Some(format!("{word}: {held} of {limit} units in flight of `{policy}` are held"))
        }
        _ => None,
    }
}
