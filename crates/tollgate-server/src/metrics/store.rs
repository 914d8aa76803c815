//! Metrics of a shared store.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

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
        let kind = kind(error);
        let counters = KINDS.iter().zip(&self.errors);
        if let Some((_, counter)) = counters.into_iter().find(|(name, _)| Some(**name) == kind) {
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
        let status = self.status();
        status.servers().iter().find(|server| !server.is_connected()).cloned()
    }

    pub(super) fn status(&self) -> StoreStatus {
        (self.status)()
    }

    pub(super) fn duration(&self) -> &Histogram {
        &self.duration
    }

    /// Returns the count of each kind of error.
    pub(super) fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS.into_iter().zip(&self.errors).map(|(kind, count)| (kind, count.load(Ordering::Relaxed)))
    }
}

/// Returns the label of an error; `None` if the store has not failed.
fn kind(error: &StoreError) -> Option<&'static str> {
    Some(match error {
        StoreError::Ended { .. } => return None,
        StoreError::Uncountable(_) => "uncountable",
        StoreError::Full => "full",
        StoreError::Trouble { .. } => match (RedisError::of(error), error.trouble_of()) {
            (Some(trouble), _) => kind_of_redis(trouble),
            (None, Some(AnswerError::Late)) => "timed_out",
            (None, Some(AnswerError::Nonsense)) => "bad_reply",
            (None, _) => "other",
        },
    })
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
