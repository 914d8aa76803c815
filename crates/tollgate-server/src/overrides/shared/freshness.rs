//! Whether the overrides were read lately, and what the log says when they were not.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate::StoreError;
use tollgate_policy::OverridesVersion;
use tollgate_redis::{RedisError, StoreServer};
use tracing::{error, info, warn};

use crate::observe::stopwatch::Stopwatch;
use crate::observe::with_sources::WithSources;
use crate::overrides::status::OverridesStatus;

/// The time without a read after which the overrides are stale.
const FRESH: Duration = Duration::from_secs(1);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Freshness(Mutex<ReadRecord>);

#[derive(Debug)]
struct ReadRecord {
    /// Runs since the last successful read began; without one, since the start.
    since: Stopwatch,
    /// Whether there was a read.
    has_read: bool,
    /// Why the last read failed, if it did.
    trouble: Option<Box<str>>,
    /// Whether the log says that they are stale.
    is_told: bool,
    /// Whether it says that a right is missing.
    is_right_told: bool,
}

impl Default for Freshness {
    fn default() -> Self {
        Self(Mutex::new(ReadRecord {
            since: Stopwatch::start(),
            has_read: false,
            trouble: None,
            is_told: false,
            is_right_told: false,
        }))
    }
}

impl Freshness {
    /// Returns the status of overrides of this version.
    pub(super) fn status(&self, version: Option<OverridesVersion>) -> OverridesStatus {
        let record = self.record();
        let age = record.has_read.then(|| record.since.elapsed());
        let is_stale = age.is_none_or(|age| age >= FRESH);
        let trouble = record.trouble.clone().filter(|_| is_stale);
        OverridesStatus { version, is_stale, age, trouble }
    }

    /// Notes a read that began then.
    pub(super) fn note_read(&self, began: Stopwatch) {
        let mut record = self.record();
        (record.since, record.has_read, record.trouble) = (began, true, None);
        record.is_right_told = false;
        if std::mem::take(&mut record.is_told) {
            info!("the overrides are read from the store again");
        }
    }

    /// Notes that a read failed.
    pub(super) fn note_failure(&self, failure: &StoreError) {
        let mut record = self.record();
        record.trouble = Some(WithSources(failure).to_string().into());
        let lacks_right = RedisError::of(failure) == Some(&RedisError::AccessDenied);
        if lacks_right && !std::mem::replace(&mut record.is_right_told, true) {
            error!(
                "the user of the store may not read overrides: grant it `{}`, or start with `--max-overrides 0`",
                StoreServer::RECORDS_RIGHTS
            );
        }
    }

    /// Logs that the overrides are stale, once they are. `version` is the live one.
    pub(super) fn tell(&self, version: impl FnOnce() -> Option<OverridesVersion>) {
        let mut record = self.record();
        if record.is_told || record.since.elapsed() < FRESH {
            return;
        }
        record.is_told = true;
        let reason = record.trouble.as_deref().unwrap_or("a read takes long");
        if !record.has_read {
            warn!(reason, "the overrides could not be read yet: none is live");
            return;
        }
        let version = version().map_or_else(|| "none".to_owned(), |version| version.to_string());
        warn!(
            reason,
            version,
            "the overrides are stale: they could not be read for a second, and the last ones stay live"
        );
    }

    fn record(&self) -> MutexGuard<'_, ReadRecord> {
        // No change under this lock can be left half made.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
