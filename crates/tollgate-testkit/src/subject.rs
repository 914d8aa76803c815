//! A store under test, and what can be done with its time.

use std::time::Duration;

use tollgate::{Anchor, Charge, Key, PolicyQuota, Quota, Step, Store, Timestamp};

/// A store that nobody has used yet, and its time.
///
/// The time may be a manual clock that jumps, or a server's that can only be waited for. So a rule never relies
/// on the instant at which it takes a step; it judges by the `now` that comes with the answer.
pub trait Subject: Send + Sync {
    /// The kind of store.
    type Store: Store;

    /// The store.
    fn store(&self) -> &Self::Store;

    /// Comes back once the store's time is `time` or later: exactly `time` under a manual clock.
    fn reach(&self, time: Timestamp) -> impl Future<Output = ()> + Send;

    /// A window so long that a few steps find their place in it, and so short that it can be waited out.
    fn short_window(&self) -> Duration;

    /// Where windows of a fixed length may start; anywhere unless said otherwise.
    fn anchors(&self) -> &'static [Anchor] {
        &[Anchor::Epoch, Anchor::Staggered, Anchor::FirstHit]
    }

    /// For how long a store remembers a window that has closed, in case its clock steps back into it. Not at all unless
    /// said otherwise: the clock of a store inside a process does not step back by itself.
    fn remembers_closed(&self) -> Duration {
        Duration::ZERO
    }

    /// The store's time.
    fn now(&self) -> impl Future<Output = Timestamp> + Send {
        async {
            let probe = PolicyQuota::new("what time is it", Quota::per_hour(1));
            let key = Key::from("anybody");
            let charges = [Charge::new(&probe, &key, 0)];
            self.store().step(Step::Peek(&charges)).await.expect("the store answers")[0].now()
        }
    }
}

/// A subject whose time can be set at will, also back.
pub trait SteeredClock: Subject {
    /// Sets the store's time.
    fn set_time(&self, time: Timestamp);
}

/// A subject that can be had with a cap on its counters.
pub trait Capped: Subject + Sized {
    /// A fresh one that holds at most this many counters.
    fn with_max_counters(max_counters: usize) -> Self;
}

/// An instant by its RFC 3339 name, such as `2026-03-29T12:00:00Z`.
///
/// # Panics
///
/// If it is none.
#[must_use]
pub fn instant(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().expect("an instant in RFC 3339");
    Timestamp::from_unix_millis(instant.as_millisecond())
}
