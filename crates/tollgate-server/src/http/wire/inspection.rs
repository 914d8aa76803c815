//! What the service knows about one request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate::{Source, Timestamp, Verdict};
use tollgate_policy::{Attributes, InFlightStanding, PolicyDecision};
use tollgate_wire::body::{DenialReason, QuotaBody, TimeText};

use super::requests::AnyAttributes;
use crate::explain::{ChargeReport, OverrideReport, PathReport, PolicyReport, QuotasFrom, TrialReport};
use crate::http::override_body::OverridesVersionText;
use crate::request::json::{self, CostUnits};
use crate::talkers::TalkerId;

/// An inspection: attributes and cost of a request, or a talker.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct InspectRequest<'a> {
    #[serde(borrow, default, deserialize_with = "json::some_attributes")]
    #[schemars(with = "AnyAttributes")]
    pub(in crate::http) attributes: Option<Attributes<'a>>,
    /// The policy of the talker, in place of `attributes`.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "String")]
    pub(in crate::http) policy: Option<Box<str>>,
    /// The id of the talker.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "String")]
    pub(in crate::http) id: Option<TalkerId>,
    /// Units that would be charged; 0 is answered like 1.
    #[serde(default)]
    #[schemars(extend("default" = 1))]
    pub(in crate::http) cost: CostUnits,
}

/// What policies make of a request now, and what is used. Nothing was charged.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Inspection")]
pub(in crate::http) struct InspectReply<'a> {
    /// When, by the clock that overrides end by.
    pub(in crate::http) at: TimeText,
    pub(in crate::http) policies_version: u64,
    /// Absent if no override was ever set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) overrides_version: Option<OverridesVersionText>,
    /// What the policies say before the counters are read: `charge`, `hold` (only a hold can take the units), `exempt`,
    /// `deny`, or `refuse`: the request lacks something that a policy needs.
    pub(in crate::http) outcome: &'static str,
    /// The same in words, with what decides.
    pub(in crate::http) message: String,
    /// The talker, if the request named one. Its key tells what its own policy does. Which other policies apply is unknown,
    /// so there is no verdict, and no other policy is listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) talker: Option<InspectedTalker<'a>>,
    /// The answer that a check would get, or a hold of one unit if `outcome` is `hold`; absent if it would get none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) verdict: Option<InspectedVerdict>,
    /// Where the verdict came from; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) source: Option<InspectedSource>,
    /// Why the request would be denied; absent if it would not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) reason: Option<DenialReason>,
    /// Milliseconds to wait before a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) retry_after_ms: Option<u64>,
    /// Why the counters could not be read. What is used is unknown then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) peek_failed: Option<String>,
    /// The two readings of the path, if it has two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) path: Option<PathReport>,
    /// The policies that apply.
    pub(in crate::http) applied: Vec<AppliedPolicy<'a>>,
    /// The others, with the reason: the first 1,000.
    pub(in crate::http) not_applied: Vec<UnappliedPolicy<'a>>,
    /// The number of all others.
    pub(in crate::http) not_applied_count: usize,
}

/// The answer that a check would get.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum InspectedVerdict {
    Allowed,
    Denied,
}

/// Where a verdict came from: as of a decision, or `policies` if no counter was needed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum InspectedSource {
    Store,
    Local,
    Policies,
    Fallback,
}

/// A policy that applies to the request, and its counters.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct AppliedPolicy<'a> {
    policy: &'a str,
    /// Its line in the file; absent if the policies are not from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// `enforce` or `shadow`.
    mode: &'static str,
    /// What it does with the request: `limit`, `exempt` or `deny`.
    role: &'static str,
    /// The only reading of the path, `sent` or `normalized`, in which it matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    only_as: Option<&'static str>,
    /// The id of what it counts the request by, as `/v1/talkers` shows it; absent without talkers, or if it counts nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// What it counts the request by, from the attributes that were sent; absent if it counts nothing, or for a talker.
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<String>,
    /// The override that decides, or that gives the charges.
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    by_override: Option<InspectedOverride>,
    /// The override or the tier in the file that gives the quotas, if it is not the policy itself; absent for a talker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quotas_from: Vec<QuotasFrom>,
    /// What a check would charge.
    charges: Vec<ChargeReport>,
    /// Where each quota stands; absent if that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    quotas: Option<Vec<QuotaBody<'a>>>,
    /// The limit in flight; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_flight: Option<InspectedInFlight>,
    /// What it tries, which decides nothing, with what it would answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trials: Vec<TrialReport>,
}

/// A talker.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct InspectedTalker<'a> {
    pub(in crate::http) policy: &'a str,
    pub(in crate::http) id: String,
}

/// An override that applies.
#[derive(Serialize, JsonSchema)]
struct InspectedOverride {
    /// Absent for a talker, because it could tell the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Absent if it has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<TimeText>,
}

/// A limit in flight, and its units.
#[derive(Serialize, JsonSchema)]
struct InspectedInFlight {
    /// As it is written: `20~in_flight`.
    written: String,
    limit: u32,
    /// Units in flight; absent if that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<u32>,
    /// Units left; absent if that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u32>,
}

/// A policy that does not apply to the request.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct UnappliedPolicy<'a> {
    pub(in crate::http) policy: &'a str,
    /// Why; at most 500 characters of it.
    pub(in crate::http) reason: String,
}

impl InspectedSource {
    pub(in crate::http) fn of(decision: &PolicyDecision) -> Self {
        match decision.source() {
            Source::Fallback => Self::Fallback,
            _ if decision.is_without_room() => Self::Fallback,
            // Without a counter, the source says nothing.
            _ if decision.state().is_none() && decision.limit_in_flight().is_none() => Self::Policies,
            Source::Local => Self::Local,
            _ => Self::Store,
        }
    }
}

impl<'a> AppliedPolicy<'a> {
    /// Leaves out what could tell the key.
    pub(in crate::http) fn without_key(mut self) -> Self {
        self.by_override.iter_mut().for_each(|by_override| by_override.id = None);
        // A condition of an override may be on an attribute of the key.
        Self { counts: None, quotas_from: Vec::new(), ..self }
    }

    pub(in crate::http) fn with_id(self, id: Option<TalkerId>) -> Self {
        Self { id: id.map(|id| id.to_string()), ..self }
    }

    pub(in crate::http) const fn policy(&self) -> &'a str {
        self.policy
    }

    /// With the standings of its limits and the answers of its trials, if they are known.
    pub(in crate::http) fn new(report: PolicyReport<'a>, peeked: Option<&'a PolicyDecision>) -> Self {
        let name = report.policy;
        let quotas = peeked.map(|decision| {
            let standings = decision.quotas().filter(|standing| standing.policy.name() == name);
            standings.map(QuotaBody::of_policy).collect()
        });
        let held = peeked.and_then(|decision| {
            decision.in_flight().find(|InFlightStanding { policy, .. }| policy.name() == name)
        });
        let in_flight = report.in_flight.map(|limit| InspectedInFlight {
            written: limit.written,
            limit: limit.limit,
            held: held.map(|standing| standing.state.live()),
            remaining: held.map(|standing| standing.state.remaining()),
        });
        let tried = |kind: &str| {
            let mut trials = peeked?.trials().filter(|trial| trial.policy.name() == name);
            trials.find(|trial| TrialReport::name(trial.kind) == kind)?.answer.verdict()
        };
        let trials = report.trials.into_iter().map(|trial| TrialReport {
            answer: tried(trial.kind).map(|verdict| match verdict {
                Verdict::Allowed => "allowed",
                Verdict::Denied => "denied",
            }),
            ..trial
        });
        Self {
            policy: name,
            line: report.line,
            mode: report.mode,
            role: match (report.exempt, report.denies) {
                (true, _) => "exempt",
                (_, true) => "deny",
                _ => "limit",
            },
            only_as: report.only_as,
            id: None,
            counts: report.counts,
            by_override: report.by_override.map(InspectedOverride::from),
            quotas_from: report.quotas_from,
            charges: report.charges,
            quotas,
            in_flight,
            trials: trials.collect(),
        }
    }
}

impl From<OverrideReport> for InspectedOverride {
    fn from(OverrideReport { id, until }: OverrideReport) -> Self {
        Self { id: Some(id), until: until.map(|until| TimeText(Timestamp::from_unix_millis(until))) }
    }
}
