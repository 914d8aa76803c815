//! Logs when a shared store stops answering, and when it answers again.
//!
//! The middleware logs the same lines. Here a timer tells of gathered outages, also if no request follows.

use tokio::sync::Notify;
use tokio::time;
use tollgate_tower::outage::{self, OutageLine};
use tracing::{info, warn};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Outages {
    outages: outage::Outages,
    gathered: Notify,
}

impl Outages {
    /// Notes a failed step. Returns whether to log the beginning of an outage, with its reason.
    pub(super) fn failed(&self) -> bool {
        let line = self.outages.failed();
        log(line);
        if line.is_none() && self.outages.are_gathered() {
            self.gathered.notify_one();
        }
        line == Some(OutageLine::Gone)
    }

    /// Notes an answered step, and logs the end of an outage.
    pub(super) fn answered(&self) {
        log(self.outages.answered());
    }

    /// Keeps logging gathered outages, each time after the gap.
    pub(crate) async fn keep_telling(&self) {
        loop {
            self.gathered.notified().await;
            time::sleep(outage::GAP).await;
            self.tell();
        }
    }

    /// Logs the gathered outages.
    pub(crate) fn tell(&self) {
        log(self.outages.gathered());
    }
}

/// Logs a line that needs no reason.
fn log(line: Option<OutageLine>) {
    match line {
        Some(OutageLine::Back { failed }) => info!(failed, "the store answers again"),
        Some(OutageLine::Again { outages, failed, is_away }) => {
            let store = if is_away { "is away" } else { "answers" };
            warn!(outages, failed, store, "the store was away again since the last line about it");
        }
        _ => {}
    }
}
