//! Logs when a shared store stops answering, and when it answers again.
//!
//! The middleware logs the same lines. A timer logs gathered outages here, even if no request follows.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time;
use tollgate_tower::outage::{self, OutageLine, Outages};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct OutageLog {
    outages: Outages,
    gathered: Notify,
    /// Held while a line is written, so that the end of an outage is not logged before its beginning, and no failed step is
    /// answered before the line about it.
    order: Mutex<()>,
}

impl OutageLog {
    /// Notes a failed step. Tells whether to log the beginning of an outage, with its reason.
    pub(super) fn failed(&self, tell: impl FnOnce(bool)) {
        let _in_order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let line = self.outages.failed();
        log(line);
        tell(line == Some(OutageLine::Gone));
        if line.is_none() && self.outages.are_gathered() {
            self.gathered.notify_one();
        }
    }

    /// Notes an answered step, and logs the end of an outage.
    pub(super) fn answered(&self) {
        if let Some(line) = self.outages.answered() {
            let _in_order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
            line.log(None);
        }
    }

    /// Keeps logging gathered outages, each time after the gap.
    pub(crate) async fn keep_telling(&self) {
        loop {
            self.gathered.notified().await;
            // A step may have logged a line meanwhile, with a gap of its own.
            while self.outages.are_gathered() {
                time::sleep(outage::GAP).await;
                log(self.outages.due());
            }
        }
    }

    /// Logs the gathered outages before their time is up.
    pub(crate) fn tell(&self) {
        log(self.outages.gathered());
    }
}

fn log(line: Option<OutageLine>) {
    if let Some(line) = line {
        line.log(None);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::thread;

    use tollgate::{Clock, SystemClock};

    use super::*;

    /// Requests were admitted uncounted before the line about the outage, and its end was logged before its beginning.
    #[test]
    fn nothing_goes_on_before_a_line_is_written() {
        let (log, begun, is_told) = (OutageLog::default(), Barrier::new(2), AtomicBool::new(false));
        thread::scope(|threads| {
            threads.spawn(|| {
                log.failed(|begins| {
                    assert!(begins);
                    begun.wait();
                    (0..10_000).for_each(|_| thread::yield_now());
                    is_told.store(true, SeqCst);
                });
            });
            begun.wait();
            log.failed(|begins| assert!(!begins && is_told.load(SeqCst)));
            log.answered();
        });
    }

    /// The timer logged outages that were gathered since a step's line, less than ten seconds after that line.
    #[tokio::test(start_paused = true)]
    async fn the_timer_logs_nothing_within_the_gap() {
        loop {
            let (log, begun) = (OutageLog::default(), SystemClock.now());
            log.failed(drop);
            log.answered();
            log.failed(drop);
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
