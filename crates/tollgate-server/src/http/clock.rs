//! The clock of the counters, which tests of applications move.

use std::time::Duration;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate::Timestamp;

use super::{Edge, Reply, reply};
use crate::access::caller::Caller;
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;
use crate::net::body;
use crate::request::json::{self, AdvanceMillis};

/// Moves the clock forward.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClockRequest {
    /// By this many milliseconds.
    advance_ms: AdvanceMillis,
}

/// The clock of the counters.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ClockReply {
    /// The time that it shows now, in Unix milliseconds.
    now: i64,
}

/// The latest time that the clock can show: within the whole numbers that every JSON reader keeps exact.
const LATEST: Timestamp = Timestamp::from_unix_millis((1 << 53) - 1);

impl Edge {
    /// A caller that may use only some policies is refused, because the clock is that of all counters.
    pub(super) async fn advance_clock(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        caller.may_touch_all()?;
        let ClockRequest { advance_ms } = json::read(&body)?;
        let Some(clock) = &self.asking.test_clock else {
            return Err(Rejection::new(RejectionKind::NotFound, "this service has no clock for tests"));
        };
        let now = clock.advance_at_most(Duration::from_millis(advance_ms.value()), LATEST);
        Ok(reply::json(StatusCode::OK, &ClockReply { now: now.as_unix_millis() }))
    }
}
