//! Busy polling: a reply to a crowd is looked for a while before the runtime is left to sleep.
//!
//! A processor that has fallen asleep takes tens of microseconds to wake, most of all on a virtual machine, and
//! whoever wakes it pays as much. A server that is near has answered by then, and goes without sleep itself. Other
//! tasks of the runtime come first: only what would have been sleep is spent.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::task::yield_now;

use crate::time::instant;

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
    /// Awaits the reply to a crowd, whose requests are sent by the first poll.
    pub(super) async fn reply<T>(&self, mut reply: impl Future<Output = T> + Unpin) -> T {
        let sent = instant();
        if !self.is_far.load(Relaxed) {
            for _ in 0..LOOKS {
                tokio::select! {
                    biased;
                    reply = &mut reply => return reply,
                    () = yield_now() => {}
                }
            }
        }
        let reply = reply.await;
        self.is_far.store(sent.elapsed() > NEAR, Relaxed);
        reply
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use tokio::time::{sleep, timeout};

    use super::*;

    /// Whether a reply is found that is there at the third look and tells nobody.
    async fn finds(busy_poll: &BusyPoll) -> bool {
        let mut looks = 0;
        let reply = poll_fn(|_| {
            looks += 1;
            if looks < 3 { Poll::Pending } else { Poll::Ready(()) }
        });
        timeout(Duration::from_secs(1), busy_poll.reply(reply)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_is_looked_for_unless_the_last_was_late() {
        let busy_poll = BusyPoll::default();
        assert!(finds(&busy_poll).await);
        busy_poll.reply(pin!(sleep(Duration::from_millis(1)))).await;
        assert!(!finds(&busy_poll).await);
        busy_poll.reply(pin!(yield_now())).await;
        assert!(finds(&busy_poll).await);
    }

    #[tokio::test(start_paused = true)]
    async fn others_have_their_turn_meanwhile() {
        let (busy_poll, other, begun) = (BusyPoll::default(), tokio::spawn(async {}), instant());
        let reply = poll_fn(|_| if other.is_finished() { Poll::Ready(()) } else { Poll::Pending });
        let _ = timeout(Duration::from_secs(1), busy_poll.reply(reply)).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "it was found without falling asleep");
    }
}
