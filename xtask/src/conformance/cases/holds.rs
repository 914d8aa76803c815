//! Holds: rules 15 and 18 to 20.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::ConformanceCase;
use crate::conformance::difference::{CaseOutcome, Difference, expect};
use crate::conformance::reply::{HttpAnswer, ScriptedReply};
use crate::conformance::request::SeenRequest;
use crate::conformance::server::ScriptedServer;
use crate::conformance::stage::{
    SLACK, Stage, admitted, admitted_body, check, denied, denied_body, expect_arrivals, expect_fields,
    problem, with, without_answer,
};

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase {
        name: "reservation",
        rules: &[15, 19],
        plays: "the requests to reserve, renew, settle and release; each reservation has another id of 32 hexadecimal digits",
        play: reservation,
    },
    ConformanceCase {
        name: "failed-reservation",
        rules: &[16, 18],
        plays: "a reservation without an answer is `open`: settling sends nothing and says `gone`; with `closed` it is denied",
        play: failed_reservation,
    },
    ConformanceCase {
        name: "renewals",
        rules: &[19],
        plays: "a scope renews its hold whenever a third of its length has passed, and stops at its end",
        play: renewals,
    },
    ConformanceCase {
        name: "end-of-scope",
        rules: &[19],
        plays: "a hold is settled at the cost that the scope named, otherwise at its estimate, and released after an error if the caller says so; a settlement without an answer is repeated",
        play: end_of_scope,
    },
    ConformanceCase {
        name: "lost-hold",
        rules: &[20],
        plays: "`lost`, `expired` and `ended` end the renewing, and the hold is lost; after `gone` it is not",
        play: lost_hold,
    },
];

/// How long holds live here.
const LENGTH_MS: u64 = 600;

/// A call of `search` for alice with an estimate of 10.
fn call(operation: &str) -> Value {
    with(check(), json!({"do": operation, "cost": 10}))
}

fn hold_for(sleep_ms: u64) -> Value {
    with(call("hold"), json!({"expires_after_ms": LENGTH_MS, "sleep_ms": sleep_ms}))
}

/// Answers as the service does, with this status of renewals.
fn serve_holds(request: &SeenRequest, renewal: &str) -> ScriptedReply {
    let body = match request.path.as_str() {
        "/v1/reserve" => {
            with(admitted_body(), json!({"hold": "sealed", "id": "any", "expires_after_ms": LENGTH_MS}))
        }
        "/v1/renew" if renewal == "renewed" => json!({"status": "renewed", "expires_after_ms": LENGTH_MS}),
        "/v1/renew" => json!({"status": renewal}),
        _ => json!({"status": "settled", "quotas": [], "unknown_to_clients": 1}),
    };
    HttpAnswer::json(200, &body).reply()
}

fn reservation(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = stage.serve(|request, _| serve_holds(request, "renewed"))?;
    let plain = json!({"do": "reserve", "name": "search", "attributes": {"user": "alice"}});
    let full = with(plain.clone(), json!({"cost": 10, "units": 3, "expires_after_ms": 90_000}));
    let defaults = with(plain.clone(), json!({"cost": 1, "units": 1, "expires_after_ms": 60_000}));
    for (reserve, end, status) in [
        (plain, json!({"do": "settle", "cost": 1}), "settled"),
        (full, json!({"do": "release"}), "settled"),
        (defaults, json!({"do": "renew"}), "renewed"),
    ] {
        stage.expect_answer(&reserve, &admitted())?;
        let answer = stage.ask(&end)?;
        expect(answer["status"] == status, || format!("{end} answered {answer}, expected {status}"))?;
    }
    let arrivals = expect_arrivals(&server, 6)?;
    let mut ids = BTreeSet::new();
    let mut bodies = Vec::new();
    for arrival in arrivals {
        let mut body = arrival.request.body;
        if arrival.request.path == "/v1/reserve" {
            let id = body.as_object_mut().and_then(|body| body.remove("id")).unwrap_or_default();
            let id = id.as_str().unwrap_or_default().to_owned();
            let is_id = id.len() == 32
                && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
            expect(is_id, || format!("the id is `{id}`, not 32 lower-case hexadecimal digits"))?;
            expect(ids.insert(id), || "two reservations have the same id".to_owned())?;
        }
        // The default may be sent.
        if ["60s", "1m", "60000ms"].iter().any(|text| body["expires_after"] == *text) {
            body.as_object_mut().and_then(|body| body.remove("expires_after"));
        }
        bodies.push((arrival.request.path, body));
    }
    let attributes = json!({"action": "search", "user": "alice"});
    let length = &bodies[2].1["expires_after"];
    let is_length = ["90s", "90000ms", "1m30s"].iter().any(|text| length == text);
    expect(is_length, || format!("`expires_after` is {length}, expected 90s"))?;
    let full = json!({"attributes": attributes, "cost": 10, "units": 3, "expires_after": length});
    let expected = [
        ("/v1/reserve", json!({"attributes": attributes})),
        ("/v1/settle", json!({"hold": "sealed", "cost": 1})),
        ("/v1/reserve", full),
        ("/v1/settle", json!({"hold": "sealed", "cost": 0})),
        ("/v1/reserve", json!({"attributes": attributes})),
        ("/v1/renew", json!({"hold": "sealed"})),
    ];
    for ((path, body), (expected_path, expected)) in bodies.iter().zip(&expected) {
        expect(path == expected_path && body == expected, || {
            format!("the request was {path} {body}, expected {expected_path} {expected}")
        })?;
    }
    Ok(())
}

fn failed_reservation(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = ScriptedServer::on_tcp(None, |_, _| problem(503, "the store is away"))?;
    for end in [json!({"do": "settle", "cost": 3}), json!({"do": "release"}), json!({"do": "renew"})] {
        stage.start(&server, json!({}))?;
        stage.expect_answer(&call("reserve"), &without_answer(true, "unavailable"))?;
        let answer = stage.ask(&end)?;
        expect(answer["status"] == "gone" && answer["failure"].is_null(), || {
            format!("{end} after a failure answered {answer}, expected gone")
        })?;
    }
    stage
        .expect_answer(&hold_for(300), &with(without_answer(true, "unavailable"), json!({"lost": false})))?;
    stage.start(&server, json!({"closed": ["search"]}))?;
    stage.expect_answer(&call("reserve"), &without_answer(false, "unavailable"))?;
    stage.expect_answer(&hold_for(0), &with(without_answer(false, "unavailable"), json!({"lost": false})))?;
    expect_arrivals(&server, 6)?;
    // A denial has no hold either.
    let server = stage.serve(|_, _| HttpAnswer::json(429, &denied_body()).reply())?;
    stage.expect_answer(&hold_for(300), &with(denied(), json!({"lost": false})))?;
    expect_arrivals(&server, 1).map(drop)
}

fn renewals(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = stage.serve(|request, _| serve_holds(request, "renewed"))?;
    stage.expect_answer(&hold_for(2_000), &with(admitted(), json!({"lost": false})))?;
    stage.expect_answer(&hold_for(LENGTH_MS), &with(admitted(), json!({"lost": false})))?;
    // A client that goes on renewing would do so now.
    thread::sleep(Duration::from_millis(LENGTH_MS / 2));
    let arrivals = server.arrivals()?;
    let paths: Vec<&str> = arrivals.iter().map(|arrival| arrival.request.path.as_str()).collect();
    let renewed = expect_scopes(&paths)?;
    expect(renewed > 0, || "a hold of 600 ms was not renewed in 2 s".to_owned())?;
    let mut pauses: Vec<Duration> = (1..arrivals.len())
        .filter(|index| paths[*index] == "/v1/renew" && paths[index - 1] != "/v1/settle")
        .map(|index| arrivals[index].at.saturating_sub(arrivals[index - 1].at))
        .collect();
    pauses.sort();
    // A busy machine delays a few of them, and the next one is then early if the client follows a schedule.
    let (median, third) = (pauses[pauses.len() / 2], Duration::from_millis(LENGTH_MS / 3));
    if median.abs_diff(third) > SLACK / 2 {
        let [median, third] = [median, third].map(|time| time.as_millis());
        return Err(Difference::late(format!(
            "the middle one of the times between renewals is {median} ms, expected {third}"
        )));
    }
    Ok(())
}

/// Expects the requests of two scopes, and returns the number of renewals in the first.
fn expect_scopes(paths: &[&str]) -> CaseOutcome<usize> {
    let wrong = || Difference::wrong(format!("two scopes made the requests {}", paths.join(" ")));
    let [_, first, second] = paths.split(|path| *path == "/v1/reserve").collect::<Vec<_>>()[..] else {
        return Err(wrong());
    };
    for scope in [first, second] {
        let end = scope.iter().position(|path| *path == "/v1/settle").ok_or_else(wrong)?;
        // A renewal that began before the end may arrive after it, on another connection.
        let after = &scope[end + 1..];
        expect(after.is_empty() || after == ["/v1/renew"], || wrong().to_string())?;
    }
    Ok(first.iter().filter(|path| **path == "/v1/renew").count())
}

fn end_of_scope(stage: &mut Stage<'_>) -> CaseOutcome {
    let ends = [
        (json!({}), 10),
        (json!({"settle": 3}), 3),
        (json!({"settle": 0}), 0),
        (json!({"fail": true}), 10),
        (json!({"fail": true, "release_on_error": true}), 0),
        (json!({"release_on_error": true}), 10),
        (json!({"settle": 4, "fail": true, "release_on_error": true}), 4),
    ];
    for (fields, cost) in ends {
        let server = stage.serve(|request, _| serve_holds(request, "renewed"))?;
        let hold = with(hold_for(0), fields.clone());
        stage.expect_answer(&hold, &with(admitted(), json!({"lost": false})))?;
        let arrivals =
            expect_arrivals(&server, 2).map_err(|difference| difference.within(&fields.to_string()))?;
        let settle = json!({"hold": "sealed", "cost": cost});
        let body = &arrivals[1].request.body;
        expect(*body == settle, || format!("{fields}: the hold ended with {body}, expected {settle}"))?;
    }
    // The estimate of a reservation without a cost is 1.
    let server = stage.serve(|request, _| serve_holds(request, "renewed"))?;
    let hold = json!({"do": "hold", "name": "search", "attributes": {}, "sleep_ms": 0});
    stage.expect_answer(&hold, &with(admitted(), json!({"lost": false})))?;
    let arrivals = expect_arrivals(&server, 2)?;
    expect(arrivals[1].request.body["cost"] == 1, || {
        format!("a hold without a cost ended with {}", arrivals[1].request.body)
    })?;
    reservation_of_a_scope(stage)?;
    settle_again(stage)
}

/// A settlement without an answer is sent again at the end of the scope, at the same cost.
fn settle_again(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = stage.serve(|request, index| match index {
        1 => problem(503, "away"),
        _ => serve_holds(request, "renewed"),
    })?;
    stage
        .expect_answer(&with(hold_for(0), json!({"settle": 3})), &with(admitted(), json!({"lost": false})))?;
    let settle = json!({"hold": "sealed", "cost": 3});
    for arrival in &expect_arrivals(&server, 3)?[1..] {
        let body = &arrival.request.body;
        expect(*body == settle, || {
            format!("after a failure, the hold ended with {body}, expected {settle}")
        })?;
    }
    Ok(())
}

/// A scope reserves as a call does.
fn reservation_of_a_scope(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = stage.serve(|request, _| serve_holds(request, "renewed"))?;
    let answer = stage.ask(&with(hold_for(0), json!({"settle": 10})))?;
    expect_fields(&answer, &with(admitted(), json!({"lost": false})))?;
    let reserve = &expect_arrivals(&server, 2)?[0].request.body;
    let attributes = json!({"action": "search", "user": "alice"});
    let expected = json!({
        "attributes": attributes, "cost": 10, "expires_after": reserve["expires_after"], "id": reserve["id"],
    });
    expect(*reserve == expected, || format!("the reservation was {reserve}, expected {expected}"))
}

fn lost_hold(stage: &mut Stage<'_>) -> CaseOutcome {
    for (status, lost) in [("lost", true), ("expired", true), ("ended", true), ("gone", false)] {
        let server = stage.serve(move |request, _| serve_holds(request, status))?;
        let hold = hold_for(500);
        stage
            .expect_answer(&hold, &with(admitted(), json!({"lost": lost})))
            .map_err(|difference| difference.within(&format!("after `{status}`")))?;
        let arrivals = server.arrivals()?;
        let renewals = arrivals.iter().filter(|arrival| arrival.request.path == "/v1/renew").count();
        expect(renewals == 1, || format!("{renewals} renewals, of which the first said `{status}`"))?;
    }
    Ok(())
}
