//! What a client sends: rules 4 to 7.

use serde_json::{Value, json};

use super::ConformanceCase;
use crate::conformance::difference::{CaseOutcome, expect};
use crate::conformance::reply::HttpAnswer;
use crate::conformance::server::ScriptedServer;
use crate::conformance::stage::{Stage, admit, admitted, check, expect_arrivals, expect_bodies, with};

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase {
        name: "check",
        rules: &[4, 5],
        plays: "the requests of checks and peeks: their headers and each field; a cost of 1 is left out",
        play: check_requests,
    },
    ConformanceCase {
        name: "token",
        rules: &[4],
        plays: "a token is sent once with every request",
        play: token,
    },
    ConformanceCase {
        name: "attributes",
        rules: &[7],
        plays: "texts with any characters, booleans and lists of texts arrive as they were given",
        play: attributes,
    },
    ConformanceCase {
        name: "wrong-attributes",
        rules: &[5, 7],
        plays: "an attribute of another type, above a bound or named `action` is an error before anything is sent, as are a name above 1,024 bytes and a count without attributes",
        play: wrong_attributes,
    },
    ConformanceCase {
        name: "trace-context",
        rules: &[6],
        plays: "`traceparent` and `tracestate` are passed on, and not sent without a caller's",
        play: trace_context,
    },
    ConformanceCase {
        name: "count",
        rules: &[4, 10],
        plays: "the requests and the answers of all operations of `/v1/count`, with and without a block",
        play: count,
    },
];

fn check_requests(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = stage.serve(|_, _| admit())?;
    let costs = [json!({}), json!({"cost": 1}), json!({"cost": 7}), json!({"cost": 0})];
    for cost in &costs {
        stage.expect_answer(&with(check(), cost.clone()), &admitted())?;
    }
    stage.expect_answer(&json!({"do": "check", "name": "log in", "attributes": {}}), &admitted())?;
    let attributes = json!({"action": "search", "user": "alice"});
    let bodies = [
        json!({"attributes": attributes}),
        json!({"attributes": attributes}),
        json!({"attributes": attributes, "cost": 7}),
        json!({"attributes": attributes, "cost": 0}),
        json!({"attributes": {"action": "log in"}}),
    ];
    expect_bodies(&server, "/v1/check", &bodies)?;
    peek_requests(stage)
}

fn peek_requests(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = stage.serve(|_, _| admit())?;
    let peek = with(check(), json!({"do": "peek"}));
    stage.expect_answer(&peek, &admitted())?;
    stage.expect_answer(&with(peek, json!({"cost": 3})), &admitted())?;
    let attributes = json!({"action": "search", "user": "alice"});
    let bodies = [json!({"attributes": attributes}), json!({"attributes": attributes, "cost": 3})];
    expect_bodies(&server, "/v1/peek", &bodies)
}

fn token(stage: &mut Stage<'_>) -> CaseOutcome {
    let token = "tg_0123-abc.DEF_~+/=";
    let server = ScriptedServer::on_tcp(Some(token), |_, _| admit())?;
    stage.start(&server, json!({"token": token}))?;
    stage.expect_answer(&check(), &admitted())?;
    stage.expect_answer(&with(check(), json!({"do": "peek"})), &admitted())?;
    expect_arrivals(&server, 2).map(drop)
}

fn attributes(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = stage.serve(|_, _| admit())?;
    let all = [
        json!({"user": "alice", "is_admin": true, "is_guest": false, "groups": ["a", "b"]}),
        json!({"user": "", "groups": [""]}),
        json!({"user": "\u{0}\u{1}\t\n\r\u{1f}\u{7f}\u{2028}\u{2029}\"\\/"}),
        json!({"user": "ä日本🦀\u{301}\u{202e}\u{feff}", "groups": ["🦀", "\u{10ffff}"]}),
        json!({"user name": "a", "Größe": "b", "a.b": "c", "name": "d", "cost": "e", "self": "f", "key": "g"}),
        json!({"user": "x".repeat(1_024), "groups": ["ä".repeat(512)]}),
    ];
    for attributes in &all {
        let call = with(check(), json!({"attributes": attributes}));
        stage.expect_answer(&call, &admitted())?;
    }
    let bodies: Vec<Value> = all
        .into_iter()
        .map(|attributes| json!({"attributes": with(attributes, json!({"action": "search"}))}))
        .collect();
    expect_bodies(&server, "/v1/check", &bodies)
}

fn wrong_attributes(stage: &mut Stage<'_>) -> CaseOutcome {
    let many: serde_json::Map<_, _> = (0..64).map(|index| (format!("a{index}"), json!("x"))).collect();
    let fewer: serde_json::Map<_, _> = many.clone().into_iter().take(63).collect();
    let wrong = [
        json!({"user": 1}),
        json!({"user": 1.5}),
        json!({"user": null}),
        json!({"user": {"id": "a"}}),
        json!({"groups": ["a", 1]}),
        json!({"groups": ["a", null]}),
        json!({"groups": [["a"]]}),
        json!({"groups": [true]}),
        json!({"user": "x".repeat(1_025)}),
        json!({"groups": ["a", "ä".repeat(513)]}),
        json!({"action": "search"}),
        json!({"action": "other", "user": "alice"}),
        json!({"": "a"}),
        json!({"ä".repeat(129): "a"}),
        json!({"groups": vec!["a"; 65]}),
        json!({"groups": vec!["x".repeat(1_000); 33], "teams": vec!["x".repeat(1_000); 33]}),
        Value::Object(many),
    ];
    let server = stage.serve(|_, _| admit())?;
    for attributes in wrong {
        for operation in ["check", "peek", "reserve", "wait"] {
            let call = json!({"do": operation, "name": "search", "attributes": attributes});
            let call = if operation == "wait" { with(call, json!({"timeout_ms": 1_000})) } else { call };
            let answer = stage.ask(&call)?;
            let is_error = answer["error"].as_str().is_some_and(|error| !error.is_empty());
            expect(is_error, || format!("{call} answered {answer}, expected an error"))?;
        }
    }
    let others = [
        json!({"do": "check", "name": "", "attributes": {}}),
        json!({"do": "check", "name": "x".repeat(1_025), "attributes": {}}),
        json!({"do": "count", "policy": "limits", "attributes": {}, "quotas": ["5/1m"]}),
    ];
    for call in others {
        let answer = stage.ask(&call)?;
        let is_error = answer["error"].as_str().is_some_and(|error| !error.is_empty());
        expect(is_error, || format!("{call} answered {answer}, expected an error"))?;
    }
    expect_arrivals(&server, 0)?;
    for attributes in [json!({"ä".repeat(128): "a"}), json!({"groups": vec!["a"; 64]}), Value::Object(fewer)]
    {
        stage.expect_answer(&with(check(), json!({"attributes": attributes})), &admitted())?;
    }
    expect_arrivals(&server, 3)?;
    // An error of the caller is no failure of the service.
    stage.expect_failures(&json!({}))
}

fn trace_context(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = stage.serve(|_, _| admit())?;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let state = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE";
    stage.expect_answer(&with(check(), json!({"traceparent": parent, "tracestate": state})), &admitted())?;
    stage.expect_answer(&with(check(), json!({"traceparent": parent})), &admitted())?;
    stage.expect_answer(&check(), &admitted())?;
    let arrivals = expect_arrivals(&server, 3)?;
    let expected = [[vec![parent], vec![state]], [vec![parent], vec![]], [vec![], vec![]]];
    for (arrival, expected) in arrivals.iter().zip(&expected) {
        let seen = ["traceparent", "tracestate"].map(|name| arrival.request.header(name));
        expect(seen == *expected, || format!("the headers were {seen:?}, expected {expected:?}"))?;
    }
    Ok(())
}

fn count(stage: &mut Stage<'_>) -> CaseOutcome {
    let window = json!({"start": 1_795_824_000_000_u64, "end": 1_795_824_060_000_u64});
    let under_limit = json!({
        "allowed": false, "policy": "limits:caller", "quota": "5/1m", "limit": 5, "used": 9, "remaining": 0,
        "reset_after_ms": 30_000, "retry_after_ms": 30_000, "window": window, "source": "store", "other": 1,
    });
    let bare = json!({
        "policy": "limits:caller", "series": "1m@first_hit", "used": 9, "reset_after_ms": 30_000,
        "window": window, "source": "store",
    });
    let blocked = with(under_limit.clone(), json!({"blocked": true, "block_after_ms": 29_999}));
    let free = with(under_limit.clone(), json!({"blocked": false, "allowed": null, "retry_after_ms": null}));
    let shown = [&under_limit, &bare, &blocked, &free].map(Value::clone);
    let place = |call: &Value| match (call["block"].is_null(), call["quotas"].is_null()) {
        (false, _) => 2 + usize::from(call["operation"] == "reset"),
        (true, is_bare) => usize::from(is_bare),
    };
    let server =
        stage.serve(move |request, _| HttpAnswer::json(200, &shown[place(&request.body)]).reply())?;
    let call = json!({"policy": "limits", "attributes": {"key": "k"}});
    let quotas = with(call.clone(), json!({"quotas": ["5/1m"]}));
    let open = with(call, json!({"window": "1m@first_hit"}));
    // What the client is told, and the body that it sends.
    let calls = [
        (quotas.clone(), quotas.clone()),
        (
            with(quotas.clone(), json!({"operation": "add", "cost": 1, "on_store_failure": "open"})),
            quotas.clone(),
        ),
        (with(quotas.clone(), json!({"cost": 4, "on_store_failure": "closed"})), Value::Null),
        (with(quotas.clone(), json!({"operation": "get"})), Value::Null),
        (with(quotas.clone(), json!({"block": "30s"})), Value::Null),
        (with(quotas.clone(), json!({"block": "30s", "operation": "get", "cost": 2})), Value::Null),
        (with(quotas, json!({"block": "30s", "operation": "reset"})), Value::Null),
        (open.clone(), Value::Null),
        (with(open.clone(), json!({"operation": "subtract", "cost": 2})), Value::Null),
        (with(open.clone(), json!({"operation": "set", "used": 0})), Value::Null),
        (with(open, json!({"operation": "reset"})), Value::Null),
    ];
    let mut bodies = Vec::new();
    for (told, body) in calls {
        let answer = stage.ask(&with(told.clone(), json!({"do": "count"})))?;
        let expected = [&under_limit, &bare, &blocked, &free][place(&told)];
        let block_fields: &[&str] =
            if told["block"].is_null() { &[] } else { &["blocked", "block_after_ms"] };
        for name in
            ["allowed", "limit", "used", "remaining", "reset_after_ms", "retry_after_ms", "window", "source"]
                .iter()
                .chain(block_fields)
        {
            let (seen, wanted) = (&answer[*name], &expected[*name]);
            expect(seen == wanted, || format!("{told}: `{name}` is {seen}, expected {wanted}, in {answer}"))?;
        }
        bodies.push(if body.is_null() { told } else { body });
    }
    expect_bodies(&server, "/v1/count", &bodies)
}
