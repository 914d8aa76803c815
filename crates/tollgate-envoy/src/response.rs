//! The answer to a request.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use smallvec::SmallVec;
use tollgate::{Key, Source};

use crate::Unit;

/// The answer to a [`Request`](crate::Request).
///
/// It corresponds to `RateLimitResponse` of `envoy.service.ratelimit.v3`.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a denied request has to be stopped"]
pub struct Response {
    /// Whether the request may proceed.
    pub overall: Code,
    /// One for each descriptor, in their order.
    pub statuses: SmallVec<[Status; 2]>,
    /// Headers for the client, if they are configured.
    pub headers: SmallVec<[ResponseHeader; 3]>,
    /// The metadata that Envoy keeps for its other filters, if configured.
    pub dynamic_metadata: Option<Map<String, Value>>,
    /// The source of the counts: the store, or this process while the store could not answer. `None` if nothing was
    /// counted.
    pub source: Option<Source>,
    /// Whether a limit was not counted because the store was full, which [admits](crate::EnvoyLimiter::when_full) then.
    pub is_without_room: bool,
    /// The index of a descriptor whose configured limit denied a cost of 2 or more although units were left, and
    /// charged nothing; the first of several.
    pub denied_with_units_left: Option<usize>,
}

/// A key that a request was counted by, under a limit of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct CountedKey<'a> {
    /// The place of the limit among [all](crate::Domains::rule_names).
    pub rule: usize,
    /// The domain, then the keys and values of the descriptor in turn.
    pub key: &'a Key<'static>,
    /// Whether this limit denied the request. If several did, each of them.
    pub denies: bool,
}

/// A verdict as Envoy's messages have it. There is no `UNKNOWN`, because it must never be sent to Envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The request may proceed.
    Ok,
    /// A limit denies it.
    OverLimit,
}

/// The verdict on one descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Whether its limit has room.
    pub code: Code,
    /// The limit that applies, if there is one.
    pub current_limit: Option<CurrentLimit>,
    /// Units left in the window: 0 if the code is [`Code::OverLimit`] or there is no limit, and [`u32::MAX`] if the
    /// configuration has `unlimited`.
    pub limit_remaining: u32,
    /// Time until the window ends, in whole seconds, if a limit applies.
    pub duration_until_reset: Option<Duration>,
}

/// The limit that applies to a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentLimit {
    /// The units in each window.
    pub requests_per_unit: u32,
    /// The length of windows.
    pub unit: Unit,
    /// Its name, if the configuration gives it one.
    pub name: Option<Arc<str>>,
}

/// A header for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The name as it is configured.
    pub name: Arc<str>,
    /// Its number.
    pub value: u64,
}

impl Code {
    /// Returns the number in Envoy's messages.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Ok => 1,
            Self::OverLimit => 2,
        }
    }

    /// Returns the name in Envoy's messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::OverLimit => "OVER_LIMIT",
        }
    }
}

impl Status {
    /// The status of a descriptor without a limit.
    pub const NO_LIMIT: Self =
        Self { code: Code::Ok, current_limit: None, limit_remaining: 0, duration_until_reset: None };

    /// The status of a descriptor whose limit is `unlimited`.
    pub const UNLIMITED: Self =
        Self { code: Code::Ok, current_limit: None, limit_remaining: u32::MAX, duration_until_reset: None };
}
