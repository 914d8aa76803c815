//! Addresses, proxies and connections: rules 1 to 3.

use std::net::TcpListener;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use super::ConformanceCase;
use crate::conformance::difference::{CaseOutcome, Difference, expect};
use crate::conformance::driver::ClientDriver;
use crate::conformance::reply::{HttpAnswer, ScriptedReply};
use crate::conformance::server::ScriptedServer;
use crate::conformance::stage::{
    SLACK, Stage, admit, admitted, admitted_body, check, expect_arrivals, expect_fields, with, without_answer,
};

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase {
        name: "settings",
        rules: &[1],
        plays: "addresses, tokens and timeouts that are wrong are refused when the client is made; others are not",
        play: settings,
    },
    ConformanceCase {
        name: "environment",
        rules: &[1],
        plays: "without an address and a token, those of `TOLLGATE_URL` and `TOLLGATE_TOKEN` are used",
        play: environment,
    },
    ConformanceCase {
        name: "unix-socket",
        rules: &[1],
        plays: "a check over `unix:/path`",
        play: unix_socket,
    },
    ConformanceCase {
        name: "proxies",
        rules: &[2],
        plays: "a proxy in the environment sees no connection",
        play: proxies,
    },
    ConformanceCase {
        name: "redirect",
        rules: &[2, 11],
        plays: "a redirect is not followed: it is a failure of the kind `refused`",
        play: redirect,
    },
    ConformanceCase {
        name: "keep-alive",
        rules: &[3],
        plays: "100 checks one after another use at most two connections",
        play: keep_alive,
    },
    ConformanceCase {
        name: "many-calls",
        rules: &[3],
        plays: "200 calls at once are all answered, over at most 64 connections",
        play: many_calls,
    },
    ConformanceCase {
        name: "full-pool",
        rules: &[3, 13],
        plays: "100 calls at once to a server that is silent all end within their timeout",
        play: full_pool,
    },
];

fn settings(stage: &mut Stage<'_>) -> CaseOutcome {
    let wrong = [
        json!({"url": "127.0.0.1:8080"}),
        json!({"url": "ftp://127.0.0.1:8080"}),
        json!({"url": "http://"}),
        json!({"url": "http://:8080"}),
        json!({"url": "http://alice@127.0.0.1:8080"}),
        json!({"url": "http://alice:secret@127.0.0.1:8080"}),
        json!({"url": "http://127.0.0.1:8080/v1"}),
        json!({"url": "http://127.0.0.1:8080?a=b"}),
        json!({"url": "http://127.0.0.1:8080/#a"}),
        json!({"url": "http://127.0.0.1:0"}),
        json!({"url": "http://127.0.0.1:65536"}),
        json!({"url": "http://127.0.0.1:http"}),
        json!({"url": "http://127.0.0.1 :8080"}),
        json!({"url": "unix:"}),
        json!({"url": "unix:tollgate.sock"}),
        json!({"url": "unix:/"}),
        json!({"url": "unix:/a?b#c"}),
        json!({"url": "http://a..b_-:1"}),
        json!({"token": "a\nb"}),
        json!({"token": "a\r\nX-Other: b"}),
        json!({"token": "a\u{0}b"}),
        json!({"token": "ä"}),
        json!({"timeout_ms": 0}),
        json!({"timeout_ms": -1}),
        json!({"timeout_ms": 60_001}),
    ];
    let line = |fields: &Value| with(json!({"do": "start", "url": "http://127.0.0.1:8080"}), fields.clone());
    for fields in wrong {
        let answer = stage.ask(&line(&fields))?;
        let is_error = answer["error"].as_str().is_some_and(|error| !error.is_empty());
        expect(is_error, || format!("`start` with {fields} answered {answer}, expected an error"))?;
        expect(!answer.to_string().contains("secret"), || format!("an error has a password: {answer}"))?;
    }
    let right = [
        json!({"url": "http://localhost:1"}),
        json!({"url": "http://127.0.0.1:65535/"}),
        json!({"url": "https://tollgate.example:8443"}),
        json!({"url": "http://[::1]:8080"}),
        json!({"url": "unix:/run/tollgate/tollgate.sock"}),
        json!({"token": "tg_ABC-def.ghi_jkl~+/="}),
        json!({"timeout_ms": 1}),
        json!({"timeout_ms": 60_000}),
    ];
    for fields in right {
        let answer = stage.ask(&line(&fields))?;
        expect(answer == json!({}), || format!("`start` with {fields} answered {answer}, expected {{}}"))?;
    }
    Ok(())
}

fn environment(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = ScriptedServer::on_tcp(Some("tg_from-environment"), |_, _| admit())?;
    stage.judge(&server);
    let command = stage.command.clone().environment("TOLLGATE_URL", server.url());
    let mut driver = ClientDriver::start(&command.environment("TOLLGATE_TOKEN", "tg_from-environment"))?;
    let answer = driver.ask(&json!({"do": "start", "timeout_ms": 5_000}))?;
    expect(answer == json!({}), || format!("`start` without an address answered {answer}"))?;
    expect_fields(&driver.ask(&check())?, &admitted())?;
    expect_arrivals(&server, 1).map(drop)
}

fn unix_socket(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = ScriptedServer::on_unix(&stage.socket(), |_, _| admit())?;
    stage.start(&server, json!({}))?;
    stage.expect_answer(&check(), &admitted())?;
    stage.expect_answer(&check(), &admitted())?;
    expect_arrivals(&server, 2)?;
    expect(server.connections() == 1, || format!("there were {} connections", server.connections()))
}

fn proxies(stage: &mut Stage<'_>) -> CaseOutcome {
    let proxy = TcpListener::bind("127.0.0.1:0").context("cannot listen on 127.0.0.1")?;
    proxy.set_nonblocking(true).context("cannot poll a listener")?;
    let url = format!("http://{}", proxy.local_addr().context("a listener has no address")?);
    // Libraries use no proxy for 127.0.0.1, but this address, which leads to the same place, is no loopback to them.
    let server = ScriptedServer::on_tcp_as("0.0.0.0", None, |_, _| admit())?;
    stage.judge(&server);
    let mut driver = ClientDriver::start_behind(stage.command, &url)?;
    driver.ask(&json!({"do": "start", "url": server.url(), "timeout_ms": 5_000}))?;
    let answer = driver.ask(&check())?;
    expect(proxy.accept().is_err(), || "the proxy of the environment was used".to_owned())?;
    expect_fields(&answer, &admitted())?;
    expect_arrivals(&server, 1).map(drop)
}

fn redirect(stage: &mut Stage<'_>) -> CaseOutcome {
    for status in [301, 302, 303, 307, 308] {
        let server = stage.serve(move |_, index| match index {
            0 => HttpAnswer::text(status, "text/plain", "").header("Location", "/v1/peek").reply(),
            _ => admit(),
        })?;
        stage.expect_answer(&check(), &without_answer(true, "refused"))?;
        expect_arrivals(&server, 1).map_err(|difference| difference.within(&status.to_string()))?;
    }
    stage.expect_failures(&json!({"refused": 1}))
}

fn keep_alive(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = stage.serve(|_, index| match index % 2 {
        0 => admit(),
        _ => HttpAnswer::json(200, &admitted_body()).in_chunks().reply(),
    })?;
    for _ in 0..100 {
        stage.expect_answer(&check(), &admitted())?;
    }
    expect_arrivals(&server, 100)?;
    expect(server.connections() <= 2, || format!("there were {} connections", server.connections()))
}

fn many_calls(stage: &mut Stage<'_>) -> CaseOutcome {
    // Long enough for many calls to begin before the first one ends.
    let delay = Duration::from_millis(150);
    let server = stage.serve(move |_, _| HttpAnswer::json(200, &admitted_body()).after(delay).reply())?;
    let calls = vec![check(); 200];
    let answer = stage.ask(&json!({"do": "parallel", "calls": calls}))?;
    for answer in expect_answers(&answer, 200)? {
        expect_fields(answer, &admitted())?;
    }
    expect_arrivals(&server, 200)?;
    let most = server.most_open();
    expect((8..=64).contains(&most), || format!("{most} connections were open at once"))
}

fn full_pool(stage: &mut Stage<'_>) -> CaseOutcome {
    let calls = json!({"do": "parallel", "calls": vec![check(); 100]});
    // What a hundred calls take if nothing waits, on a machine that may be busy.
    let server = stage.serve(|_, _| admit())?;
    let (_, least) = stage.ask_timed(&calls)?;
    drop(server);
    let server = ScriptedServer::on_tcp(None, |_, _| ScriptedReply::Silence)?;
    let timeout = Duration::from_millis(300);
    stage.start(&server, json!({"timeout_ms": 300}))?;
    let (answer, took) = stage.ask_timed(&calls)?;
    for answer in expect_answers(&answer, 100)? {
        expect_fields(answer, &without_answer(true, "timeout"))?;
    }
    stage.expect_failures(&json!({"timeout": 100}))?;
    // A call that waited for another's timeout, and then for its own, would take two.
    if took > timeout + 2 * least + SLACK {
        let [took, least] = [took, least].map(|time| time.as_millis());
        return Err(Difference::late(format!(
            "the calls took {took} ms, of which {least} ms without waiting"
        )));
    }
    Ok(())
}

/// Returns the answers of calls at once.
fn expect_answers(answer: &Value, count: usize) -> CaseOutcome<&Vec<Value>> {
    let answers = answer["answers"].as_array().filter(|answers| answers.len() == count);
    answers.ok_or_else(|| Difference::wrong(format!("`parallel` did not answer {count} calls: {answer}")))
}
