//! Waiting until a check is admitted: rule 21.

use std::time::Duration;

use serde_json::{Value, json};

use super::ConformanceCase;
use crate::conformance::difference::{CaseOutcome, Difference, expect};
use crate::conformance::reply::HttpAnswer;
use crate::conformance::server::ScriptedServer;
use crate::conformance::stage::{
    SLACK, Stage, admit, admitted, check, denied, denied_body, expect_arrivals, expect_fields, problem, with,
    without_answer,
};

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase {
        name: "wait",
        rules: &[9, 21],
        plays: "`wait` sleeps for exactly `retry_after_ms`, or a second after `in_flight_exceeded`, until a check is admitted",
        play: wait,
    },
    ConformanceCase {
        name: "wait-in-vain",
        rules: &[16, 21],
        plays: "`wait` returns at once if waiting does not help, if the next attempt would be too late, and after a failure",
        play: wait_in_vain,
    },
];

fn call(timeout_ms: u64) -> Value {
    with(check(), json!({"do": "wait", "timeout_ms": timeout_ms, "cost": 2}))
}

fn wait(stage: &mut Stage<'_>) -> CaseOutcome {
    expect_wait(stage, &json!({"retry_after_ms": 130}), Duration::from_millis(130))?;
    expect_wait(
        stage,
        &json!({"retry_after_ms": null, "reason": "in_flight_exceeded"}),
        Duration::from_secs(1),
    )
}

/// Plays two denials with these fields, and an admission.
fn expect_wait(stage: &mut Stage<'_>, fields: &Value, pause: Duration) -> CaseOutcome {
    let mut body = with(denied_body(), fields.clone());
    if let Some(body) = body.as_object_mut() {
        body.retain(|_, value| !value.is_null());
    }
    let server = stage.serve(move |_, index| match index {
        0 | 1 => HttpAnswer::json(429, &body).reply(),
        _ => admit(),
    })?;
    stage.expect_answer(&call(10_000), &admitted())?;
    let arrivals = expect_arrivals(&server, 3)?;
    let first = &arrivals[0].request;
    let expected = json!({"attributes": {"action": "search", "user": "alice"}, "cost": 2});
    expect(first.path == "/v1/check" && first.body == expected, || {
        format!("`wait` sent {} {}, expected {expected}", first.path, first.body)
    })?;
    for (index, next) in arrivals.iter().skip(1).enumerate() {
        let slept = next.at.saturating_sub(server.answer_began(index).unwrap_or_default());
        let text = || format!("after {fields}, `wait` slept for {slept:?}, expected {pause:?}");
        expect(slept >= pause, text)?;
        if slept > pause + SLACK {
            return Err(Difference::late(text()));
        }
    }
    Ok(())
}

fn wait_in_vain(stage: &mut Stage<'_>) -> CaseOutcome {
    // The next attempt would be after the timeout.
    let server = stage.serve(|_, _| HttpAnswer::json(429, &denied_body()).reply())?;
    expect_at_once(stage, &call(2_000), &denied())?;
    expect_arrivals(&server, 1)?;
    // Waiting does not help.
    let mut body = with(denied_body(), json!({"reason": "cost_exceeds_limit"}));
    body.as_object_mut().and_then(|body| body.remove("retry_after_ms"));
    let server = stage.serve(move |_, _| HttpAnswer::json(429, &body).reply())?;
    let expected = with(denied(), json!({"reason": "cost_exceeds_limit", "retry_after_ms": null}));
    expect_at_once(stage, &call(60_000), &expected)?;
    expect_arrivals(&server, 1)?;
    // The service did not decide.
    let server = ScriptedServer::on_tcp(None, |_, _| problem(503, "the store is away"))?;
    for (settings, allowed) in [(json!({}), true), (json!({"on_failure": "closed"}), false)] {
        stage.start(&server, settings)?;
        expect_at_once(stage, &call(60_000), &without_answer(allowed, "unavailable"))?;
    }
    expect_arrivals(&server, 2).map(drop)
}

fn expect_at_once(stage: &mut Stage<'_>, call: &Value, expected: &Value) -> CaseOutcome {
    let (answer, took) = stage.ask_timed(call)?;
    expect_fields(&answer, expected)?;
    if took > 2 * SLACK {
        return Err(Difference::late(format!("`wait` returned after {} ms, not at once", took.as_millis())));
    }
    Ok(())
}
