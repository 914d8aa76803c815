//! Reloads files while the service runs, and makes their content live.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinError;
use tracing::error;

use super::cause::Cause;
use super::record::{ReloadError, ReloadState};
use super::target::{Live, LiveTarget, REPEAT_GAP, ReloadResult};
use crate::observe::log_gap::LogGap;

/// One file, or several that belong together.
pub(crate) trait FileSource: Send + 'static {
    /// The files as read at one moment.
    type Reading: Send + Sync + 'static;

    type Content;

    type Error: Display;

    /// The name of the files in messages.
    fn name(&self) -> &str;

    /// The files and folders as the user named them.
    fn paths(&self) -> Vec<PathBuf>;

    /// Reads the files as they are now, valid or not.
    fn read(&self) -> Self::Reading;

    /// Returns whether nothing was written between two readings, as far as can be seen.
    fn is_same(&self, earlier: &Self::Reading, later: &Self::Reading) -> bool;

    /// Returns whether this is what was parsed last.
    fn is_known(&self, reading: &Self::Reading) -> bool;

    /// Returns whether there may be several files. One file that was renamed into place then shows nothing about the
    /// others.
    fn are_several(&self) -> bool;

    /// Returns how long the files have to stay unchanged before they count.
    fn wait(&self, reading: &Self::Reading) -> Duration;

    /// Parses what was read, and remembers it.
    ///
    /// # Errors
    ///
    /// If a file could not be read, or is not valid.
    fn parse(&mut self, reading: Self::Reading) -> Result<Self::Content, Self::Error>;
}

/// The time for which files that look complete must stay unchanged.
pub(crate) const WAIT_IF_WHOLE: Duration = Duration::from_millis(100);

/// The time for which files that look incomplete must stay unchanged.
pub(crate) const WAIT_IF_HALF: Duration = Duration::from_secs(2);

/// Keeps a target in step with its files.
pub(crate) struct Reloads<S, T> {
    /// Held for a whole reload, so that reloads never overlap.
    parts: Mutex<(S, Live<T>)>,
    paths: Vec<PathBuf>,
    state: Arc<ReloadState>,
    panic_logged: LogGap,
}

/// The result of a look at files that may be half written.
#[derive(Debug)]
pub(crate) enum Glance<R> {
    /// The files were applied, or have not changed since they were.
    Settled,
    /// The files have not changed since the earlier look, but have to stay unchanged for longer.
    Same,
    /// The files have changed; look again after this time.
    Changed(R, Duration),
}

/// Files that can be reloaded, whatever they define.
pub(crate) trait Reload: Send + Sync {
    /// Returns the outcomes of reloads so far.
    fn state(&self) -> &Arc<ReloadState>;

    /// Reads the files again and makes them live, if they are valid and have changed. It reads and compiles on this
    /// thread; long files take longer. Call [`reload`] from async code.
    ///
    /// # Errors
    ///
    /// If the files cannot be read or are not valid. Nothing has changed then, and the log has every problem.
    fn reload(&self, cause: Cause) -> Result<ReloadResult, ReloadError>;

    /// Logs that a reload panicked, which is a bug of ours.
    fn log_panic(&self, cause: Cause, failure: &JoinError);
}

/// Reads the files on another thread, because large ones take a while. Returns `None` if that panicked, which is a bug
/// of ours and is logged; nothing has changed then.
pub(crate) async fn reload(
    reloads: Arc<dyn Reload>,
    cause: Cause,
) -> Option<Result<ReloadResult, ReloadError>> {
    let reader = Arc::clone(&reloads);
    let reloaded = tokio::task::spawn_blocking(move || reader.reload(cause)).await;
    reloaded.map_err(|failure| reloads.log_panic(cause, &failure)).ok()
}

impl<S: FileSource, T: LiveTarget<Content = S::Content>> Reload for Reloads<S, T> {
    fn state(&self) -> &Arc<ReloadState> {
        &self.state
    }

    fn reload(&self, cause: Cause) -> Result<ReloadResult, ReloadError> {
        let mut parts = lock(&self.parts);
        let reading = parts.0.read();
        self.apply(&mut parts, reading, cause)
    }

    fn log_panic(&self, cause: Cause, failure: &JoinError) {
        // Callers that may reload could fill the log with requests.
        if cause != Cause::Request || self.panic_logged.passes(REPEAT_GAP) {
            error!(cause = cause.name(), %failure, "a reload ended unexpectedly: nothing has changed");
        }
    }
}

impl<S: FileSource, T: LiveTarget<Content = S::Content>> Reloads<S, T> {
    /// `target` has the content of the files already.
    pub(crate) fn new(source: S, target: T) -> Self {
        let (live, paths) = (Live::new(target), source.paths());
        let state = Arc::clone(live.state());
        Self { parts: Mutex::new((source, live)), paths, state, panic_logged: LogGap::default() }
    }

    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Reads the files and applies them, unless they may be half written. Logs the result.
    ///
    /// `earlier` is the previous reading, if it required another. `is_over` is true if the files have been unchanged
    /// for the required time.
    pub(crate) fn glance(
        &self,
        earlier: Option<&S::Reading>,
        is_over: bool,
        cause: Cause,
    ) -> Glance<S::Reading> {
        let mut parts = lock(&self.parts);
        let (source, live) = &*parts;
        live.target.remind();
        let reading = source.read();
        let is_same = earlier.is_some_and(|earlier| source.is_same(earlier, &reading));
        let is_doubtful = cause.is_doubtful() || cause == Cause::Rename && source.are_several();
        if !is_doubtful || self.is_known(source, &reading) || is_same && is_over {
            // The result is already in the log.
            let _ = self.apply(&mut parts, reading, cause);
            return Glance::Settled;
        }
        if is_same {
            return Glance::Same;
        }
        let wait = source.wait(&reading);
        Glance::Changed(reading, wait)
    }

    fn apply(
        &self,
        (source, live): &mut (S, Live<T>),
        reading: S::Reading,
        cause: Cause,
    ) -> Result<ReloadResult, ReloadError> {
        if cause.is_guess() && self.is_known(source, &reading) {
            // The event was about another file in the folder.
            self.state.found_in_step();
            return Ok(ReloadResult::Unchanged(live.target.version()));
        }
        let outcome = match source.parse(reading) {
            Ok(content) => Ok(live.replace(content, source.name(), cause)),
            Err(error) => Err(live.fail(error, source.name(), cause)),
        };
        self.parts.clear_poison();
        outcome
    }

    /// Returns whether this is what was parsed last, and a reload of it has ended. A panic in a reload poisons the lock
    /// until another one ends, so the next look tries again.
    fn is_known(&self, source: &S, reading: &S::Reading) -> bool {
        !self.parts.is_poisoned() && source.is_known(reading)
    }
}

/// A panic under this lock leaves no half-made change, but perhaps files that were parsed and are not live; see
/// [`Reloads::is_known`].
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
