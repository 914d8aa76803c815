//! Metrics of a shared store.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use tollgate::{AnswerError, StoreError};
use tollgate_redis::{RedisError, ServerStatus, StoreStatus};

use super::histogram::Histogram;

/// Metrics of a shared store. Every access is relaxed: the figures are independent and guard no other memory.
pub(crate) struct StoreMetrics {
    duration: Histogram,
    errors: [AtomicU64; KINDS.len()],
    answers: AtomicBool,
    status: Box<dyn Fn() -> StoreStatus + Send + Sync>,
}

/// The names of errors. The last one is for errors that the libraries may add later.
const KINDS: [&str; 14] = [
    "unreachable",
    "timed_out",
    "too_slow",
    "not_ready",
    "overloaded",
    "access_denied",
    "misconfigured",
    "script_refused",
    "out_of_memory",
    "wrong_type",
    "bad_reply",
    "uncountable",
    "full",
    "other",
];

impl StoreMetrics {
    /// Creates metrics with all counts at zero. Each scrape calls `status` for the state of the servers.
    pub(crate) fn new(status: impl Fn() -> StoreStatus + Send + Sync + 'static) -> Self {
        Self {
            duration: Histogram::default(),
            errors: Default::default(),
            answers: AtomicBool::new(true),
            status: Box::new(status),
        }
    }

    /// Records the duration of one step of the store, failed or not. A batch is one step.
    pub(crate) fn took(&self, elapsed: Duration) {
        self.duration.observe(elapsed);
    }

    pub(crate) fn failed(&self, error: &StoreError) {
        let counters = KINDS.iter().zip(&self.errors);
        if let Some((_, counter)) = counters.into_iter().find(|(name, _)| **name == kind(error)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records whether the store answered the last step.
    pub(crate) fn answers(&self, answers: bool) {
        // The value rarely changes, and a cache line that is only read stays in every core's cache.
        if self.answers.load(Ordering::Relaxed) != answers {
            self.answers.store(answers, Ordering::Relaxed);
        }
    }

    /// Returns whether the store answered the last step.
    pub(crate) fn is_up(&self) -> bool {
        self.answers.load(Ordering::Relaxed)
    }

    /// Returns the first server without a connection, for the log.
    pub(crate) fn unconnected(&self) -> Option<ServerStatus> {
        let status = (self.status)();
        status.servers().iter().find(|server| !server.is_connected()).cloned()
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = ("tollgate_store_up", "1 if the store answered the last step, else 0");
        encoder
            .encode_descriptor(name, help, None, MetricType::Gauge)?
            .encode_gauge(&i64::from(self.is_up()))?;

        let help = "1 if calls are sent to this server of the store, 0 while it is silent or unreachable";
        let name = "tollgate_store_server_connected";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let status = (self.status)();
        for server in status.servers() {
            let connected = i64::from(server.is_connected());
            metric.encode_family(&[("server", server.name())])?.encode_gauge(&connected)?;
        }

        let (name, help) =
            ("tollgate_store_duration", "Time that the store takes for a step; a batch is one step");
        let unit = Some(&Unit::Seconds);
        self.duration.encode(encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?)?;

        let (name, help) =
            ("tollgate_store_late_replies", "Replies of the store that arrived after their deadline");
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&status.late_replies(), None)?;

        let (name, help) =
            ("tollgate_store_errors", "Requests that the store did not count, by kind of error");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (kind, counter) in KINDS.iter().zip(&self.errors) {
            let count = counter.load(Ordering::Relaxed);
            metric.encode_family(&[("kind", *kind)])?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        Ok(())
    }
}

/// Returns the label of an error.
fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Uncountable(_) => "uncountable",
        StoreError::Full => "full",
        StoreError::Trouble { .. } => match (RedisError::of(error), error.trouble_of()) {
            (Some(trouble), _) => kind_of_redis(trouble),
            (None, Some(AnswerError::Late)) => "timed_out",
            (None, Some(AnswerError::Nonsense)) => "bad_reply",
            (None, _) => "other",
        },
    }
}

fn kind_of_redis(trouble: &RedisError) -> &'static str {
    match trouble {
        RedisError::Unreachable => "unreachable",
        RedisError::TimedOut => "timed_out",
        RedisError::TooSlow => "too_slow",
        RedisError::NotReady => "not_ready",
        RedisError::Overloaded => "overloaded",
        RedisError::AccessDenied => "access_denied",
        RedisError::Misconfigured(_) => "misconfigured",
        RedisError::ScriptRefused => "script_refused",
        RedisError::OutOfMemory => "out_of_memory",
        RedisError::WrongType => "wrong_type",
        RedisError::BadReply => "bad_reply",
        _ => "other",
    }
}
