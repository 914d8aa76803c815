//! Makes new content live, whatever its source: either all of it is valid and becomes live immediately, or nothing
//! changes. Each outcome is logged, counted, and kept for a while.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tollgate_policy::Generation;
use tracing::field::display;
use tracing::{error, info};

use super::cause::Cause;
use super::record::{Changes, ReloadError, ReloadFailure, ReloadOutcome, ReloadRecord, ReloadState};
use crate::observe::log_gap::LogGap;

/// The time that one log line covers for requests to reload and updates that change nothing.
pub(super) const REPEAT_GAP: Duration = Duration::from_secs(1);

/// Something that is live, and can be replaced as a whole.
pub(crate) trait LiveTarget: Send + 'static {
    /// Its name in messages, such as "policies are replaced".
    const NAME: &'static str;

    /// What becomes live.
    type Content;

    /// Makes the content live. Returns what has changed; `None` if it is the live content. `source` is its name in
    /// messages.
    fn go_live(&mut self, content: Self::Content, source: &str) -> Option<Changes>;

    /// Returns the live version, counted from 1.
    fn version(&self) -> u64;

    /// Returns the generation of the live content, if it has one.
    fn generation(&self) -> Option<Generation> {
        None
    }

    /// Called at each look at the source, at least every half minute.
    fn remind(&self) {}
}

/// A target, and the outcomes of its reloads.
pub(crate) struct Live<T> {
    pub(super) target: T,
    state: Arc<ReloadState>,
    repeat_logged: LogGap,
}

/// The result of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReloadResult {
    /// New content is live, under this version.
    Replaced(u64),
    /// The source matches the live content, which has this version.
    Unchanged(u64),
}

impl<T: LiveTarget> Live<T> {
    pub(crate) fn new(target: T) -> Self {
        Self { target, state: Arc::new(ReloadState::new()), repeat_logged: LogGap::default() }
    }

    pub(crate) const fn state(&self) -> &Arc<ReloadState> {
        &self.state
    }

    /// Makes this content live, unless it is.
    pub(crate) fn replace(&mut self, content: T::Content, source: &str, cause: Cause) -> ReloadResult {
        let changes = self.target.go_live(content, source);
        let version = self.target.version();
        let (outcome, reloaded) = match changes {
            None => (ReloadOutcome::Unchanged, ReloadResult::Unchanged(version)),
            Some(changes) => (ReloadOutcome::Replaced(changes), ReloadResult::Replaced(version)),
        };
        let record = self.state.add(cause, version, outcome);
        self.log(&record, source);
        reloaded
    }

    /// Notes that new content is not valid, or cannot be read.
    pub(crate) fn fail(&mut self, error: impl Display, source: &str, cause: Cause) -> ReloadError {
        let failure = Arc::new(ReloadFailure::new(error.to_string()));
        // The watch reports every event in the folder, and the log may be written there. So an unreadable file is
        // logged once; otherwise each line would cause the next.
        let known = self.state.failure().filter(|known| known.to_string() == failure.to_string());
        if let Some(known) = known.as_ref().filter(|_| cause.is_guess()) {
            return ReloadError(Arc::clone(known));
        }
        let outcome = ReloadOutcome::Failed(Arc::clone(&failure));
        let record = self.state.add(cause, self.target.version(), outcome);
        if known.is_none() || self.may_repeat(cause) {
            self.log(&record, source);
        }
        ReloadError(failure)
    }

    fn log(&self, record: &ReloadRecord, source: &str) {
        let (cause, version) = (record.cause.name(), record.version);
        let generation = self.target.generation().map(display);
        let (file, server) = match record.cause {
            Cause::Xds => (None, Some(source)),
            _ => (Some(source), None),
        };
        match &record.outcome {
            ReloadOutcome::Replaced(changes) => {
                let changes = changes.joined("; ");
                info!(file, server, cause, version, generation, changes, "{} are replaced", T::NAME);
            }
            ReloadOutcome::Unchanged if self.may_repeat(record.cause) => {
                info!(file, server, cause, version, generation, "{} are unchanged", T::NAME);
            }
            ReloadOutcome::Unchanged => {}
            ReloadOutcome::Failed(failure) => {
                error!(file, server, cause, version, generation, "{} stay as they are\n{failure}", T::NAME);
            }
        }
    }

    /// Returns whether the log has room for a line that says the same as an earlier one. Otherwise, callers that may
    /// reload could fill the log with requests, and a management server with updates.
    fn may_repeat(&self, cause: Cause) -> bool {
        !matches!(cause, Cause::Request | Cause::Xds) || self.repeat_logged.passes(REPEAT_GAP)
    }
}
