//! Makes the limits of responses live.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_envoy::{Domains, SameDomain, Warning};
use tollgate_policy::Printable;

use super::messages::envoy::service::discovery::v3::DiscoveryResponse;
use super::resources::{self, TYPE_URL};
use crate::decide::live_domains::LiveDomains;
use crate::live::cause::Cause;
use crate::live::record::ReloadState;
use crate::live::target::Live;
use crate::metrics::XdsStatus;
use crate::observe::live_warnings::{LiveWarning, LiveWarnings};
use crate::observe::shortened::shortened;
use crate::observe::warning_log;

/// The number of problems that a server is told at once.
const MAX_PROBLEMS: usize = 10;

/// The longest reason for a rejection, in characters.
const MAX_REASON: usize = 4_000;

/// The limits that are live, and the status of the server that sends them.
pub(crate) struct XdsLimits {
    /// Held for a whole update, so that updates never overlap.
    applied: Mutex<AppliedLimits>,
    reloads: Arc<ReloadState>,
    same_domain: SameDomain,
    status: Arc<XdsStatus>,
}

struct AppliedLimits {
    live: Live<LiveDomains>,
    /// Warnings that were logged already.
    warned: Box<[Warning]>,
    /// The same, for the live page.
    live_warnings: LiveWarnings,
}

impl XdsLimits {
    pub(crate) fn new(
        target: LiveDomains,
        same_domain: SameDomain,
        status: Arc<XdsStatus>,
        live_warnings: LiveWarnings,
    ) -> Self {
        let live = Live::new(target);
        let reloads = Arc::clone(live.state());
        let applied = Mutex::new(AppliedLimits { live, warned: [].into(), live_warnings });
        Self { applied, reloads, same_domain, status }
    }

    /// Returns the outcomes of updates so far.
    pub(crate) const fn reloads(&self) -> &Arc<ReloadState> {
        &self.reloads
    }

    pub(super) const fn status(&self) -> &Arc<XdsStatus> {
        &self.status
    }

    /// Makes the limits of a response live. It reads and compiles on this thread; a large response takes a while.
    ///
    /// # Errors
    ///
    /// If the response is not valid. Nothing has changed then. The reason is for the server.
    pub(super) fn apply(&self, response: DiscoveryResponse) -> Result<(), String> {
        let DiscoveryResponse { version_info, resources, type_url, .. } = response;
        // Held while it reads, so that a stream that was given up cannot apply its last response after those of the
        // next stream.
        let mut applied = self.lock();
        let read = if type_url == TYPE_URL {
            resources::read(resources, self.same_domain).map_err(reason)
        } else {
            let type_url = Printable(&type_url);
            let reason = format!("the response has the type `{type_url}`, but `{TYPE_URL}` was requested");
            Err(shortened(&reason, MAX_REASON))
        };
        match read {
            Ok(domains) => {
                applied.accept(domains, self.status.server());
                self.status.note_accepted(&version_info);
                Ok(())
            }
            Err(reason) => {
                applied.reject(&reason, self.status.server());
                self.status.note_rejected();
                Err(reason)
            }
        }
    }

    /// Notes an update that cannot be used, for this reason.
    pub(super) fn reject(&self, reason: &str) {
        self.lock().reject(reason, self.status.server());
        self.status.note_rejected();
    }

    /// Notes that the server has nothing newer.
    pub(super) fn note_in_step(&self) {
        self.reloads.found_in_step();
    }

    /// A panic under this lock leaves no half-made change.
    fn lock(&self) -> MutexGuard<'_, AppliedLimits> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AppliedLimits {
    fn accept(&mut self, domains: Domains, server: &str) {
        if *self.warned != *domains.warnings() {
            self.warned = domains.warnings().into();
            self.live_warnings.replace(self.warned.iter().map(LiveWarning::from));
            warning_log::log_first(self.warned.iter(), server, "correct these to see them");
        }
        self.live.replace(domains, server, Cause::Xds);
    }

    fn reject(&mut self, reason: &str, server: &str) {
        // The stream has the reason as well.
        let _ = self.live.fail(reason, server, Cause::Xds);
    }
}

/// Returns the reason for a rejection, within bounds.
fn reason(mut problems: Vec<String>) -> String {
    let more = problems.len().saturating_sub(MAX_PROBLEMS);
    problems.truncate(MAX_PROBLEMS);
    if more > 0 {
        problems.push(format!("and {more} more problem{}", if more == 1 { "" } else { "s" }));
    }
    shortened(&problems.join("\n"), MAX_REASON)
}
