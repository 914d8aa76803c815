//! The body of a denial: a problem with every field of the decision, as the service has it.

use std::time::Duration;

use http::StatusCode;
use tollgate::{Counted, PolicyQuota, QuotaState, Reason, Source, Window, whole_seconds};

use super::json::{Object, string};
use crate::headers::LimitHeaders;

/// Source: draft-ietf-httpapi-ratelimit-headers-11, section "Problem types".
const KIND: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

pub(super) fn body(status: StatusCode, counted: &Counted, told_by: &LimitHeaders) -> String {
    let states = || told_by.quotas().iter().zip(counted);
    let violated = counted.iter().enumerate().filter(|(_, state)| state.reason().is_some());
    let mut body = String::with_capacity(512);
    let mut object = Object::begin(&mut body);
    object
        .text("type", KIND)
        .text("title", "Quota exceeded")
        .value("status", status.as_u16())
        .text("detail", &detail(counted, told_by))
        .list("violated-policies", violated.filter_map(|(index, _)| told_by.name(index)), string)
        .value("allowed", false);
    if let Some((quota, state)) = states().nth(counted.deciding()) {
        object.text("policy", quota.policy());
        standing(&mut object, quota, state);
        window(&mut object, state.window());
        object.text("source", source(state.source()));
        reason(&mut object, state.reason());
    }
    object.list("quotas", states(), |text, (quota, state)| {
        let mut object = Object::begin(text);
        standing(&mut object, quota, state);
        window(&mut object, state.window());
        reason(&mut object, state.reason());
        object.end();
    });
    object.end();
    body
}

pub(super) fn detail(counted: &Counted, told_by: &LimitHeaders) -> String {
    let deciding = counted.deciding();
    let Some((quota, state)) = told_by.quotas().get(deciding).zip(counted.get(deciding)) else {
        return "denied".to_owned();
    };
    let (quota, remaining, limit) = (quota.quota(), state.remaining(), state.limit());
    match state.retry_after() {
        Some(wait) => format!(
            "{quota} has {remaining} of {limit} left, less than the request takes; the next window starts in {} s",
            whole_seconds(wait)
        ),
        None if limit == 0 => "the limit is 0: everything is denied".to_owned(),
        None => format!("the cost is above the limit of {quota} and can never pass"),
    }
}

fn standing(object: &mut Object<'_>, quota: &PolicyQuota, state: &QuotaState) {
    object
        .text("quota", &quota.quota().to_string())
        .value("limit", state.limit())
        .value("used", state.used())
        .value("remaining", state.remaining())
        .value("reset_after_ms", millis(state.reset_after()))
        .maybe("retry_after_ms", state.retry_after().map(millis));
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
