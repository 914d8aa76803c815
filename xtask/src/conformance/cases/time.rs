//! Timeouts and repetition: rules 13 to 15.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use super::ConformanceCase;
use crate::conformance::difference::{CaseOutcome, Difference, expect};
use crate::conformance::reply::{HttpAnswer, ScriptedReply};
use crate::conformance::server::ScriptedServer;
use crate::conformance::stage::{
    Stage, admit, admitted, admitted_body, check, expect_arrivals, expect_fields, expect_in_time, problem,
    with, without_answer,
};

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase {
        name: "silence",
        rules: &[13],
        plays: "a call without an answer ends at its timeout, which is 250 ms by default",
        play: silence,
    },
    ConformanceCase {
        name: "trickle",
        rules: &[13],
        plays: "an answer that comes byte by byte ends the call at its timeout",
        play: trickle,
    },
    ConformanceCase {
        name: "no-listener",
        rules: &[11, 13],
        plays: "a port at which nothing listens is a failure of the kind `connection`",
        play: no_listener,
    },
    ConformanceCase {
        name: "read-and-close",
        rules: &[14],
        plays: "a server reads a request and closes the connection: the request arrives once, also a count",
        play: read_and_close,
    },
    ConformanceCase {
        name: "read-and-close-kept-alive",
        rules: &[14],
        plays: "the same on a connection that has had answers before",
        play: read_and_close_kept_alive,
    },
    ConformanceCase {
        name: "idle-connection",
        rules: &[3, 14],
        plays: "a server closes an idle connection: the next check is admitted over a new one, and arrives once",
        play: idle_connection,
    },
    ConformanceCase {
        name: "repeated-reservation",
        rules: &[14, 15],
        plays: "a reservation whose connection breaks is repeated at most twice, with the id of the first call",
        play: repeated_reservation,
    },
    ConformanceCase {
        name: "repeated-settlement",
        rules: &[14],
        plays: "renewing and settling are repeated as well, but not after an answer or a timeout",
        play: repeated_settlement,
    },
];

fn silence(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = ScriptedServer::on_tcp(None, |_, _| ScriptedReply::Silence)?;
    for (timeout_ms, timeout) in [(Value::Null, 250), (json!(80), 80)] {
        stage.start(&server, json!({"timeout_ms": timeout_ms}))?;
        let timeout = Duration::from_millis(timeout);
        let (answer, took) = stage.ask_timed(&check())?;
        expect_fields(&answer, &without_answer(true, "timeout"))?;
        // Timers of some languages end within the last millisecond.
        let gave_up = took + Duration::from_millis(5) < timeout;
        expect(!gave_up, || format!("the call gave up after {} ms", took.as_millis()))?;
        expect_in_time(took, timeout)?;
        stage.expect_failures(&json!({"timeout": 1}))?;
    }
    expect_arrivals_in_time(&server, 2)
}

fn trickle(stage: &mut Stage<'_>) -> CaseOutcome {
    let answer = HttpAnswer::json(200, &admitted_body());
    let server = ScriptedServer::on_tcp(None, move |_, _| {
        ScriptedReply::Trickle(answer.clone(), Duration::from_millis(20))
    })?;
    stage.start(&server, json!({"timeout_ms": 300}))?;
    let (answer, took) = stage.ask_timed(&check())?;
    expect_fields(&answer, &without_answer(true, "timeout"))?;
    expect_in_time(took, Duration::from_millis(300))?;
    expect_arrivals_in_time(&server, 1)
}

fn no_listener(stage: &mut Stage<'_>) -> CaseOutcome {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on 127.0.0.1")?;
    let address = listener.local_addr().context("a listener has no address")?;
    drop(listener);
    let socket = format!("unix:{}", stage.socket().display());
    for url in [format!("http://{address}"), socket] {
        let answer = stage.ask(&json!({"do": "start", "url": url, "timeout_ms": 1_000}))?;
        expect(answer == json!({}), || format!("`start` answered {answer}"))?;
        let (answer, took) = stage.ask_timed(&check())?;
        expect_fields(&answer, &without_answer(true, "connection"))?;
        expect_in_time(took, Duration::from_secs(1))?;
        stage.expect_failures(&json!({"connection": 1}))?;
    }
    Ok(())
}

fn read_and_close(stage: &mut Stage<'_>) -> CaseOutcome {
    let peek = with(check(), json!({"do": "peek"}));
    let count = json!({"do": "count", "policy": "limits", "attributes": {"key": "k"}, "quotas": ["5/1m"]});
    for call in [check(), peek, count] {
        let server = stage.serve(|_, _| ScriptedReply::Close)?;
        let answer = stage.ask(&call)?;
        let kind = &answer["failure"];
        expect(kind == "connection", || format!("{call}: the failure is {kind}"))?;
        expect(answer["used"].is_null(), || format!("{call}: there are figures: {answer}"))?;
        expect_arrivals(&server, 1).map_err(|difference| difference.within(&call.to_string()))?;
        stage.expect_failures(&json!({"connection": 1}))?;
    }
    Ok(())
}

fn read_and_close_kept_alive(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = stage.serve(|_, index| match index {
        2 | 5 => ScriptedReply::Close,
        _ => admit(),
    })?;
    for index in 0..7 {
        let expected = if index == 2 || index == 5 { without_answer(true, "connection") } else { admitted() };
        let call = format!("check {}", index + 1);
        stage.expect_answer(&check(), &expected).map_err(|difference| difference.within(&call))?;
    }
    expect_arrivals(&server, 7).map(drop)
}

fn idle_connection(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = stage.serve(|_, _| HttpAnswer::json(200, &admitted_body()).then_close().reply())?;
    for _ in 0..5 {
        expect_admitted(&stage.ask(&check())?)?;
        thread::sleep(END_OF_CONNECTION);
    }
    expect_arrivals(&server, 5)?;
    stage.expect_failures(&json!({}))?;
    // Many idle connections, all of which the server closes.
    let delay = Duration::from_millis(20);
    let server = stage.serve(move |_, _| HttpAnswer::json(200, &admitted_body()).after(delay).reply())?;
    let parallel = json!({"do": "parallel", "calls": vec![check(); 20]});
    for _ in 0..3 {
        let answer = stage.ask(&parallel)?;
        let answers = answer["answers"].as_array().filter(|answers| answers.len() == 20);
        let answers = answers.ok_or_else(|| Difference::wrong(format!("`parallel` answered {answer}")))?;
        answers.iter().try_for_each(expect_admitted)?;
        server.disconnect();
        thread::sleep(END_OF_CONNECTION);
    }
    expect_arrivals(&server, 60).map(drop)
}

/// How long the end of a connection has to arrive at the client.
const END_OF_CONNECTION: Duration = Duration::from_millis(30);

/// Expects an admission over a connection that is open. A library that reads in a thread of its own may learn late that
/// a connection was closed, if the machine is busy.
fn expect_admitted(answer: &Value) -> CaseOutcome {
    if answer["failure"] == "connection" {
        return Err(Difference::late("a closed connection was used again: the failure is `connection`"));
    }
    expect_fields(answer, &admitted())
}

/// Expects so many requests of calls with a short timeout, which a busy machine may not even send.
fn expect_arrivals_in_time(server: &ScriptedServer, count: usize) -> CaseOutcome {
    let arrived = server.arrivals()?.len();
    if arrived < count {
        return Err(Difference::late(format!("{arrived} requests arrived, expected {count}")));
    }
    expect_arrivals(server, count).map(drop)
}

/// A reservation, as the client is told it.
fn reserve() -> Value {
    with(check(), json!({"do": "reserve", "cost": 10}))
}

fn reserved_body() -> Value {
    with(admitted_body(), json!({"hold": "sealed", "id": "any", "expires_after_ms": 60_000}))
}

fn repeated_reservation(stage: &mut Stage<'_>) -> CaseOutcome {
    for breaks in 0..=3 {
        let server = stage.serve(move |_, index| match index {
            index if index < breaks => ScriptedReply::Close,
            _ => HttpAnswer::json(200, &reserved_body()).reply(),
        })?;
        let part = format!("after {breaks} broken connections");
        let expected = if breaks < 3 { admitted() } else { without_answer(true, "connection") };
        stage.expect_answer(&reserve(), &expected).map_err(|difference| difference.within(&part))?;
        let arrivals =
            expect_arrivals(&server, (breaks + 1).min(3)).map_err(|difference| difference.within(&part))?;
        let bodies: Vec<&Value> = arrivals.iter().map(|arrival| &arrival.request.body).collect();
        expect(bodies.windows(2).all(|pair| pair[0] == pair[1]), || {
            format!("{part}: the bodies differ: {bodies:?}")
        })?;
        let connections = server.connections();
        expect(connections == arrivals.len(), || {
            format!("{part}: {} requests came over {connections} connections", arrivals.len())
        })?;
    }
    // An answer and a timeout end a call.
    let server = ScriptedServer::on_tcp(None, |_, _| ScriptedReply::Silence)?;
    stage.start(&server, json!({"timeout_ms": 100}))?;
    stage.expect_answer(&reserve(), &without_answer(true, "timeout"))?;
    expect_arrivals_in_time(&server, 1)
}

fn repeated_settlement(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = stage.serve(|request, index| match (request.path.as_str(), index) {
        ("/v1/reserve", _) => HttpAnswer::json(200, &reserved_body()).reply(),
        ("/v1/renew", 1 | 2) | ("/v1/settle", 4) => ScriptedReply::Close,
        ("/v1/renew", _) => {
            HttpAnswer::json(200, &json!({"status": "renewed", "expires_after_ms": 60_000})).reply()
        }
        _ => HttpAnswer::json(200, &json!({"status": "settled", "quotas": []})).reply(),
    })?;
    stage.expect_answer(&reserve(), &admitted())?;
    for (call, status) in
        [(json!({"do": "renew"}), "renewed"), (json!({"do": "settle", "cost": 4}), "settled")]
    {
        let answer = stage.ask(&call)?;
        expect(answer["status"] == status && answer["failure"].is_null(), || {
            format!("{call} answered {answer}, expected {status}")
        })?;
    }
    let arrivals = expect_arrivals(&server, 6)?;
    let [_, renewals @ .., settlement, again] = &arrivals[..] else { return Ok(()) };
    let renew = json!({"hold": "sealed"});
    expect(renewals.iter().all(|arrival| arrival.request.body == renew), || {
        format!("a renewal has another body than {renew}")
    })?;
    let settle = json!({"hold": "sealed", "cost": 4});
    expect([settlement, again].iter().all(|arrival| arrival.request.body == settle), || {
        format!("a settlement has another body than {settle}: {}", again.request.body)
    })?;
    for call in [json!({"do": "renew"}), json!({"do": "settle", "cost": 4}), json!({"do": "release"})] {
        expect_once(stage, &call, problem(503, "away"), "unavailable")?;
        expect_once(stage, &call, ScriptedReply::Silence, "timeout")?;
    }
    Ok(())
}

/// Expects that a call about a hold arrives once if this is the reply to it, and is a failure of this kind.
fn expect_once(stage: &mut Stage<'_>, call: &Value, reply: ScriptedReply, kind: &str) -> CaseOutcome {
    let server = ScriptedServer::on_tcp(None, move |request, _| match request.path.as_str() {
        "/v1/reserve" => HttpAnswer::json(200, &reserved_body()).reply(),
        _ => reply.clone(),
    })?;
    stage.start(&server, json!({"timeout_ms": 300}))?;
    let reserved = stage.ask(&reserve())?;
    if reserved["failure"] == "timeout" {
        return Err(Difference::late("a reservation had no answer within 300 ms"));
    }
    expect_fields(&reserved, &admitted())?;
    let answer = stage.ask(call)?;
    expect(answer["failure"] == kind, || format!("{call} answered {answer}, expected the failure `{kind}`"))?;
    expect_arrivals_in_time(&server, 2).map_err(|difference| difference.within(&format!("{call}, {kind}")))
}
