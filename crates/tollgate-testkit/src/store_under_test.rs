//! A store under test, and control over its time.

use std::time::Duration;

use tollgate::{Anchor, Charge, Key, PolicyQuota, Quota, Step, Store, Timestamp};

/// An unused store, and its time.
///
/// The time may be a manual clock that jumps, or a server's that can only be waited for. So a rule never relies on the
/// instant at which it takes a step; it uses the `now` of the answer.
pub trait StoreUnderTest: Send + Sync {
    /// The kind of store.
    type Store: Store;

    /// The store.
    fn store(&self) -> &Self::Store;

    /// Waits until the store's time is `time` or later; under a manual clock, exactly `time`.
    fn reach(&self, time: Timestamp) -> impl Future<Output = ()> + Send;

    /// A window long enough for a few steps, and short enough to wait for its end.
    fn short_window(&self) -> Duration;

    /// Where windows of a fixed length may start; anywhere by default.
    fn anchors(&self) -> &'static [Anchor] {
        &[Anchor::Epoch, Anchor::Staggered, Anchor::FirstHit]
    }

    /// Returns how long a store remembers a closed window, in case its clock steps back into it. Zero by default: the
    /// clock of a store inside a process does not step back by itself.
    fn remembers_closed(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns whether the id of a hold is remembered with its key, so that it is another hold with another key. Not by
    /// default.
    fn remembers_ids_by_key(&self) -> bool {
        false
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

/// A subject whose time can be set at will, even back.
pub trait SettableClock: StoreUnderTest {
    /// Sets the store's time.
    fn set_time(&self, time: Timestamp);
}

/// A subject that can be created with a cap on its counters.
pub trait CappedStore: StoreUnderTest + Sized {
    /// Creates a fresh one that holds at most this many counters.
    fn with_max_counters(max_counters: usize) -> Self;
}

/// Parses an instant in RFC 3339, such as `2026-03-29T12:00:00Z`.
///
/// # Panics
///
/// If the text is not an instant.
#[must_use]
pub fn instant(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().expect("an instant in RFC 3339");
    Timestamp::from_unix_millis(instant.as_millisecond())
}
