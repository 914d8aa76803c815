//! The body of a denial: a problem with every field of the decision, as the service has it.

use std::time::Duration;

use http::StatusCode;
use tollgate::{PolicyQuota, QuotaState, Reason, Source, Window};

use super::json::{Object, string};
use crate::engine::DeniedBy;

pub(super) fn body(status: StatusCode, by: &DeniedBy) -> String {
    let problem = by.problem();
    let mut body = String::with_capacity(512);
    let mut object = Object::begin(&mut body);
    object
        .text("type", problem.kind)
        .text("title", problem.title)
        .value("status", status.as_u16())
        .text("detail", &problem.detail)
        .list("violated-policies", problem.violated_policies.iter(), |text, name| string(text, name))
        .value("allowed", false);
    match by {
        DeniedBy::Quotas(counted, told_by) => {
            let states = || told_by.quotas().iter().zip(counted);
            if let Some((quota, state)) = states().nth(counted.deciding()) {
                object.text("policy", quota.policy());
                standing(&mut object, quota, state);
                object.text("source", source(state.source()));
            }
            object.list("quotas", states(), |text, (quota, state)| {
                let mut object = Object::begin(text);
                object.text("policy", quota.policy());
                standing(&mut object, quota, state);
                object.end();
            });
        }
        #[cfg(feature = "policy")]
        DeniedBy::MissingKey { policy, .. } => uncounted(object.text("policy", policy), "missing_key"),
        #[cfg(feature = "policy")]
        DeniedBy::List { policy } => uncounted(object.text("policy", policy), "denied"),
        #[cfg(feature = "policy")]
        DeniedBy::Unmatched => uncounted(&mut object, "unmatched"),
    }
    object.end();
    body
}

/// A denial by no quota.
#[cfg(feature = "policy")]
fn uncounted(object: &mut Object<'_>, why: &str) {
    object.text("ground", why).text("reason", why).list("quotas", std::iter::empty(), string);
}

fn standing(object: &mut Object<'_>, quota: &PolicyQuota, state: &QuotaState) {
    object
        .text("quota", &quota.quota().to_string())
        .value("limit", state.limit())
        .value("used", state.used())
        .value("remaining", state.remaining())
        .value("reset_after_ms", millis(state.reset_after()))
        .maybe("retry_after_ms", state.retry_after().map(millis));
    window(object, state.window());
    reason(object, state.reason());
}

fn window(object: &mut Object<'_>, window: Option<Window>) {
    let Some(window) = window else { return };
    object.object("window", |object| {
        object.value("start", window.start().as_unix_millis()).value("end", window.end().as_unix_millis());
    });
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Local => "local",
        Source::Fallback => "fallback",
        _ => "store",
    }
}

fn reason(object: &mut Object<'_>, reason: Option<Reason>) {
    match reason {
        Some(Reason::CostExceedsLimit) => drop(object.text("reason", "cost_exceeds_limit")),
        Some(_) => drop(object.text("reason", "quota_exceeded")),
        None => {}
    }
}

/// Rounded up, so that nobody is told to come back too early.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
