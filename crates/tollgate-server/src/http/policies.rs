//! The live policies for administrators.

use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tollgate::{Clock, CountDenied, SystemClock};
use tollgate_policy::{Conditions, Cost, FileOverride, Policy, PolicyKind};

use super::reloads::{NotLive, ReloadBody};
use super::{Edge, Reply, reply};
use crate::access::caller::Caller;
use crate::answer::rejection::Rejection;

/// The live policies, if policies decide.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Policies")]
pub(super) struct PoliciesBody<'a> {
    /// What decides: `policies`. With the limits of envoyproxy/ratelimit, it is `domains`, and the body lists these.
    decides: &'static str,
    /// Counted from 1 since the process started.
    version: u64,
    /// A hash of all live policies, the same for every process with the same ones.
    generation: String,
    /// The file that they are from, or `flags`.
    source: &'a str,
    /// When they became live, in Unix milliseconds.
    since: i64,
    /// Milliseconds since then.
    age_ms: u64,
    /// Why the file as last read is not live; absent if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_live: Option<NotLive>,
    /// The last ten reloads, the latest one first; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reloads: Vec<ReloadBody>,
    /// What happens to requests that no policy matches: `allow` or `deny`.
    unmatched: &'static str,
    /// Exempt ones first.
    policies: Vec<PolicyBody<'a>>,
}

/// A policy. Its match only shows attributes, because values may be secret.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Policy")]
struct PolicyBody<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    /// Its place in the file when this version became live.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// `enforce`, `shadow` or `off`.
    mode: &'a str,
    exempt: bool,
    /// Whether it denies everything it matches.
    denies: bool,
    /// The attributes of its tests.
    #[serde(rename = "match")]
    matches: Vec<&'a str>,
    /// The key; absent, like `settings`, if the policy exempts or denies.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    quotas: Vec<String>,
    /// Whether it counts nothing, because the file has `unlimited` instead of `quotas`, which are empty then.
    unlimited: bool,
    candidate: Vec<String>,
    overrides: Vec<FileOverrideBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<PolicySettings>,
}

/// Other quotas for some requests of a policy.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FileOverride")]
struct FileOverrideBody<'a> {
    /// The attributes of its tests.
    when: Vec<&'a str>,
    /// The number of values in a table with a list of quotas for each; absent if there is only one list.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<usize>,
    quotas: Vec<String>,
    /// Whether it counts nothing, because the file has `unlimited` instead of `quotas`, which are empty then.
    unlimited: bool,
    candidate: Vec<String>,
}

/// Other settings of a policy, with the defaults of its file.
#[derive(Serialize, JsonSchema)]
struct PolicySettings {
    /// Units: those that the caller requests, a number, or an attribute with its maximum.
    cost: String,
    count_denied: bool,
    /// Whether any cost is admitted while a unit is left, and every request is charged, whatever the verdict.
    overdraft: bool,
    /// What settling a hold charges for a cost above the reserved one: `charge` for all of it, or `cap` for what fits
    /// under the limit.
    overrun: &'static str,
    on_missing_key: &'static str,
    /// `open`, `closed`, or `local` with its share.
    on_store_failure: String,
    /// A format, or several, as they are written in a file.
    headers: String,
    deny_status: u16,
}

impl Edge {
    /// A caller that may use only some policies sees only these, and no reloads, which may name others.
    pub(super) fn policies(&self, caller: &Caller) -> Result<Reply, Rejection> {
        let live = self.engine()?.live();
        let age = SystemClock.now().since(live.since());
        let policies = live.policies().as_slice().iter().filter(|policy| caller.may_touch(policy.name()));
        let (not_live, reloads) = match caller.may_touch_all() {
            Ok(()) => (self.not_live(), self.last_reloads()),
            Err(_) => (None, Vec::new()),
        };
        let body = PoliciesBody {
            decides: "policies",
            version: live.version(),
            generation: live.policies().generation().to_string(),
            source: live.source(),
            since: live.since().as_unix_millis(),
            age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            not_live,
            reloads,
            unmatched: live.policies().unmatched().unwrap_or_default().name(),
            policies: policies.map(PolicyBody::new).collect(),
        };
        Ok(reply::json(StatusCode::OK, &body))
    }
}

impl<'a> PolicyBody<'a> {
    fn new(policy: &'a Policy) -> Self {
        let counts = policy.kind() == PolicyKind::Count;
        Self {
            name: policy.name(),
            description: policy.description(),
            line: policy.at().map(|at| at.line),
            mode: policy.mode().name(),
            exempt: policy.is_exempt(),
            denies: policy.kind() == PolicyKind::Deny,
            matches: attributes(policy.conditions()),
            key: counts.then(|| policy.identity().to_string()),
            quotas: policy.written_limits().collect(),
            unlimited: counts && policy.quotas().is_empty() && policy.in_flight().is_none(),
            candidate: policy.written_candidates().collect(),
            overrides: policy.overrides().iter().map(FileOverrideBody::new).collect(),
            settings: counts.then(|| PolicySettings::new(policy)),
        }
    }
}

impl<'a> FileOverrideBody<'a> {
    fn new(over: &'a FileOverride) -> Self {
        if let Some(table) = over.table() {
            let (when, values) = (vec![table.attribute()], Some(table.len()));
            return Self { when, values, quotas: Vec::new(), unlimited: false, candidate: Vec::new() };
        }
        let quotas: Vec<String> = over.written_limits().collect();
        let candidate = over.written_candidates().collect();
        let unlimited = quotas.is_empty();
        let when = over.when().map(attributes).unwrap_or_default();
        Self { when, values: None, quotas, unlimited, candidate }
    }
}

impl PolicySettings {
    fn new(policy: &Policy) -> Self {
        let count_denied = policy.count_denied();
        Self {
            cost: match policy.cost() {
                Cost::Fixed(units) => units.to_string(),
                Cost::Attribute(cost) => format!("{}, {} to {}", cost.name(), cost.min(), cost.max()),
                _ => "as asked".to_owned(),
            },
            count_denied: count_denied == CountDenied::Yes,
            overdraft: count_denied == CountDenied::Overdraft,
            overrun: policy.overrun().name(),
            on_missing_key: policy.on_missing_key().name(),
            on_store_failure: policy.on_store_failure().to_string(),
            headers: policy.headers().to_string(),
            deny_status: policy.deny_status(),
        }
    }
}

/// Returns each attribute once, in the order of the file.
fn attributes(conditions: &Conditions) -> Vec<&str> {
    let mut names = Vec::new();
    for condition in conditions.iter() {
        if !names.contains(&condition.attribute()) {
            names.push(condition.attribute());
        }
    }
    names
}
