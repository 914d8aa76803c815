//! Keeps a stream to the management server open.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::time;
use tollgate_policy::Printable;
use tonic::Status;
use tracing::{info, warn};

use super::backoff::jittered;
use super::connect;
use super::limits::XdsLimits;
use super::settings::XdsSettings;
use super::stream::{self, StreamEnd};
use crate::observe::log_gap::LogGap;
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
    /// Whether a connection was open.
    was_open: bool,
    /// Whether the server has sent something.
    has_sent: bool,
}

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
                if lost.has_sent {
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
                return LostStream { reason, was_open: false, has_sent: false };
            }
        };
        let (end, has_sent) = stream::follow(connection, &self.settings, &self.limits).await;
        let reason = match end {
            StreamEnd::Closed => "the server has ended the stream".to_owned(),
            StreamEnd::Failed(status) => words(&status),
            StreamEnd::Unread => "the server does not read what it is sent".to_owned(),
        };
        LostStream { reason, was_open: true, has_sent }
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
        let status = self.limits.status();
        let (was_connected, has_room) = (status.set_connected(false), self.failure_logged.passes(LOG_GAP));
        if was_connected || has_room {
            let (server, reason) = (status.server(), &lost.reason);
            let limits = match status.last_accepted() {
                Some(_) => "the last limits stay live",
                None => "there are no limits yet",
            };
            warn!(server, reason, "no connection to the xDS server: {limits}");
        }
    }
}

/// Returns the words of the server, or of the connection.
fn words(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => WithSources(source).to_string(),
        None => format!("{}: {}", status.code().description(), Printable(status.message())),
    }
}
