//! Calls in flight to a server.

use std::sync::Arc;

use tokio::time::timeout_at;

use super::connection::Replies;
use super::state::{Link, NodeState};
use crate::calls::{Calls, InFlightGuard};
use crate::resp::RespValue;
use crate::time::{Instant, instant};
use crate::trouble::{ConnectTrouble, Trouble};

/// A connection that works, over which calls can be sent without a wait.
pub(crate) struct Sender {
    pub(super) shared: Arc<NodeState>,
    pub(super) link: Arc<Link>,
}

/// Calls that were sent to a server together, and their outstanding replies.
pub(crate) struct Exchange {
    shared: Arc<NodeState>,
    link: Arc<Link>,
    replies: Replies,
    sent: Instant,
}

impl Sender {
    /// Sends calls immediately.
    ///
    /// # Errors
    ///
    /// If the connection has ended. Then nothing was sent.
    pub(crate) fn send(self, calls: &Calls) -> Result<Exchange, Trouble> {
        let Self { shared, link } = self;
        let sent = instant();
        let replies = link.connection.send(calls).inspect_err(|_| shared.close(&link, None))?;
        Ok(Exchange { shared, link, replies, sent })
    }
}

impl Exchange {
    /// Returns the time at which the calls were sent.
    pub(crate) const fn sent(&self) -> Instant {
        self.sent
    }

    /// The next reply.
    ///
    /// # Cancel safety
    ///
    /// No reply is lost.
    pub(crate) async fn next(&mut self) -> Result<RespValue, Trouble> {
        let reply = self.next_as_it_is().await?;
        let RespValue::Error(error) = reply else { return Ok(reply) };
        let trouble = Trouble::of_reply(&error, &self.shared.address);
        if matches!(&trouble, Trouble::Refused(refusal) if refusal.meaning().is_replica) {
            // It is not a primary any more and would go on refusing. Its name may now belong to another server.
            self.shared.close(&self.link, Some(ConnectTrouble::Replica));
        }
        if matches!(&trouble, Trouble::Stopped(code) if code.is_missing_right()) {
            // The user had the right when this connection was set up. The next one finds out which right it is.
            self.shared
                .close(&self.link, Some(ConnectTrouble::NoRight("run a command of the counting script")));
        }
        Err(trouble)
    }

    /// The next reply, be it an error of the server.
    pub(super) async fn next_as_it_is(&mut self) -> Result<RespValue, Trouble> {
        self.replies.next().await
    }

    /// The reply to an only call, until the deadline.
    pub(super) async fn only(mut self, deadline: Instant) -> Result<RespValue, Trouble> {
        match timeout_at(deadline, self.next()).await {
            Ok(reply) => reply,
            Err(_) => Err(self.give_up()),
        }
    }

    /// Returns whether the next reply has arrived.
    pub(crate) fn is_there(&self) -> bool {
        self.replies.is_there()
    }

    /// Keeps this guard until all replies have arrived or the connection ends, even if no caller waits for that.
    pub(crate) fn hold(&self, guard: InFlightGuard) {
        self.replies.hold(guard);
    }

    /// Records that there was no reply in time, and returns the reason.
    pub(crate) fn give_up(self) -> Trouble {
        let breaker = self.link.connection.breaker();
        let trouble = if breaker.is_late() { Trouble::TooSlow } else { Trouble::TimedOut };
        if breaker.unanswered(self.sent, instant()) {
            self.shared.close(&self.link, Some(ConnectTrouble::Silent));
            self.link.connection.cut();
            self.shared.links.borrow().up.iter().for_each(|other| other.connection.breaker().doubt());
        }
        trouble
    }
}
