//! Busy polling: a reply to a crowd is looked for a while before the runtime is left to sleep.
//!
//! A processor that has fallen asleep takes tens of microseconds to wake, most of all on a virtual machine, and
//! whoever wakes it pays as much. A server that is near has answered by then, and goes without sleep itself. Other
//! tasks of the runtime come first: only what would have been sleep is spent.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::task::yield_now;

/// So many requests are a crowd. For fewer, looking costs more than to be woken.
pub(super) const CROWD: usize = 16;

/// How often a reply is looked for: some 100 us in all if there is nothing else to do.
const LOOKS: usize = 128;

/// A server that takes longer is not near, and its replies are not looked for.
const NEAR: Duration = Duration::from_micros(300);

/// Whether replies are worth looking for.
#[derive(Debug, Default)]
pub(super) struct BusyPoll {
    /// What the last reply to a crowd has shown. Relaxed: it stands for itself, and if it is wrong, a little time is
    /// lost.
    is_far: AtomicBool,
}

impl BusyPoll {
    /// Looks for the reply to a crowd, for as long as that is worth while.
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

    /// The reply to a crowd took so long.
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
