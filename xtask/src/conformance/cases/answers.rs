//! What a client makes of answers: rules 8 to 12 and 23.

use serde_json::{Value, json};

use super::ConformanceCase;
use crate::conformance::difference::{CaseOutcome, expect};
use crate::conformance::reply::{HttpAnswer, ScriptedReply};
use crate::conformance::stage::{
    Stage, admit, admitted, admitted_body, check, denied, denied_body, expect_arrivals, expect_fields,
    problem, with, without_answer,
};

/// The most bytes that an answer may have.
const MAX_ANSWER: usize = 1 << 20;

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase {
        name: "denial",
        rules: &[8, 9],
        plays: "429 with a decision is a denial with its figures; without `retry_after_ms`, there is none",
        play: denial,
    },
    ConformanceCase {
        name: "denial-with-another-status",
        rules: &[8],
        plays: "a body with `allowed` is a decision under 200, 401, 403 and 503 as well",
        play: denial_with_another_status,
    },
    ConformanceCase {
        name: "figures",
        rules: &[8, 12],
        plays: "integers up to 2^40 - 1 are exact, absent fields stay absent, and unknown ones are passed over",
        play: figures,
    },
    ConformanceCase {
        name: "headers",
        rules: &[23],
        plays: "the limit headers of an answer are passed on, and no other header",
        play: headers,
    },
    ConformanceCase {
        name: "refused",
        rules: &[11],
        plays: "a problem with 400, 401, 402, 403, 404, 409, 413, 422, 429 or 451 is a failure of the kind `refused`",
        play: refused,
    },
    ConformanceCase {
        name: "unavailable",
        rules: &[11],
        plays: "500, 502 and 503 without a decision, also in HTML, are failures of the kind `unavailable`",
        play: unavailable,
    },
    ConformanceCase {
        name: "foreign-answer",
        rules: &[11, 13],
        plays: "status 200 with HTML, cut JSON, or JSON without a decision, and a switch of protocols, are failures of the kind `invalid`",
        play: foreign_answer,
    },
    ConformanceCase {
        name: "broken-answer",
        rules: &[11],
        plays: "an answer that ends early is a failure of the kind `connection`; a broken chunk, or bytes that are no HTTP, of that kind or `invalid`",
        play: broken_answer,
    },
    ConformanceCase {
        name: "huge-answer",
        rules: &[11],
        plays: "an answer of 2 MiB is a failure of the kind `invalid`; one of nearly 1 MiB is read",
        play: huge_answer,
    },
];

fn denial(stage: &mut Stage<'_>) -> CaseOutcome {
    let server = stage.serve(|_, index| {
        let mut body = denied_body();
        if index > 0 {
            body["reason"] = "cost_exceeds_limit".into();
            body.as_object_mut().and_then(|body| body.remove("retry_after_ms"));
        }
        HttpAnswer::json(429, &body).reply()
    })?;
    stage.expect_answer(&check(), &denied())?;
    let for_good = with(denied(), json!({"retry_after_ms": null, "reason": "cost_exceeds_limit"}));
    stage.expect_answer(&check(), &for_good)?;
    stage.expect_failures(&json!({}))?;
    expect_arrivals(&server, 2).map(drop)
}

fn denial_with_another_status(stage: &mut Stage<'_>) -> CaseOutcome {
    for status in [200, 401, 403, 503] {
        let server = stage.serve(move |_, _| HttpAnswer::json(status, &denied_body()).reply())?;
        stage.expect_answer(&check(), &with(denied(), json!({"status": status})))?;
        stage.expect_failures(&json!({}))?;
        expect_arrivals(&server, 1)?;
    }
    Ok(())
}

fn figures(stage: &mut Stage<'_>) -> CaseOutcome {
    let large = (1_u64 << 40) - 1;
    let bodies = [
        with(
            denied_body(),
            json!({
                "limit": large, "used": large, "remaining": 0, "reset_after_ms": large, "retry_after_ms": large,
            }),
        ),
        with(denied_body(), json!({"limit": 0, "used": 0, "reset_after_ms": 1, "retry_after_ms": 1})),
        json!({"allowed": true, "source": "fallback", "future": {"allowed": false}}),
        json!({"allowed": false, "reason": "a reason of the future", "source": "local"}),
    ];
    let mut expected = bodies.clone();
    let statuses = [429, 429, 200, 429];
    for (body, status) in expected.iter_mut().zip(statuses) {
        body["status"] = status.into();
    }
    let server = stage.serve(move |_, index| HttpAnswer::json(statuses[index], &bodies[index]).reply())?;
    expected.iter().try_for_each(|expected| stage.expect_answer(&check(), expected))?;
    expect_arrivals(&server, 4).map(drop)
}

fn headers(stage: &mut Stage<'_>) -> CaseOutcome {
    let limit_headers = [
        ("RateLimit", "\"5/1m\";r=4;t=30"),
        ("RateLimit-Policy", "\"5/1m\";q=5;w=60"),
        ("RateLimit-Limit", "5"),
        ("X-RateLimit-Limit", "5"),
        ("X-RateLimit-Remaining", "4"),
        ("X-RateLimit-Reset", "1795824060"),
        ("Retry-After", "30"),
    ];
    let others = [("X-Request-Id", "1"), ("Set-Cookie", "a=b"), ("Cache-Control", "no-store")];
    let server = stage.serve(move |_, index| {
        let status = [200, 429][index];
        let answer = HttpAnswer::json(status, &[admitted_body(), denied_body()][index]);
        let all = limit_headers.iter().chain(&others);
        all.fold(answer, |answer, (name, value)| answer.header(name, *value)).reply()
    })?;
    let mut expected = json!({});
    for (name, value) in limit_headers {
        expected[name.to_ascii_lowercase()] = value.into();
    }
    for figures in [admitted(), denied()] {
        let answer = stage.ask(&check())?;
        expect_fields(&answer, &figures)?;
        let seen = &answer["headers"];
        expect(*seen == expected, || format!("the headers are {seen}, expected {expected}"))?;
    }
    expect_arrivals(&server, 2).map(drop)
}

fn refused(stage: &mut Stage<'_>) -> CaseOutcome {
    let statuses = [400, 401, 402, 403, 404, 409, 413, 422, 429, 451];
    let mut replies = statuses.map(|status| problem(status, "it is wrong")).to_vec();
    // No denial, though it has what denials have: only a decision is one.
    let body = json!({
        "title": "Any", "status": 429, "detail": "wait", "reason": "too_many_names", "retry_after_ms": 3_000,
    });
    replies.push(HttpAnswer::json(429, &body).header("Retry-After", "3").reply());
    expect_failures(stage, &replies, &["refused"])
}

fn unavailable(stage: &mut Stage<'_>) -> CaseOutcome {
    let page = "<html><body>Bad Gateway</body></html>";
    let replies = [
        problem(500, "the store can never count this"),
        problem(503, "the store did not answer"),
        HttpAnswer::text(502, "text/html", page).reply(),
        HttpAnswer::text(503, "text/plain", "").reply(),
    ];
    expect_failures(stage, &replies, &["unavailable"])
}

fn foreign_answer(stage: &mut Stage<'_>) -> CaseOutcome {
    let whole = admitted_body().to_string();
    let texts = [
        "<html><body>Welcome</body></html>",
        "",
        "null",
        "true",
        "[{\"allowed\": true}]",
        "{\"allowed\": \"yes\"}",
        "{\"allowed\": 1}",
        "{\"status\": \"ok\"}",
        &whole[..whole.len() / 2],
    ];
    let replies = texts.map(|text| HttpAnswer::text(200, "application/json", text).reply());
    expect_failures(stage, &replies, &["invalid"])?;
    // The connection stays open: a client that waits for its end has a timeout.
    let switch =
        HttpAnswer::text(101, "text/plain", "").header("Connection", "Upgrade").header("Upgrade", "x");
    expect_failures(stage, &[switch.reply()], &["invalid"])
}

fn broken_answer(stage: &mut Stage<'_>) -> CaseOutcome {
    let whole = HttpAnswer::json(200, &admitted_body());
    let chunks = whole.clone().in_chunks().bytes();
    let whole = whole.bytes();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let cut =
        |bytes: &[u8], length: usize| ScriptedReply::Bytes(bytes.iter().take(length).copied().collect());
    let early = [cut(&whole, head.len() - 5), cut(&whole, whole.len() - 1), cut(&chunks, chunks.len() - 20)];
    expect_failures(stage, &early, &["connection"])?;
    let broken = [
        cut(&whole, 1),
        ScriptedReply::Bytes(b"220 mail.example ESMTP\r\n\r\n".to_vec()),
        ScriptedReply::Bytes(
            format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n").into(),
        ),
        ScriptedReply::Bytes(format!("{head}Content-Length: two\r\n\r\n{{}}").into()),
    ];
    expect_failures(stage, &broken, &["connection", "invalid"])
}

fn huge_answer(stage: &mut Stage<'_>) -> CaseOutcome {
    let body = |size: usize| with(admitted_body(), json!({"padding": "x".repeat(size)}));
    let huge = HttpAnswer::json(200, &body(2 * MAX_ANSWER));
    expect_failures(stage, &[huge.clone().reply(), huge.in_chunks().reply()], &["invalid"])?;
    let large = HttpAnswer::json(200, &body(MAX_ANSWER - 1_000));
    let server = stage.serve(move |_, _| large.clone().reply())?;
    stage.expect_answer(&check(), &admitted())?;
    expect_arrivals(&server, 1).map(drop)
}

/// Expects that a check with each of these replies arrives once, and is a failure of one of the kinds. A check after
/// it is admitted.
fn expect_failures(stage: &mut Stage<'_>, replies: &[ScriptedReply], kinds: &[&str]) -> CaseOutcome {
    let count = replies.len();
    let scripted = replies.to_vec();
    let server = stage.serve(move |_, index| match index % 2 {
        0 => scripted.get(index / 2).cloned().unwrap_or_else(admit),
        _ => admit(),
    })?;
    let mut seen = json!({});
    for (index, reply) in replies.iter().enumerate() {
        let answer = stage.ask(&check())?;
        let kind = answer["failure"].as_str().filter(|kind| kinds.contains(kind)).unwrap_or(kinds[0]);
        let place = || {
            let mut text = format!("{reply:?}");
            text.truncate((0..=200).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
            format!("reply {} ({text})", index + 1)
        };
        expect_fields(&answer, &without_answer(true, kind))
            .map_err(|difference| difference.within(&place()))?;
        seen[kind] = (seen[kind].as_u64().unwrap_or(0) + 1).into();
        stage
            .expect_answer(&check(), &admitted())
            .map_err(|difference| difference.within(&format!("the check after {}", place())))?;
    }
    expect_arrivals(&server, 2 * count)?;
    stage.expect_failures(&Value::clone(&seen))
}
