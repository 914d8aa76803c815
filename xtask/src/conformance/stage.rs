//! What a case has: a client program, servers with scripts, and a judge of answers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::difference::{CaseOutcome, Difference, expect};
use super::driver::ClientDriver;
use super::reply::{HttpAnswer, ScriptedReply};
use super::request::SeenRequest;
use super::server::{Arrival, ScriptedServer, ServerRequests};
use crate::command::CommandLine;
use crate::stopwatch::Stopwatch;

/// How much later than its timeout a call may end, on a machine that is not busy.
pub(super) const SLACK: Duration = Duration::from_millis(150);

/// The timeout of clients in cases that are not about time.
const AMPLE_TIMEOUT_MS: u64 = 5_000;

/// The fields of a decision, and of the answer to a count, that are judged. Others are passed over.
const JUDGED_FIELDS: [&str; 14] = [
    "allowed",
    "status",
    "limit",
    "used",
    "remaining",
    "reset_after_ms",
    "retry_after_ms",
    "reason",
    "policy",
    "quota",
    "source",
    "failure",
    "lost",
    "error",
];

/// What a case has.
pub(super) struct Stage<'a> {
    pub(super) driver: &'a mut ClientDriver,
    pub(super) command: &'a CommandLine,
    /// A folder of this attempt.
    folder: &'a Path,
    /// Those of every server that a client was given.
    requests: Vec<ServerRequests>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(driver: &'a mut ClientDriver, command: &'a CommandLine, folder: &'a Path) -> Self {
        Self { driver, command, folder, requests: Vec::new() }
    }

    /// Fails if a request of the case broke a rule.
    pub(super) fn expect_right_requests(&self) -> CaseOutcome {
        self.requests.iter().try_for_each(ServerRequests::expect_right)
    }

    /// Judges the requests to this server at the end of the case. A case says so of a server that it gives to a client
    /// program of its own.
    pub(super) fn judge(&mut self, server: &ScriptedServer) {
        self.requests.push(server.requests());
    }

    /// Makes a client for the server, with an ample timeout unless `settings` have another or `null`.
    pub(super) fn start(&mut self, server: &ScriptedServer, settings: Value) -> CaseOutcome {
        self.judge(server);
        let mut line = object(json!({"do": "start", "url": server.url(), "timeout_ms": AMPLE_TIMEOUT_MS}));
        line.extend(object(settings));
        line.retain(|_, value| !value.is_null());
        let answer = self.ask(&line.into())?;
        expect(answer == json!({}), || format!("`start` answered {answer}"))
    }

    /// Starts a server with this script, and makes a client for it.
    pub(super) fn serve(
        &mut self,
        script: impl Fn(&SeenRequest, usize) -> ScriptedReply + Send + Sync + 'static,
    ) -> CaseOutcome<ScriptedServer> {
        let server = ScriptedServer::on_tcp(None, script)?;
        self.start(&server, json!({}))?;
        Ok(server)
    }

    /// Returns the client's answer.
    pub(super) fn ask(&mut self, line: &Value) -> CaseOutcome<Value> {
        self.driver.ask(line)
    }

    /// Returns the client's answer, and how long it took.
    pub(super) fn ask_timed(&mut self, line: &Value) -> CaseOutcome<(Value, Duration)> {
        let watch = Stopwatch::start();
        let answer = self.driver.ask(line)?;
        Ok((answer, watch.elapsed()))
    }

    /// Expects this answer to a call.
    pub(super) fn expect_answer(&mut self, line: &Value, expected: &Value) -> CaseOutcome {
        let answer = self.ask(line)?;
        expect_fields(&answer, expected).map_err(|difference| difference.within(&line.to_string()))
    }

    /// Expects these counts of failures.
    pub(super) fn expect_failures(&mut self, expected: &Value) -> CaseOutcome {
        let answer = self.ask(&json!({"do": "failures"}))?;
        let mut counts = object(answer.clone());
        counts.retain(|_, count| count.as_u64() != Some(0));
        expect(Value::from(counts) == *expected, || format!("the failures are {answer}, expected {expected}"))
    }

    /// Returns a path for a socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }
}

/// A check of `search` for alice.
pub(super) fn check() -> Value {
    json!({"do": "check", "name": "search", "attributes": {"user": "alice"}})
}

/// Returns a call with other or more fields.
pub(super) fn with(call: Value, fields: Value) -> Value {
    let mut call = object(call);
    call.extend(object(fields));
    call.into()
}

/// The body of the service for an admitted check. No client knows the last field.
pub(super) fn admitted_body() -> Value {
    json!({
        "allowed": true, "policy": "users", "quota": "5/1m", "limit": 5, "used": 1, "remaining": 4,
        "reset_after_ms": 30_000, "window": {"start": 1_795_824_000_000_u64, "end": 1_795_824_060_000_u64},
        "source": "store", "version": 1, "unknown_to_clients": {"a": [1]},
    })
}

/// The body of the service for a denied check.
pub(super) fn denied_body() -> Value {
    with(
        admitted_body(),
        json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Quota exceeded",
            "detail": "5/1m has 0 of 5 left", "violated-policies": ["users"], "status": 429, "allowed": false,
            "used": 5, "remaining": 0, "retry_after_ms": 30_000, "reason": "quota_exceeded",
        }),
    )
}

/// The decision that a client makes of [`admitted_body`].
pub(super) fn admitted() -> Value {
    json!({
        "allowed": true, "status": 200, "policy": "users", "quota": "5/1m", "limit": 5, "used": 1,
        "remaining": 4, "reset_after_ms": 30_000, "source": "store",
    })
}

/// The decision that a client makes of [`denied_body`].
pub(super) fn denied() -> Value {
    let denied = json!({
        "allowed": false, "status": 429, "used": 5, "remaining": 0, "retry_after_ms": 30_000,
        "reason": "quota_exceeded",
    });
    with(admitted(), denied)
}

/// The decision that a client makes by itself.
pub(super) fn without_answer(allowed: bool, failure: &str) -> Value {
    json!({"allowed": allowed, "source": "client", "failure": failure})
}

/// An answer of the service that admits.
pub(super) fn admit() -> ScriptedReply {
    HttpAnswer::json(200, &admitted_body()).reply()
}

/// An answer of the service without a decision.
pub(super) fn problem(status: u16, detail: &str) -> ScriptedReply {
    let body = json!({"type": "about:blank", "title": "Any", "status": status, "detail": detail});
    HttpAnswer::json(status, &body).reply()
}

/// Compares the fields of an answer. A field that is `null` is absent, and a client's own answer may have a status.
pub(super) fn expect_fields(answer: &Value, expected: &Value) -> CaseOutcome {
    for name in JUDGED_FIELDS {
        let (seen, wanted) = (&answer[name], &expected[name]);
        let is_own_status = name == "status" && answer["source"] == "client";
        expect(seen == wanted || is_own_status, || {
            format!("`{name}` is {seen}, expected {wanted}, in {answer}")
        })?;
    }
    Ok(())
}

/// Expects that the call ended within its timeout, or soon after it.
pub(super) fn expect_in_time(took: Duration, timeout: Duration) -> CaseOutcome {
    if took <= timeout + SLACK {
        return Ok(());
    }
    let [took, timeout] = [took, timeout].map(|time| time.as_millis());
    Err(Difference::late(format!("the call took {took} ms with a timeout of {timeout} ms")))
}

/// Expects exactly so many requests, and returns them.
pub(super) fn expect_arrivals(server: &ScriptedServer, count: usize) -> CaseOutcome<Vec<Arrival>> {
    let arrivals = server.arrivals()?;
    let paths: Vec<_> = arrivals.iter().map(|arrival| arrival.request.path.as_str()).collect();
    expect(arrivals.len() == count, || {
        format!("{} requests arrived, expected {count}: {}", arrivals.len(), paths.join(" "))
    })?;
    Ok(arrivals)
}

/// Expects these bodies, in this order.
pub(super) fn expect_bodies(server: &ScriptedServer, path: &str, bodies: &[Value]) -> CaseOutcome {
    let arrivals = expect_arrivals(server, bodies.len())?;
    for (Arrival { request, .. }, body) in arrivals.iter().zip(bodies) {
        expect(request.path == path, || format!("a request went to {}, expected {path}", request.path))?;
        expect(request.body == *body, || format!("the body was {}, expected {body}", request.body))?;
    }
    Ok(())
}

/// Returns the fields of an object, or none.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
