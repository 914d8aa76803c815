//! Reloads a file while the service runs: either all of it is valid and becomes live immediately, or nothing changes.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tollgate::{Clock, SystemClock, Timestamp};
use tollgate_policy::ConfigError;
use tracing::{error, info};

use crate::live::cause::Cause;
use crate::live::follow::{self, Followed, Glance};
use crate::live::followed_files::FollowedFiles;
use crate::live::look::Look;
use crate::observe::log_gap::LogGap;
use crate::observe::stopwatch::Stopwatch;
use crate::observe::with_sources::WithSources;

/// The time that one log line covers for requests to reload that change nothing.
const REPEAT_GAP: Duration = Duration::from_secs(1);

/// Something live, and the file that defines it.
pub(crate) trait Subject: Send + 'static {
    /// Its name in messages, such as "policies are replaced".
    const NAME: &'static str;

    /// The content of a valid file.
    type Content;

    fn files(&self) -> &FollowedFiles;

    /// Returns how long the file has to stay unchanged before it counts; see [`FollowedFiles::rest`].
    fn rest(&self, look: &Look) -> Duration;

    /// Parses the file; see [`FollowedFiles::read`].
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not valid.
    fn read(&mut self, look: Look) -> Result<Self::Content, ConfigError>;

    /// Makes the content live. Returns the changes for the log; `None` if there are none.
    fn make_live(&mut self, content: Self::Content) -> Option<String>;

    /// Returns the live version, counted from 1.
    fn version(&self) -> u64;
}

/// A file that can be read again, whatever it defines.
pub(crate) trait Reread: Send + Sync {
    /// Returns the outcomes of reloads so far.
    fn state(&self) -> &Arc<ReloadState>;

    /// Reads the file, as [`Reloads::reload`]. Call [`reread`] from async code.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not valid.
    fn reread(&self, cause: Cause) -> Result<Reloaded, ReloadError>;
}

impl<T: Subject> Reread for Reloads<T> {
    fn state(&self) -> &Arc<ReloadState> {
        &self.state
    }

    fn reread(&self, cause: Cause) -> Result<Reloaded, ReloadError> {
        self.reload(cause)
    }
}

/// Reads the file on another thread, because a large one takes a while. Returns `None` if that panicked, which is a bug
/// of ours and is logged; nothing has changed then.
pub(crate) async fn reread(reloads: Arc<dyn Reread>, cause: Cause) -> Option<Result<Reloaded, ReloadError>> {
    let state = Arc::clone(reloads.state());
    let reloaded = tokio::task::spawn_blocking(move || reloads.reread(cause)).await;
    let panicked = reloaded.as_ref().err().filter(|_| state.panic_logged.passes(REPEAT_GAP));
    if let Some(failure) = panicked {
        follow::log_panic(cause, failure);
    }
    reloaded.ok()
}

/// Keeps a subject in step with its file.
pub(crate) struct Reloads<T> {
    /// Held for a whole reload, so that reloads never overlap.
    subject: Mutex<T>,
    state: Arc<ReloadState>,
    repeat_logged: LogGap,
}

/// The outcomes of reloads so far.
#[derive(Debug)]
pub(crate) struct ReloadState {
    /// Runs since the file last matched the live content.
    in_step: Mutex<Stopwatch>,
    replaced: AtomicU64,
    unchanged: AtomicU64,
    failed: AtomicU64,
    /// Why the last version of the file did not become live.
    failure: Mutex<Option<Arc<Failure>>>,
    panic_logged: LogGap,
}

/// Why a file did not become live.
#[derive(Debug)]
pub(crate) struct Failure {
    error: ConfigError,
    pub(crate) since: Timestamp,
}

/// The result of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reloaded {
    /// New content is live, under this version.
    Replaced(u64),
    /// The file matches the live content, which has this version.
    Unchanged(u64),
}

/// Why the reload failed.
#[derive(Debug, Clone, Error)]
#[error("{0}")]
pub(crate) struct ReloadError(Arc<Failure>);

impl<T: Subject> Reloads<T> {
    pub(crate) fn new(subject: T) -> Self {
        let (state, repeat_logged) = (Arc::new(ReloadState::new()), LogGap::default());
        Self { subject: Mutex::new(subject), state, repeat_logged }
    }

    pub(crate) fn state(&self) -> &Arc<ReloadState> {
        &self.state
    }

    /// Reads the file again and makes it live, if it is valid and has changed. It reads and compiles on this thread;
    /// long files take longer.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is not valid. Nothing has changed then, and the log has every problem.
    pub(crate) fn reload(&self, cause: Cause) -> Result<Reloaded, ReloadError> {
        let mut subject = lock(&self.subject);
        let look = subject.files().look();
        self.take(&mut subject, look, cause)
    }

    fn take(&self, subject: &mut T, look: Look, cause: Cause) -> Result<Reloaded, ReloadError> {
        if cause.is_guess() && self.are_known(subject, &look) {
            // The event was about another file in the folder.
            self.state.found_in_step();
            return Ok(Reloaded::Unchanged(subject.version()));
        }
        let outcome = match subject.read(look) {
            Ok(content) => Ok(self.make_live(subject, content, cause)),
            Err(error) => Err(self.fail(subject, error, cause)),
        };
        self.subject.clear_poison();
        outcome
    }

    /// Returns whether these are the texts of the last read, and a reload of them has ended. A panic in a reload poisons
    /// the lock of the subject until another one ends, so the next look tries again.
    fn are_known(&self, subject: &T, look: &Look) -> bool {
        !self.subject.is_poisoned() && subject.files().are_known(look)
    }

    fn make_live(&self, subject: &mut T, content: T::Content, cause: Cause) -> Reloaded {
        let changes = subject.make_live(content);
        *lock(&self.state.failure) = None;
        self.state.found_in_step();
        let (file, version) = (subject.files().name(), subject.version());
        match changes {
            None => {
                self.state.unchanged.fetch_add(1, Ordering::Relaxed);
                if self.may_repeat(cause) {
                    info!(file, cause = cause.name(), version, "{} are unchanged", T::NAME);
                }
                Reloaded::Unchanged(version)
            }
            Some(changes) => {
                self.state.replaced.fetch_add(1, Ordering::Relaxed);
                info!(file, cause = cause.name(), version, changes, "{} are replaced", T::NAME);
                Reloaded::Replaced(version)
            }
        }
    }

    /// Returns whether the log has room for a line that says the same as an earlier one. Otherwise, callers that may
    /// reload could fill the log with requests.
    fn may_repeat(&self, cause: Cause) -> bool {
        cause != Cause::Request || self.repeat_logged.passes(REPEAT_GAP)
    }

    fn fail(&self, subject: &T, error: ConfigError, cause: Cause) -> ReloadError {
        let failure = Arc::new(Failure { error, since: SystemClock.now() });
        // The watch reports every event in the folder, and the log may be written there. So an unreadable file is
        // logged once; otherwise each line would cause the next.
        let is_same = |told: &Arc<Failure>| told.to_string() == failure.to_string();
        let told = self.state.failure().filter(is_same);
        if let Some(told) = told.as_ref().filter(|_| cause.is_guess()) {
            return ReloadError(Arc::clone(told));
        }
        if told.is_none() || self.may_repeat(cause) {
            let (file, version) = (subject.files().name(), subject.version());
            error!(file, cause = cause.name(), version, "{} stay as they are\n{failure}", T::NAME);
        }
        // Stored before it is counted, so that a reader of the count finds the failure.
        *lock(&self.state.failure) = Some(Arc::clone(&failure));
        self.state.failed.fetch_add(1, Ordering::Relaxed);
        ReloadError(failure)
    }
}

impl<T: Subject> Followed for Reloads<T> {
    type Look = Look;

    fn glance(&self, earlier: Option<&Look>, is_over: bool, cause: Cause) -> Glance<Look> {
        let mut subject = lock(&self.subject);
        let look = subject.files().look();
        let is_same = earlier.is_some_and(|earlier| earlier.is_same(&look));
        let is_doubtful = cause.is_doubtful() || cause == Cause::Rename && subject.files().are_several();
        if !is_doubtful || self.are_known(&subject, &look) || is_same && is_over {
            // The result is already in the log.
            let _ = self.take(&mut subject, look, cause);
            return Glance::Settled;
        }
        if is_same {
            return Glance::Same;
        }
        let rest = subject.rest(&look);
        Glance::Changed(look, rest)
    }
}

impl ReloadState {
    /// Creates the state of a file that has just become live.
    fn new() -> Self {
        let (replaced, unchanged, failed, failure, panic_logged) = Default::default();
        let in_step = Mutex::new(Stopwatch::start());
        Self { in_step, replaced, unchanged, failed, failure, panic_logged }
    }

    /// Notes that the file was read unchanged. Unless it was invalid, it matches the live content.
    fn found_in_step(&self) {
        if self.failure().is_none() {
            *lock(&self.in_step) = Stopwatch::start();
        }
    }

    /// Returns the time since the file last matched the live content: at most half a minute, unless the file cannot be
    /// read or is not valid.
    pub(crate) fn age(&self) -> Duration {
        lock(&self.in_step).elapsed()
    }

    /// Returns why the last version of the file is not live, if so.
    pub(crate) fn failure(&self) -> Option<Arc<Failure>> {
        lock(&self.failure).clone()
    }

    /// Returns the number of reloads by outcome.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 3] {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("replaced", count(&self.replaced)),
            ("unchanged", count(&self.unchanged)),
            ("failed", count(&self.failed)),
        ]
    }
}

/// Prints every problem of the file, or the reason why it cannot be read.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        WithSources(&self.error).fmt(f)
    }
}

/// Returns the first of these, and the number of others: a log line has no room for thousands.
pub(crate) fn in_short(all: impl Iterator<Item = String>, separator: &str) -> String {
    const SHOWN: usize = 20;
    let all: Vec<String> = all.collect();
    let (shown, more) = all.split_at(all.len().min(SHOWN));
    let text = shown.join(separator);
    if more.is_empty() { text } else { format!("{text}{separator}and {} more", more.len()) }
}

/// A panic under these locks leaves no half-made change, but perhaps a file that was read and is not live; see
/// [`Reloads::are_known`].
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::live::follow::tests::Lines;
    use crate::live::look::Files;

    /// Panics when it makes a file live, so many times.
    struct Panicking {
        files: FollowedFiles,
        panics: u32,
        live: u64,
    }

    impl Panicking {
        fn reloads(path: &Path, panics: u32) -> Reloads<Self> {
            std::fs::write(path, "one\n").unwrap();
            let (files, ()) = FollowedFiles::load(Files::One(path.into()), |_| Ok(())).unwrap();
            Reloads::new(Self { files, panics, live: 1 })
        }
    }

    impl Subject for Panicking {
        const NAME: &'static str = "texts";

        type Content = ();

        fn files(&self) -> &FollowedFiles {
            &self.files
        }

        fn rest(&self, _: &Look) -> Duration {
            Duration::ZERO
        }

        fn read(&mut self, look: Look) -> Result<(), ConfigError> {
            self.files.read(look, |_| Ok(()))
        }

        fn make_live(&mut self, (): ()) -> Option<String> {
            if self.panics > 0 {
                self.panics -= 1;
                panic!("a bug of ours");
            }
            self.live += 1;
            Some("a change".to_owned())
        }

        fn version(&self) -> u64 {
            self.live
        }
    }

    /// The texts of such a file counted as live: no later look read it again, and its age was 0.
    #[test]
    fn a_file_whose_reload_panicked_is_read_again_at_the_next_look() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.yaml");
        let reloads = Arc::new(Panicking::reloads(&path, 1));
        std::fs::write(&path, "two\n").unwrap();
        let panicking = Arc::clone(&reloads);
        std::thread::spawn(move || panicking.reload(Cause::Interval)).join().unwrap_err();
        let Glance::Changed(look, _) = reloads.glance(None, false, Cause::Interval) else {
            panic!("the file is not live");
        };
        assert!(matches!(reloads.glance(Some(&look), true, Cause::Interval), Glance::Settled));
        assert_eq!(lock(&reloads.subject).live, 2);
        // It is known from now on.
        assert_eq!(reloads.reload(Cause::Watch).unwrap(), Reloaded::Unchanged(2));
        assert_eq!(reloads.state().counts(), [("replaced", 1), ("unchanged", 0), ("failed", 0)]);
    }

    /// The caller got 503, and the log had no line of ours about the reason.
    #[tokio::test]
    async fn panics_in_reloads_by_request_are_logged_once_a_second() {
        let lines = Lines::default();
        let _log = lines.start();
        let folder = tempfile::tempdir().unwrap();
        let reloads = Arc::new(Panicking::reloads(&folder.path().join("file.yaml"), 3));
        for _ in 0..3 {
            assert!(reread(Arc::clone(&reloads) as Arc<dyn Reread>, Cause::Request).await.is_none());
        }
        let log = lines.text();
        assert!(log.contains("ERROR") && log.contains("cause=\"request\""), "{log}");
        assert!(log.contains("a bug of ours"), "{log}");
        assert!(log.matches("a reload ended unexpectedly").count() <= 2, "{log}");
        assert!(reread(reloads, Cause::Request).await.is_some_and(|reloaded| reloaded.is_ok()));
    }

    #[test]
    fn prints_the_first_of_many_and_the_number_of_the_rest() {
        let said = |count: usize| in_short((0..count).map(|number| number.to_string()), "; ");
        assert_eq!(said(2), "0; 1");
        assert!(said(20).ends_with("; 19"));
        assert!(said(22).ends_with("; 19; and 2 more"));
    }
}
