//! Busy polling: a reply for many requests is polled briefly before the runtime may sleep.
//!
//! Waking a sleeping processor takes tens of microseconds, most of all on a virtual machine, and costs the waking side
//! as much. Within that time a nearby server answers. Other tasks of the runtime come first, so polling only uses time
//! in which the processor would have slept.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::task::yield_now;

/// The least requests for which polling pays off. For fewer, it costs more than a wake-up.
pub(super) const CROWD: usize = 16;

/// How often a reply is polled: for some 100 us if there is nothing else to do.
const LOOKS: usize = 128;

/// A server that takes longer is not near, so its replies are not polled.
const NEAR: Duration = Duration::from_micros(300);

/// Whether polling for replies pays off.
#[derive(Debug, Default)]
pub(super) struct BusyPoll {
    /// Whether the last reply to many requests was fast. Relaxed: it guards no other memory, and a wrong value only
    /// costs a little time.
    is_far: AtomicBool,
}

impl BusyPoll {
    /// Polls for the reply to many requests while that pays off.
    pub(super) async fn look_for(&self, is_there: impl Fn() -> bool) {
        if self.is_far.load(Relaxed) {
            return;
        }
        for _ in 0..LOOKS {
            if is_there() {
                return;
            }
            yield_now().await;
        }
    }

    /// Records the time of a reply to many requests.
    pub(super) fn learn(&self, took: Duration) {
        self.is_far.store(took > NEAR, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::time::instant;

    /// How often a reply is looked for that is there at the third look.
    async fn looks(busy_poll: &BusyPoll) -> usize {
        let looks = Cell::new(0);
        let is_there = || {
            looks.set(looks.get() + 1);
            looks.get() == 3
        };
        busy_poll.look_for(is_there).await;
        looks.get()
    }

    #[tokio::test]
    async fn a_reply_is_looked_for_unless_the_last_was_late() {
        let busy_poll = BusyPoll::default();
        assert_eq!(looks(&busy_poll).await, 3);
        busy_poll.learn(Duration::from_millis(1));
        assert_eq!(looks(&busy_poll).await, 0);
        busy_poll.learn(Duration::from_micros(100));
        assert_eq!(looks(&busy_poll).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn others_have_their_turn_meanwhile() {
        let (busy_poll, other, begun) = (BusyPoll::default(), tokio::spawn(async {}), instant());
        busy_poll.look_for(|| other.is_finished()).await;
        assert!(other.is_finished());
        assert_eq!(begun.elapsed(), Duration::ZERO, "it was found without falling asleep");
    }
}
