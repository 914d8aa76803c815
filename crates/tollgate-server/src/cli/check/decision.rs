//! Decisions as the command reads and prints them.

use std::fmt::Write as _;

use http::StatusCode;
use serde::Deserialize;
use tollgate_policy::Printable;

use crate::cli::client::{ClientError, problem};
use crate::cli::time_span::readable as time;
use crate::settings::flags;

/// The printed part of a decision.
#[derive(Deserialize)]
pub(super) struct Decision {
    pub(super) allowed: bool,
    policy: Option<String>,
    ground: Option<String>,
    limit: Option<u64>,
    source: Option<String>,
    reason: Option<String>,
    retry_after_ms: Option<u64>,
    /// The override that decides, or that gives the limit that decides.
    #[serde(rename = "override")]
    by_override: Option<OverrideRemark>,
    #[serde(default)]
    quotas: Vec<Quota>,
}

#[derive(Deserialize)]
struct Quota {
    policy: String,
    quota: String,
    limit: u64,
    /// Units used in a window.
    used: Option<u64>,
    /// Units in flight.
    held: Option<u64>,
    remaining: u64,
    reset_after_ms: Option<u64>,
    #[serde(rename = "override")]
    by_override: Option<OverrideRemark>,
}

/// An override that applies to the request.
#[derive(Deserialize)]
struct OverrideRemark {
    /// Its end.
    until: Option<String>,
}

impl Decision {
    /// Reads an answer.
    ///
    /// # Errors
    ///
    /// If it is no decision.
    pub(super) fn read(
        server: &str,
        status: StatusCode,
        body: &[u8],
        has_token: bool,
    ) -> Result<Self, ClientError> {
        if let Ok(decision) = serde_json::from_slice::<Self>(body) {
            // A single quota has no list.
            let single = if decision.quotas.is_empty() { serde_json::from_slice(body).ok() } else { None };
            return Ok(Self { quotas: decision.quotas.into_iter().chain(single).collect(), ..decision });
        }
        Err(problem(server, status, body, has_token))
    }

    /// Returns whether a limit in flight applies, as far as the answer says. Without the store, it may not.
    pub(super) fn may_hold_units(&self) -> bool {
        self.source.as_deref() == Some("fallback") || self.quotas.iter().any(|quota| quota.held.is_some())
    }

    /// Returns the decision for people.
    pub(super) fn readable(&self) -> String {
        let policy = match self.policy.as_deref() {
            None | Some(flags::NAME) => String::new(),
            Some(name) => format!(" (policy {})", Printable(name)),
        };
        let mut text = match (self.allowed, self.retry_after_ms, self.reason.as_deref()) {
            (true, ..) if self.source.as_deref() == Some("fallback") => {
                format!("allowed by fallback{policy}: the store is full, or could not answer")
            }
            (true, ..) => match self.ground.as_deref() {
                Some("unlimited") if self.by_override.is_some() => {
                    format!("allowed: unlimited{}", readable(self.by_override.as_ref()))
                }
                Some("unlimited") => "allowed: no policy limits it".to_owned(),
                Some("exempt") => format!("allowed{policy}: it is exempt"),
                _ => format!("allowed{policy}"),
            },
            (false, Some(wait), _) => format!("denied{policy}: retry in {}", time(wait)),
            (false, None, Some("denied_by_override")) => {
                format!("denied{policy}{}", readable(self.by_override.as_ref()))
            }
            (false, None, Some("missing_key")) => format!("denied{policy}: the request has no key"),
            (false, None, _) if self.limit == Some(0) => {
                format!("denied{policy}: the limit is 0, and everything is denied")
            }
            (false, None, Some("cost_exceeds_limit")) => {
                format!("denied{policy}: the cost is above the limit and can never be admitted")
            }
            (false, None, Some("in_flight_exceeded")) => {
                format!("denied{policy}: as many are in flight as the limit allows")
            }
            (false, None, Some("cost_exceeds_share")) => {
                format!(
                    "denied{policy}: the store is down, and the cost is above this process's share of the limit"
                )
            }
            (false, None, _) => format!("denied{policy}"),
        };
        let mut policies: Vec<&str> = self.quotas.iter().map(|quota| quota.policy.as_str()).collect();
        policies.dedup();
        for Quota { policy, quota, limit, used, held, remaining, reset_after_ms, by_override } in &self.quotas
        {
            let whose = if policies.len() > 1 { format!("{} ", Printable(policy)) } else { String::new() };
            let quota = Printable(quota);
            let counted = match (used, held) {
                (_, Some(held)) => format!("{held} of {limit} held"),
                (used, None) => format!("{} of {limit} used", used.unwrap_or_default()),
            };
            let reset =
                reset_after_ms.map(|reset| format!(", resets in {}", time(reset))).unwrap_or_default();
            // Writing into a string does not fail.
            let _ = write!(
                text,
                "\n  {whose}{quota}: {counted}, {remaining} remaining{reset}{}",
                readable(by_override.as_ref())
            );
        }
        text
    }
}

/// Returns what is said of a limit or a verdict that comes from an override; nothing if there is none.
fn readable(by_override: Option<&OverrideRemark>) -> String {
    match by_override {
        None => String::new(),
        Some(OverrideRemark { until: None }) => ", by override".to_owned(),
        Some(OverrideRemark { until: Some(until) }) => format!(", by override until {}", Printable(until)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_said_for_people() {
        let said = |policy: &str, more: &str| {
            let body = format!(r#"{{"policy": "{policy}", "limit": 5, "source": "store", {more}}}"#);
            Decision::read("server", StatusCode::OK, body.as_bytes(), true).unwrap().readable()
        };
        assert_eq!(said("default", r#""allowed": true"#), "allowed");
        assert_eq!(said("search", r#""allowed": true"#), "allowed (policy search)");
        let denied = r#""allowed": false, "reason": "quota_exceeded", "retry_after_ms": 41600"#;
        assert_eq!(said("default", denied), "denied: retry in 42 s");
        assert_eq!(said("search", denied), "denied (policy search): retry in 42 s");
        let unlimited = br#"{"allowed": true, "version": 1, "ground": "unlimited"}"#;
        let unlimited = Decision::read("server", StatusCode::OK, unlimited, true).unwrap();
        assert_eq!(unlimited.readable(), "allowed: no policy limits it");
    }

    #[test]
    fn an_override_is_said_with_its_end() {
        let said =
            |body: &str| Decision::read("server", StatusCode::OK, body.as_bytes(), true).unwrap().readable();
        let until = r#""override": {"until": "2026-12-24T00:00:00Z"}"#;
        let quota = r#""policy": "search", "quota": "500/1m", "limit": 500, "used": 2, "remaining": 498"#;
        assert_eq!(
            said(&format!(r#"{{"allowed": true, {quota}, {until}}}"#)),
            "allowed (policy search)\n  500/1m: 2 of 500 used, 498 remaining, by override until 2026-12-24T00:00:00Z"
        );
        let several =
            format!(r#"{{"allowed": true, "quotas": [{{{quota}, "override": {{}}}}, {{{quota}}}]}}"#);
        let said_of_several = said(&several);
        let lines: Vec<&str> = said_of_several.lines().skip(1).collect();
        let plain = "  500/1m: 2 of 500 used, 498 remaining";
        assert_eq!(lines, [&format!("{plain}, by override"), plain]);
        let denied =
            r#"{"allowed": false, "policy": "search", "reason": "denied_by_override", "override": {}}"#;
        assert_eq!(said(denied), "denied (policy search), by override");
        let unlimited = format!(r#"{{"allowed": true, "ground": "unlimited", {until}}}"#);
        assert_eq!(said(&unlimited), "allowed: unlimited, by override until 2026-12-24T00:00:00Z");
    }
}
