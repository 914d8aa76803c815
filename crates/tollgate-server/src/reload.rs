//! Reading the file of policies again while the service runs: all of it is valid and becomes live at once, or nothing
//! changes.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tollgate::{Clock, SystemClock, Timestamp};
use tollgate_policy::{Change, Changes, Config, ConfigError, PolicyLimiter};
use tracing::{error, info, warn};

use crate::look::Look;
use crate::policy_file::PolicyFile;
use crate::stopwatch::Stopwatch;
use crate::with_sources::WithSources;

/// Keeps the live policies in step with their file.
pub(crate) struct Reloads<S> {
    limiter: Arc<PolicyLimiter<S>>,
    /// Held for a whole reload, so that one follows the other.
    file: Mutex<PolicyFile>,
    state: Arc<ReloadState>,
}

/// What has come of reloads so far.
#[derive(Debug)]
pub(crate) struct ReloadState {
    /// When the file last matched the live policies.
    in_step: Mutex<Stopwatch>,
    replaced: AtomicU64,
    unchanged: AtomicU64,
    failed: AtomicU64,
    /// Why the file as it was read last did not become live.
    failure: Mutex<Option<Arc<Failure>>>,
}

/// A file that did not become live.
#[derive(Debug)]
pub(crate) struct Failure {
    error: ConfigError,
    pub(crate) since: Timestamp,
}

/// Who wants the file to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Something changed where the file is.
    Watch,
    /// Another file was put in its place, whole.
    Rename,
    /// Nothing is known to have changed, and the file has not been looked at for a while.
    Interval,
    /// A signal.
    Signal,
    /// An administrator.
    Request,
}

/// What came of a look at a file that may be half written.
#[derive(Debug)]
pub(crate) enum Glance {
    /// It was read, or is the one that was read last.
    Settled,
    /// It is as it was, and has to stay so for longer.
    Same,
    /// It is to be looked at again after this time.
    Changed(Look, Duration),
}

/// What came of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reloaded {
    /// Other policies are live now, under this version.
    Replaced(u64),
    /// The file means what is live, under this version.
    Unchanged(u64),
}

/// Why nothing changed.
#[derive(Debug, Clone, Error)]
#[error("{0}")]
pub(crate) struct ReloadError(Arc<Failure>);

impl<S> Reloads<S> {
    pub(crate) fn new(limiter: Arc<PolicyLimiter<S>>, file: PolicyFile) -> Self {
        Self { limiter, file: Mutex::new(file), state: Arc::new(ReloadState::new()) }
    }

    pub(crate) fn state(&self) -> &Arc<ReloadState> {
        &self.state
    }

    /// Reads the file again and makes it live, if it is valid and says something else than before. It is read and
    /// compiled on this thread, which takes longer the more policies there are.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is not valid. Nothing has changed then, and the log has every problem.
    pub(crate) fn reload(&self, cause: Cause) -> Result<Reloaded, ReloadError> {
        let mut file = lock(&self.file);
        let look = file.look();
        self.take(&mut file, look, cause)
    }

    /// Reads the file again as [`reload`](Self::reload) does, if it is as it was at an earlier look and has stayed so
    /// for long enough: nobody else says that it is whole.
    pub(crate) fn glance(&self, earlier: Option<&Look>, is_over: bool, cause: Cause) -> Glance {
        let mut file = lock(&self.file);
        let look = file.look();
        let is_same = earlier.is_some_and(|earlier| earlier.is_same(&look));
        if file.is_known(&look) || is_same && is_over {
            // What came of it is in the log.
            let _ = self.take(&mut file, look, cause);
            return Glance::Settled;
        }
        if is_same {
            return Glance::Same;
        }
        let rest = file.rest(&look);
        Glance::Changed(look, rest)
    }

    fn take(&self, file: &mut PolicyFile, look: Look, cause: Cause) -> Result<Reloaded, ReloadError> {
        if cause.is_guess() && file.is_known(&look) {
            // Something else changed in the folder.
            self.state.found_in_step();
            return Ok(Reloaded::Unchanged(self.limiter.live().version()));
        }
        match file.read(look) {
            Ok(config) => Ok(self.make_live(file, config, cause)),
            Err(error) => Err(self.fail(file, error, cause)),
        }
    }

    fn make_live(&self, file: &mut PolicyFile, config: Config, cause: Cause) -> Reloaded {
        *lock(&self.state.failure) = None;
        self.state.found_in_step();
        if file.has_another_store(&config) {
            warn!(file = file.name(), "`store:` has changed: that counts from the next start on");
        }
        file.log_warnings(config.warnings());
        let live = self.limiter.live();
        let changes = live.policies().changes(config.policies());
        if changes.is_empty() {
            self.state.unchanged.fetch_add(1, Ordering::Relaxed);
            info!(
                file = file.name(),
                cause = cause.name(),
                version = live.version(),
                "policies are unchanged"
            );
            return Reloaded::Unchanged(live.version());
        }
        let version = self.limiter.replace(config.into_policies(), file.name()).version();
        self.state.replaced.fetch_add(1, Ordering::Relaxed);
        let changes = in_short(&changes);
        info!(file = file.name(), cause = cause.name(), version, changes, "policies are replaced");
        Reloaded::Replaced(version)
    }

    fn fail(&self, file: &PolicyFile, error: ConfigError, cause: Cause) -> ReloadError {
        let failure = Arc::new(Failure { error, since: SystemClock.now() });
        // The watch comes for whatever happens in the folder, and the log may be written there: a file that is away
        // is told of once, or each line would be the cause of the next.
        let is_same = |told: &Arc<Failure>| told.to_string() == failure.to_string();
        if cause.is_guess()
            && let Some(told) = self.state.failure().filter(is_same)
        {
            return ReloadError(told);
        }
        self.state.failed.fetch_add(1, Ordering::Relaxed);
        let version = self.limiter.live().version();
        error!(file = file.name(), cause = cause.name(), version, "policies stay as they are\n{failure}");
        *lock(&self.state.failure) = Some(Arc::clone(&failure));
        ReloadError(failure)
    }
}

impl ReloadState {
    /// Of a file that has just become live.
    fn new() -> Self {
        let (replaced, unchanged, failed) = Default::default();
        let in_step = Mutex::new(Stopwatch::start());
        Self { in_step, replaced, unchanged, failed, failure: Mutex::default() }
    }

    /// The file has been read. Unless it was not valid then, it means what is live.
    fn found_in_step(&self) {
        if self.failure().is_none() {
            *lock(&self.in_step) = Stopwatch::start();
        }
    }

    /// Time since the file last matched the live policies: half a minute at most, unless it cannot be read or is
    /// not valid.
    pub(crate) fn age(&self) -> Duration {
        lock(&self.in_step).elapsed()
    }

    /// Why the file as it was read last is not live, if it is not.
    pub(crate) fn failure(&self) -> Option<Arc<Failure>> {
        lock(&self.failure).clone()
    }

    /// How many reloads came to what.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 3] {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("replaced", count(&self.replaced)),
            ("unchanged", count(&self.unchanged)),
            ("failed", count(&self.failed)),
        ]
    }
}

/// Every problem of the file; or that it cannot be read, and why.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        WithSources(&self.error).fmt(f)
    }
}

impl Cause {
    /// Whether nobody asked, and the file may be as it was.
    const fn is_guess(self) -> bool {
        matches!(self, Self::Watch | Self::Rename | Self::Interval)
    }

    /// Whether the file may be half written.
    pub(crate) const fn is_doubtful(self) -> bool {
        matches!(self, Self::Watch | Self::Interval)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Rename => "rename",
            Self::Interval => "interval",
            Self::Signal => "SIGHUP",
            Self::Request => "request",
        }
    }
}

/// The first of many changes: a log line is no place for thousands.
fn in_short(changes: &Changes) -> String {
    const SHOWN: usize = 20;
    let mut text = changes.iter().take(SHOWN).map(Change::to_string).collect::<Vec<_>>().join("; ");
    let more = changes.iter().count().saturating_sub(SHOWN);
    if more > 0 {
        text += &format!("; and {more} more");
    }
    text
}

/// Nothing that is done under these locks leaves half of it undone.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tollgate::MemoryStore;

    use super::*;
    use crate::layout::StoreFlags;

    /// A file that was away for a while and came back as it was stayed "not live", because its text was known. And
    /// where the log was written beside it, each line of its absence was the cause of the next.
    #[test]
    fn a_file_that_is_away_is_told_of_once_and_is_live_again_once_it_is_back() {
        let folder = std::env::temp_dir().join(format!("tollgate-reload-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, away) = (folder.join("t.yaml"), folder.join("away.yaml"));
        fs::write(&path, "policies: []").unwrap();
        let (file, config) = PolicyFile::load(&path, &StoreFlags::default()).unwrap();
        let limiter = PolicyLimiter::new(MemoryStore::new(), config.into_policies(), file.name());
        let reloads = Reloads::new(Arc::new(limiter), file);
        let failed = || reloads.state().counts()[2];

        fs::rename(&path, &away).unwrap();
        let error = reloads.reload(Cause::Watch).unwrap_err().to_string();
        assert!(error.contains("t.yaml: No such file"), "{error}");
        assert_eq!(reloads.reload(Cause::Watch).unwrap_err().to_string(), error);
        assert_eq!(failed(), ("failed", 1));
        let _ = reloads.reload(Cause::Signal).unwrap_err();
        assert_eq!(failed(), ("failed", 2), "who asks is told again");

        fs::rename(&away, &path).unwrap();
        assert_eq!(reloads.reload(Cause::Watch).unwrap(), Reloaded::Unchanged(1));
        assert!(reloads.state().failure().is_none());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn of_many_changes_the_first_are_said_and_the_rest_counted() {
        let policies = |count: usize| {
            let policy = |index| format!("{{ name: p{index}, key: global, quotas: [1/1m] }}");
            let all: Vec<_> = (0..count).map(policy).collect();
            Config::parse("t.yaml", &format!("policies: [{}]", all.join(", "))).unwrap().into_policies()
        };
        let none = policies(0);
        assert!(!in_short(&none.changes(&policies(20))).contains("more"));
        let text = in_short(&none.changes(&policies(22)));
        assert!(text.ends_with("; and 2 more"), "{text}");
        assert_eq!(text.matches("; ").count(), 20, "{text}");
    }

    /// A look at a file that is still not valid made the policies young again.
    #[test]
    fn policies_grow_old_while_their_file_is_not_valid() {
        let folder = std::env::temp_dir().join(format!("tollgate-age-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("t.yaml");
        fs::write(&path, "policies: []").unwrap();
        let (file, config) = PolicyFile::load(&path, &StoreFlags::default()).unwrap();
        let limiter = PolicyLimiter::new(MemoryStore::new(), config.into_policies(), file.name());
        let reloads = Reloads::new(Arc::new(limiter), file);

        let looked = Stopwatch::start();
        assert_eq!(reloads.reload(Cause::Watch).unwrap(), Reloaded::Unchanged(1));
        assert!(reloads.state().age() <= looked.elapsed());

        let broken = Stopwatch::start();
        fs::write(&path, "policies: [{ name: broken }]").unwrap();
        let _ = reloads.reload(Cause::Watch).unwrap_err();
        assert_eq!(reloads.reload(Cause::Watch).unwrap(), Reloaded::Unchanged(1), "it is told of once");
        let since = broken.elapsed();
        assert!(reloads.state().age() >= since);
        fs::remove_dir_all(&folder).unwrap();
    }
}
