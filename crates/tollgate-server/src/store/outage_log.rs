//! Logs when a shared store stops answering, and when it answers again.
//!
//! The middleware logs the same lines. A timer logs gathered outages here, even if no request follows.

use tokio::sync::Notify;
use tokio::time;
use tollgate_wire::outage::{self, OutageLine, Outages};

use crate::observe::public_url::PublicUrl;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct OutageLog {
    outages: Outages,
    gathered: Notify,
    /// The address of the live page's view of the store, for all lines.
    view: Option<Box<str>>,
}

impl OutageLog {
    /// Lets lines lead to the live page.
    pub(super) fn linked_to(page: Option<&PublicUrl>) -> Self {
        Self { view: page.map(|page| page.store().into()), ..Self::default() }
    }

    /// Returns the address of the live page's view of the store.
    pub(super) fn view(&self) -> Option<&str> {
        self.view.as_deref()
    }

    /// Notes a failed step. Lets the caller tell the beginning of an outage, with its reason, and returns whether one
    /// began.
    pub(super) fn failed(&self, tell: impl FnOnce()) -> bool {
        let line = self.outages.failed(|line| if line == OutageLine::Gone { tell() } else { self.log(line) });
        if line.is_none() && self.outages.are_gathered() {
            self.gathered.notify_one();
        }
        line == Some(OutageLine::Gone)
    }

    /// Notes an answered step, and logs the end of an outage.
    pub(super) fn answered(&self) {
        self.outages.answered(|line| self.log(line));
    }

    /// Keeps logging gathered outages, each time after the gap.
    pub(crate) async fn keep_telling(&self) {
        loop {
            self.gathered.notified().await;
            // A step may have logged a line meanwhile, with a gap of its own.
            while self.outages.are_gathered() {
                time::sleep(outage::GAP).await;
                self.outages.due(|line| self.log(line));
            }
        }
    }

    /// Logs the gathered outages before their time is up.
    pub(crate) fn tell(&self) {
        self.outages.gathered(|line| self.log(line));
    }

    fn log(&self, line: OutageLine) {
        line.log(None, self.view());
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Clock, SystemClock};

    use super::*;

    /// The timer logged outages that were gathered since a step's line, less than ten seconds after that line.
    #[tokio::test(start_paused = true)]
    async fn the_timer_logs_nothing_within_the_gap() {
        loop {
            let (log, begun) = (OutageLog::default(), SystemClock.now());
            log.failed(|| {});
            log.answered();
            log.failed(|| {});
            // The timer's clock runs ahead, and that of the outages stands nearly still.
            let told = time::timeout(6 * outage::GAP, log.keep_telling()).await;
            assert!(told.is_err(), "it keeps telling");
            let are_gathered = log.outages.are_gathered();
            // On a machine that stood still, the gap was over.
            if SystemClock.now() < begun + outage::GAP {
                assert!(are_gathered);
                break;
            }
        }
    }
}
