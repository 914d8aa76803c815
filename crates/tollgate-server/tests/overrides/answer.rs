//! Answers of the services, as the judge reads them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::attributes::IN_FLIGHT;
use crate::observation::Outcome;
use crate::rfc3339;
use crate::support::Reply;
use crate::versions::Version;

/// A decision.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// `None` if the answer names none.
    pub(crate) version: Option<Version>,
    pub(crate) is_allowed: bool,
    pub(crate) is_local: bool,
    pub(crate) reason: Option<String>,
    pub(crate) ground: Option<String>,
    pub(crate) policy: Option<String>,
    pub(crate) has_wait: bool,
    pub(crate) by_override: Option<Option<i64>>,
    /// By policy and series.
    pub(crate) quotas: BTreeMap<(String, String), AnsweredQuota>,
    /// The hold that a reservation has made.
    pub(crate) hold: Option<String>,
    /// The store's times of the steps, as windows and resets show them.
    pub(crate) steps: BTreeSet<i64>,
    pub(crate) body: String,
}

/// The state of a quota, or of a limit in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnsweredQuota {
    pub(crate) limit: u64,
    pub(crate) used: u64,
    pub(crate) by_override: Option<Option<i64>>,
}

/// A quota whose count was changed at the end of a hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SettledQuota {
    pub(crate) policy: String,
    pub(crate) quota: String,
    pub(crate) given: u64,
    pub(crate) charged: u64,
}

impl Outcome {
    pub(crate) fn read(reply: &Reply) -> Self {
        let Ok(body) = serde_json::from_slice::<Value>(&reply.body) else { return Self::Unknown };
        if reply.status == 400 && body["reason"] == "needs_hold" {
            return Self::NeedsHold;
        }
        Answer::read(reply, &body).map_or(Self::Unknown, |answer| Self::Decided(Box::new(answer)))
    }
}

impl Answer {
    /// Returns the decision; `None` if it is none.
    fn read(reply: &Reply, body: &Value) -> Option<Self> {
        let is_allowed = body["allowed"].as_bool()?;
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        let own = [body.clone()];
        let listed = match body["quotas"].as_array() {
            Some(quotas) => quotas.as_slice(),
            None if body["quota"].is_null() => &[],
            None => &own,
        };
        let step = |quota: &Value| {
            let end = quota["window"]["end"].as_i64()?;
            Some(end - quota["reset_after_ms"].as_i64()?)
        };
        Some(Self {
            status: reply.status,
            version: text("overrides_version").map(|text| Version::read(&text).expect("a version")),
            is_allowed,
            is_local: body["source"] == "local",
            reason: text("reason"),
            ground: text("ground"),
            policy: text("policy"),
            has_wait: reply.header("retry-after").is_some() || !body["retry_after_ms"].is_null(),
            by_override: by_override(body),
            quotas: listed.iter().map(quota).collect::<Option<_>>()?,
            hold: text("hold"),
            steps: listed.iter().filter_map(step).collect(),
            body: body.to_string(),
        })
    }
}

/// Returns a quota under its policy and series.
fn quota(quota: &Value) -> Option<((String, String), AnsweredQuota)> {
    let text = quota["quota"].as_str()?;
    let (series, used) = match text.split_once('/') {
        Some((_, series)) => (series, &quota["used"]),
        None => {
            (text.split_once('~').map(|(_, series)| series).filter(|it| *it == IN_FLIGHT)?, &quota["held"])
        }
    };
    let key = (quota["policy"].as_str()?.to_owned(), series.to_owned());
    let (limit, used) = (quota["limit"].as_u64()?, used.as_u64()?);
    Some((key, AnsweredQuota { limit, used, by_override: by_override(quota) }))
}

/// Whether an override gave the limit, and when it ends.
fn by_override(body: &Value) -> Option<Option<i64>> {
    let applied = body.get("override")?;
    Some(applied.get("until").map(|until| until.as_str().and_then(rfc3339::read).expect("a time in UTC")))
}

/// Reads the answer to a settlement; `None` if the outcome is unknown, and the body if nothing was settled.
pub(crate) fn read_settled(reply: &Reply) -> Option<Result<Vec<SettledQuota>, String>> {
    let body: Value = serde_json::from_slice(&reply.body).ok()?;
    if reply.status >= 500 {
        return None;
    }
    let settled = |quota: &Value| {
        let text = |name: &str| quota[name].as_str().map(str::to_owned);
        let (given, charged) = (quota["given"].as_u64()?, quota["charged"].as_u64()?);
        let is_nothing_forgiven = quota["forgiven"] == 0;
        is_nothing_forgiven.then_some(SettledQuota {
            policy: text("policy")?,
            quota: text("quota")?,
            given,
            charged,
        })
    };
    let quotas = body["quotas"].as_array().filter(|_| body["status"] == "settled");
    let quotas = quotas.and_then(|quotas| quotas.iter().map(settled).collect::<Option<Vec<_>>>());
    Some(quotas.ok_or_else(|| format!("{} {body}", reply.status)))
}
