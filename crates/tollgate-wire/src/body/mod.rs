//! Answers in JSON, the same from the middleware and the service.
//!
//! For handlers and servers that answer in Tollgate's format.

#[cfg(feature = "policy")]
mod applied_override;
mod decision;
mod denial;
mod problem;
mod time_text;

#[cfg(feature = "schema")]
use std::borrow::Cow;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use tollgate::{PolicyInFlight, PolicyQuota, QuotaKind, Source};

#[cfg(feature = "policy")]
pub use self::applied_override::AppliedOverrideBody;
pub use self::decision::{Algorithm, DecisionBody, DenialReason, QuotaBody, mark};
pub use self::denial::DenialBody;
pub use self::problem::DenialProblem;
pub use self::time_text::TimeText;

/// A window in Unix milliseconds: its first, and the first after it.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Window"))]
pub struct WindowBody {
    start: i64,
    end: i64,
}

/// Where a decision came from. `store`: the counters, in this process's memory or in Redis or Valkey. `local`: an
/// earlier denial by a shared store, which still holds. `fallback`: the store failed or is full, and the configured
/// fallback decided.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[non_exhaustive]
pub enum DecisionSource {
    #[expect(missing_docs, reason = "the schema would list them one by one")]
    Store,
    #[expect(missing_docs, reason = "as above")]
    Local,
    #[expect(missing_docs, reason = "as above")]
    Fallback,
}

/// A quota as it is written.
#[derive(Debug, Clone, Copy)]
pub struct QuotaText<'a>(pub &'a PolicyQuota);

impl Serialize for QuotaText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The burst belongs to no counter, so it is not among the windows.
        if self.0.quota().kind() == QuotaKind::Burst {
            return serializer.collect_str(self.0.quota());
        }
        // Takes a third of the time of `Display`.
        let mut limit = itoa::Buffer::new();
        serializer.serialize_str(&[limit.format(self.0.quota().limit()), "/", self.0.windows()].concat())
    }
}

/// A limit as it is written: a quota, or a limit in flight.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "policy"), expect(dead_code, reason = "only policies have both"))]
enum LimitText<'a> {
    Quota(QuotaText<'a>),
    InFlight(&'a PolicyInFlight),
}

impl Serialize for LimitText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Quota(quota) => quota.serialize(serializer),
            Self::InFlight(limit) => serializer.collect_str(&limit.in_flight()),
        }
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for LimitText<'_> {
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

#[cfg(feature = "schema")]
impl JsonSchema for QuotaText<'_> {
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

impl From<tollgate::Window> for WindowBody {
    fn from(window: tollgate::Window) -> Self {
        Self { start: window.start().as_unix_millis(), end: window.end().as_unix_millis() }
    }
}

impl From<Source> for DecisionSource {
    fn from(source: Source) -> Self {
        match source {
            Source::Local => Self::Local,
            Source::Fallback => Self::Fallback,
            _ => Self::Store,
        }
    }
}

/// Returns the milliseconds, rounded up, so that no client returns too early.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
