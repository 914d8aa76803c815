//! What goes over the wire: JSON requests and replies, and their conversion.
//!
//! The comments on the types are the descriptions in `/openapi.json`.

mod changes;
mod decision;
mod health;
mod problem;
mod requests;

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use tollgate::PolicyQuota;

pub(super) use self::changes::{CountsReply, RecordBatchReply, RecordEntry, RefundReply, RefundedQuota};
pub(super) use self::decision::{BatchEntry, BatchReply, DecisionBody, DeniedBody};
pub(super) use self::health::HealthReply;
pub(super) use self::problem::{ChangedQuota, ProblemBody, ProblemReason};
pub(super) use self::requests::{
    BatchEntryRequest, BatchRequest, CheckRequest, KEY_ATTRIBUTES, MAX_CALLER_QUOTAS, PeekRequest,
    ReceiptRequest, RecordBatchRequest, RecordRequest, RefundRequest, ReloadRequest, ResetRequest,
    SetRequest, WrittenQuota,
};

/// A window in Unix milliseconds: the first that belongs to it, and the first that no longer does.
#[derive(Serialize, JsonSchema)]
struct Window {
    start: i64,
    end: i64,
}

/// A quota as it is written.
#[derive(Clone, Copy)]
struct Written<'a>(&'a PolicyQuota);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A third of the time that `Display` takes: a body has it twice.
        let mut limit = itoa::Buffer::new();
        serializer.serialize_str(&[limit.format(self.0.quota().limit()), "/", self.0.windows()].concat())
    }
}

impl JsonSchema for Written<'_> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

impl From<tollgate::Window> for Window {
    fn from(window: tollgate::Window) -> Self {
        Self { start: window.start().as_unix_millis(), end: window.end().as_unix_millis() }
    }
}

/// Rounded up, so that nobody is told to come back too early.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
