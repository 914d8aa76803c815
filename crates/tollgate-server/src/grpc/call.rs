//! A call of a method that takes descriptors, once its message has been read.

use std::pin::pin;
use std::time::{Duration, Instant};

use http::Request;
use hyper::body::Incoming;

use super::any_bytes::DescribedRequest;
use super::deadline::Late;
use super::{Service, any_bytes, deadline, unary};
use crate::access::authorization::authorize;
use crate::access::caller::Caller;
use crate::access::listener::Listener;
use crate::access::peer::ConnectionPeer;
use crate::access::scope::Scope;
use crate::answer::rejection::Rejection;
use crate::net::budget::{HeldBytes, NoRoom};
use crate::observe::stopwatch::Stopwatch;

/// The caller, and what it asks.
pub(super) struct ReceivedCall<M> {
    pub(super) caller: Caller,
    pub(super) message: M,
    /// How long the caller still waits, if it has set a time, and until when.
    pub(super) left: Option<Duration>,
    pub(super) caller_until: Option<Instant>,
}

impl Service {
    /// Finds the caller and reads the message.
    pub(super) async fn receive<M: DescribedRequest>(
        &self,
        listener: &Listener,
        peer: &ConnectionPeer,
        held: &mut HeldBytes,
        request: Request<Incoming>,
    ) -> Result<ReceivedCall<M>, Rejection> {
        let caller = authorize(Scope::Check, listener, peer, request.headers())?;
        let limit = deadline::of(request.headers())?;
        let limit = limit.map(|limit| (Stopwatch::start(), limit));
        let read = pin!(unary::read(request, &self.resources.budget, any_bytes::decode));
        let read = deadline::within(limit.map(|(_, limit)| limit), Late::Uncounted, read).await?;
        let (message, length): (M, usize) = read;
        let descriptors = message.descriptors();
        let entries = descriptors.iter().map(|descriptor| descriptor.entries.len()).sum();
        let room = held.note_message(length, descriptors.len(), entries);
        room.map_err(|NoRoom| Rejection::no_room())?;
        let left = limit.map(|(begun, limit)| limit.saturating_sub(begun.elapsed()));
        // A store that hangs is late while the caller still waits, and the policies decide without it.
        let caller_until = limit.and_then(|(begun, limit)| begun.after(limit));
        Ok(ReceivedCall { caller, message, left, caller_until })
    }
}
