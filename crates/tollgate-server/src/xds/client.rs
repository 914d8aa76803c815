//! Keeps a stream to the management server open.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::time;
use tracing::{info, warn};

use super::backoff::jittered;
use super::connect;
use super::limits::XdsLimits;
use super::settings::{LimitsAtStart, XdsSettings};
use super::stream;
use crate::metrics::XdsStatus;
use crate::observe::log_gap::LogGap;
use crate::observe::stopwatch::Stopwatch;
use crate::observe::with_sources::WithSources;

/// The pause in the log after a line about a server that cannot be reached.
const LOG_GAP: Duration = Duration::from_secs(60);

/// The client of a management server.
pub(crate) struct XdsClient {
    settings: XdsSettings,
    limits: Arc<XdsLimits>,
    failure_logged: LogGap,
}

/// Why a stream is followed by another.
struct LostStream {
    reason: String,
    /// Whether the server has kept it open.
    was_open: bool,
    /// Whether the stream has lived for longer than the longest wait.
    was_long: bool,
}

/// An open connection in the figures, until it is dropped.
struct OpenNote<'a>(&'a XdsStatus);

impl XdsClient {
    pub(crate) fn new(settings: XdsSettings, limits: Arc<XdsLimits>) -> Self {
        Self { settings, limits, failure_logged: LogGap::default() }
    }

    /// Follows the limits of the server until the service stops. A signal makes it connect again at once.
    pub(crate) async fn follow(self, mut hangup: Signal) {
        let certificates = self.settings.server.certificates.clone();
        let following = async {
            match &certificates {
                Some(certificates) => Arc::clone(certificates).follow().await,
                None => std::future::pending().await,
            }
        };
        let renewed = || async {
            match &certificates {
                Some(certificates) => certificates.renewed().await,
                None => std::future::pending().await,
            }
        };
        let streaming = async {
            let mut failures = 0;
            loop {
                let lost = tokio::select! {
                    lost = self.stream() => lost,
                    () = renewed() => continue,
                    _ = hangup.recv() => {
                        info!(server = self.limits.status().server(), "SIGHUP: connecting to the xDS server again");
                        continue;
                    }
                };
                self.note_lost(&lost);
                // A server that sends something and ends each stream is not asked at once, again and again.
                if lost.was_long {
                    failures = 0;
                }
                let wait = self.wait(failures, &lost);
                failures = failures.saturating_add(1);
                tokio::select! {
                    () = time::sleep(wait) => {}
                    () = renewed() => {}
                    _ = hangup.recv() => {}
                }
            }
        };
        tokio::select! {
            () = following => {}
            () = streaming => {}
        }
    }

    /// Connects, and follows the limits until the stream ends.
    async fn stream(&self) -> LostStream {
        let connection = match connect::open(&self.settings.server).await {
            Ok(connection) => connection,
            Err(error) => {
                let reason = WithSources(&error).to_string();
                return LostStream { reason, was_open: false, was_long: false };
            }
        };
        let opened = Stopwatch::start();
        let mut open = None;
        let note_open = || {
            open.get_or_insert_with(|| OpenNote::new(self.limits.status()));
        };
        let reason = stream::follow(connection, &self.settings, &self.limits, note_open).await;
        let was_long = opened.elapsed() > self.settings.backoff.max;
        LostStream { reason, was_open: open.is_some(), was_long }
    }

    fn wait(&self, failures: u32, lost: &LostStream) -> Duration {
        let random = fastrand::f64();
        match self.settings.connect_retry.filter(|_| !lost.was_open) {
            Some(wait) if self.settings.backoff.has_jitter => jittered(wait, random),
            Some(wait) => wait,
            None => self.settings.backoff.wait(failures, random),
        }
    }

    fn note_lost(&self, lost: &LostStream) {
        let has_room = self.failure_logged.passes(LOG_GAP);
        if !lost.was_open && !has_room {
            return;
        }
        let status = self.limits.status();
        let (server, reason) = (status.server(), &lost.reason);
        let effect = match (status.last_accepted(), self.settings.at_start) {
            (Some(_), _) => "the last limits stay live",
            (None, LimitsAtStart::Awaited) => "without limits, no request gets a decision",
            (None, LimitsAtStart::None) => "without limits, every request is admitted",
        };
        warn!(server, reason, "no connection to the xDS server: {effect}");
    }
}

impl<'a> OpenNote<'a> {
    fn new(status: &'a XdsStatus) -> Self {
        status.set_connected(true);
        info!(server = status.server(), "connected to the xDS server");
        Self(status)
    }
}

impl Drop for OpenNote<'_> {
    fn drop(&mut self) {
        self.0.set_connected(false);
    }
}
