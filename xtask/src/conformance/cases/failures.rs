//! What a client does without an answer: rules 16 and 17.

use serde_json::{Value, json};

use super::ConformanceCase;
use crate::conformance::difference::{CaseOutcome, Difference, expect};
use crate::conformance::reply::HttpAnswer;
use crate::conformance::server::ScriptedServer;
use crate::conformance::stage::{
    Stage, admitted_body, check, expect_arrivals, expect_fields, problem, with, without_answer,
};

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase {
        name: "open-and-closed",
        rules: &[16],
        plays: "without an answer, calls are admitted, or denied as the client or the name says, or as a check with limits of its own says; a problem with a `reason` that is a verdict always denies, and is a plain failure of a count",
        play: open_and_closed,
    },
    ConformanceCase {
        name: "log",
        rules: &[17, 24],
        plays: "500 failures are counted and make one line, with the problem's `detail`, without an attribute, a body or the token, also if the detail repeats them",
        play: log,
    },
];

fn open_and_closed(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = ScriptedServer::on_tcp(None, |_, _| problem(503, "the store is away"))?;
    let settings = [
        (json!({}), [true, true]),
        (json!({"on_failure": "open"}), [true, true]),
        (json!({"on_failure": "closed"}), [false, false]),
        (json!({"closed": ["login"]}), [true, false]),
        (json!({"on_failure": "open", "closed": ["login", "pay"]}), [true, false]),
    ];
    let mut count = 0;
    for (settings, allowed) in settings {
        stage.start(&server, settings.clone())?;
        for (name, allowed) in ["search", "login"].into_iter().zip(allowed) {
            for operation in ["check", "peek", "reserve"] {
                let call = with(check(), json!({"do": operation, "name": name}));
                let expected = without_answer(allowed, "unavailable");
                stage
                    .expect_answer(&call, &expected)
                    .map_err(|difference| difference.within(&settings.to_string()))?;
                count += 1;
            }
        }
        stage.expect_failures(&json!({"unavailable": 6}))?;
    }
    expect_arrivals(&server, count)?;
    verdicts(stage)?;
    own_limits(stage)
}

/// A check with limits of its own says itself what an outage means for it, if the client offers them.
fn own_limits(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = ScriptedServer::on_tcp(None, |_, _| problem(503, "the store is away"))?;
    for (settings, said, allowed) in [
        (json!({"on_failure": "open"}), json!("closed"), false),
        (json!({"on_failure": "closed"}), json!("open"), true),
        (json!({"on_failure": "open"}), Value::Null, true),
        (json!({"on_failure": "closed"}), Value::Null, false),
        (json!({"closed": ["search"]}), Value::Null, false),
        (json!({"closed": ["login"]}), Value::Null, true),
    ] {
        stage.start(&server, settings.clone())?;
        // The name is that of the counters, and no attribute.
        let mut body = json!({"policy": "search", "attributes": {"user": "alice"}, "quotas": ["5/1m"]});
        if !allowed {
            body["on_store_failure"] = json!("closed");
        }
        for operation in ["check", "peek"] {
            let call = with(check(), json!({"do": operation, "quotas": ["5/1m"], "on_store_failure": said}));
            let answer = stage.ask(&call)?;
            let arrivals = server.arrivals()?;
            let Some(sent) = arrivals.last().map(|arrival| &arrival.request.body) else {
                return Err(Difference::wrong(format!("{call} sent nothing and answered {answer}")));
            };
            if sent["quotas"].is_null() {
                return Ok(());
            }
            let part = || format!("{call} of a client with {settings}");
            expect(*sent == body, || format!("{} sent {sent}, expected {body}", part()))?;
            expect_fields(&answer, &without_answer(allowed, "unavailable"))
                .map_err(|difference| difference.within(&part()))?;
        }
    }
    Ok(())
}

/// A problem with one of these reasons is a verdict; one with another reason is none.
fn verdicts(stage: &mut Stage<'_>) -> CaseOutcome {
    let reasons = [
        ("store_unavailable", false),
        ("outcome_unknown", false),
        ("store_full", false),
        ("uncountable", true),
        ("a reason of the future", true),
    ];
    for (reason, allowed) in reasons {
        let body = json!({"title": "Any", "status": 503, "detail": "away", "reason": reason});
        let server = stage.serve(move |_, _| HttpAnswer::json(503, &body).reply())?;
        let calls = [
            (check(), allowed),
            (with(check(), json!({"do": "peek"})), allowed),
            (with(check(), json!({"do": "reserve"})), allowed),
            // It does not wait.
            (with(check(), json!({"do": "wait", "timeout_ms": 60_000})), allowed),
        ];
        for (call, allowed) in calls {
            let answer = stage.ask(&call)?;
            // The reason of the problem may be passed on.
            expect_fields(&with(answer, json!({"reason": null})), &without_answer(allowed, "unavailable"))
                .map_err(|difference| difference.within(&format!("{call} with the reason `{reason}`")))?;
        }
        let count = json!({
            "do": "count", "policy": "login", "attributes": {"user": "alice"}, "quotas": ["5/1m"],
        });
        let answer = stage.ask(&count)?;
        expect(answer["failure"] == "unavailable" && answer["allowed"] != false, || {
            format!("{count} with the reason `{reason}` answered {answer}, expected a plain failure")
        })?;
        expect_arrivals(&server, 5)?;
        stage.expect_failures(&json!({"unavailable": 5}))?;
    }
    Ok(())
}

fn log(stage: &mut Stage<'_>) -> CaseOutcome {
    const SECRETS: [&str; 4] = ["canary-4711", "canary-in-a-list", "tg_canary-token", "\"attributes\""];
    let [attribute, item, token, _] = SECRETS;
    let detail = "the store cannot be reached since noon";
    // As of something between, which repeats its request.
    let repeated = format!("{detail}: {attribute}, {item}, {token}");
    let server = ScriptedServer::on_tcp(Some(token), move |_, _| problem(503, &repeated))?;
    stage.start(&server, json!({"token": token}))?;
    let call = with(check(), json!({"attributes": {"user": attribute, "groups": [item]}}));
    let answer = stage.ask(&json!({"do": "parallel", "calls": vec![call; 500]}))?;
    let answers = answer["answers"].as_array().filter(|answers| answers.len() == 500);
    let answers = answers.ok_or_else(|| Difference::wrong("`parallel` did not answer 500 calls"))?;
    answers.iter().try_for_each(|answer| expect_fields(answer, &without_answer(true, "unavailable")))?;
    expect_arrivals(&server, 500)?;
    stage.expect_failures(&json!({"unavailable": 500}))?;
    let logs = stage.ask(&json!({"do": "logs"}))?;
    let lines: Vec<&str> = logs["lines"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    expect(lines.len() == 1, || format!("500 failures made {} lines: {logs}", lines.len()))?;
    for word in ["unavailable", detail] {
        expect(lines[0].contains(word), || format!("the line has no `{word}`: {}", lines[0]))?;
    }
    for secret in SECRETS {
        expect(!lines[0].contains(secret), || format!("the line has `{secret}`: {}", lines[0]))?;
    }
    repeated_bodies(stage)
}

/// A detail that repeats a whole body, in which values are written as JSON.
fn repeated_bodies(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = ScriptedServer::on_tcp(None, |request, _| {
        if request.path == "/v1/reserve" {
            let held = json!({"hold": "canary-hold", "id": "a", "expires_after_ms": 60_000});
            return HttpAnswer::json(200, &with(admitted_body(), held)).reply();
        }
        problem(503, &format!("cannot do {}", request.body))
    })?;
    let attributes = json!({"user": "canary \"4711\"\n"});
    let reserve = with(check(), json!({"do": "reserve", "attributes": attributes}));
    let count = json!({"do": "count", "policy": "login", "attributes": attributes, "quotas": ["5/1m"]});
    let check = with(check(), json!({"attributes": attributes}));
    for calls in [vec![check], vec![count], vec![reserve, json!({"do": "settle", "cost": 1})]] {
        stage.start(&server, json!({}))?;
        for call in &calls {
            stage.ask(call)?;
        }
        let logs = stage.ask(&json!({"do": "logs"}))?.to_string();
        expect(logs.contains("cannot do"), || format!("the detail is not in the line: {logs}"))?;
        for secret in ["canary", "4711"] {
            expect(!logs.contains(secret), || format!("after {calls:?}, a line has `{secret}`: {logs}"))?;
        }
    }
    Ok(())
}
