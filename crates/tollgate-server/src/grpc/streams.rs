//! Streams of health and reflection: they are long-lived, so their number and their age are limited.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::net::budget::{Budget, HeldBytes, NoRoom};
use crate::net::drain::{Phase, Pressure};
use crate::net::timeouts::{Activity, PendingAnswer};

/// Streams that may be open on one connection.
const MAX_OF_CONNECTION: usize = 8;

/// The maximum number of open streams. They hold at most a quarter of the memory for requests.
const MAX: usize = 256;

/// The memory of a stream: its task, tonic's buffers, and a message that waits to be read.
const MEMORY: usize = 16 * 1024;

/// The interval at which a stream checks whether it must end.
const LOOK: Duration = Duration::from_secs(1);

/// The number of checks after which a stream ends. Clients that still need it open another.
const LOOKS: usize = 600;

/// The number of open streams, and its bound. Clones share the number.
#[derive(Clone)]
pub(super) struct Streams {
    open: Arc<AtomicUsize>,
    most: usize,
}

/// A place among the open streams, which is free again when it is dropped.
struct StreamPlace(Arc<AtomicUsize>);

/// The room of one stream, and when it has to end.
pub(super) struct Stay {
    over: Pin<Box<dyn Future<Output = &'static str> + Send>>,
    /// The client must read the first message within the time limit of any other answer.
    untouched: Option<PendingAnswer>,
    _room: (HeldBytes, [StreamPlace; 2]),
}

impl Streams {
    pub(super) fn of_connection() -> Self {
        Self::new(MAX_OF_CONNECTION)
    }

    pub(super) fn of_listener(budget: &Budget) -> Self {
        Self::new(MAX.min(budget.max() / 4 / MEMORY))
    }

    fn new(most: usize) -> Self {
        Self { open: Arc::default(), most }
    }

    /// Relaxed: the number guards no other memory.
    fn enter(&self) -> Result<StreamPlace, NoRoom> {
        let next = |open: usize| (open < self.most).then_some(open + 1);
        let entered = self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        entered.map(|_| StreamPlace(Arc::clone(&self.open))).map_err(|_| NoRoom)
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The room of one stream that has not begun.
pub(super) struct Room(HeldBytes, [StreamPlace; 2]);

impl Room {
    /// Takes a place on the connection and on the listener, and memory.
    pub(super) fn take(connection: &Streams, listener: &Streams, budget: &Budget) -> Result<Self, NoRoom> {
        let places = [connection.enter()?, listener.enter()?];
        Ok(Self(budget.hold(MEMORY)?, places))
    }

    /// The stay of the stream that has begun.
    pub(super) fn stay(self, phase: Phase, activity: Activity, answering: PendingAnswer) -> Stay {
        let Self(held, places) = self;
        Stay { over: Box::pin(over(phase, activity)), untouched: Some(answering), _room: (held, places) }
    }
}

impl Stay {
    /// Waits until the stream must end, and returns the reason. Called when the client has room for a message.
    pub(super) fn over(&mut self) -> Pin<&mut (dyn Future<Output = &'static str> + Send)> {
        self.untouched = None;
        self.over.as_mut()
    }
}

/// Waits until a stream has to end, and returns why.
async fn over(phase: Phase, activity: Activity) -> &'static str {
    let looks = async {
        for _ in 0..LOOKS {
            tokio::time::sleep(LOOK).await;
            if activity.is_closing() {
                return "the connection is about to close";
            }
            if phase.pressure() == Pressure::Crowd {
                return "room is wanted for calls";
            }
        }
        "the stream has reached its age"
    };
    tokio::select! {
        () = phase.draining() => "the service is about to stop",
        reason = looks => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::timeouts::Order;

    #[test]
    fn few_streams_hold_a_part_of_the_memory() {
        let budget = Budget::new(1024 * 1024);
        let (listener, connection) = (Streams::of_listener(&budget), Streams::of_connection());
        let take = |connection: &Streams| Room::take(connection, &listener, &budget).ok();
        let first: Vec<Room> = std::iter::from_fn(|| take(&connection)).collect();
        assert_eq!((first.len(), budget.held()), (8, 8 * MEMORY));
        let others: Vec<Room> = std::iter::from_fn(|| take(&Streams::of_connection())).take(100).collect();
        assert_eq!((others.len(), budget.held()), (8, 256 * 1024), "a quarter of it");
        drop(first);
        assert_eq!(budget.held(), 8 * MEMORY);
        assert!(take(&connection).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_at_its_age_or_with_its_connection() {
        let budget = Budget::new(1024 * 1024);
        let stay = |activity: &Activity| {
            let room = Room::take(&Streams::of_connection(), &Streams::of_connection(), &budget);
            let answering = activity.begin(Order::Interleaved);
            room.ok().expect("there is room").stay(Phase::default(), activity.clone(), answering)
        };
        let activity = Activity::interleaved();
        let mut aged = stay(&activity);
        assert_eq!(activity.pending(), 1);
        assert_eq!(aged.over().await, "the stream has reached its age");
        assert_eq!(activity.pending(), 0);
        activity.note_closing();
        assert_eq!(stay(&activity).over().await, "the connection is about to close");
    }
}
