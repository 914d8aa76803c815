//! The names of counters, and notices of closed windows; both only on request.
//!
//! Names are kept outside of the table, under a lock for each shard. It is taken when a counter comes or goes, not when
//! it is charged. Closed counters go into a bounded queue. A separate thread takes them out for the user's hook, so
//! that a slow or panicking hook delays no request.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fingerprint::Fingerprint;
use super::stored::{PlacedCounter, State, StoredCounter};
use super::sync::{AtomicU64, Ordering};
use crate::{Counter, Key, Quota, QuotaKind, Timestamp};

/// How often to search for closed counters that nobody has touched since.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// A counter with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedCounter {
    /// The policy's name.
    pub policy: Box<str>,
    /// The quota, with the limit it had when the counter was made.
    pub quota: Quota,
    /// The key.
    pub key: Key<'static>,
    /// Units that count, or have counted until the window closed.
    pub used: u64,
    /// When nothing is used any more if no units are charged: when the window ends, or has ended.
    pub reset_at: Timestamp,
}

/// The names of a store's counters, and the queue for closed ones.
pub(super) struct Names {
    shards: Box<[Mutex<HashMap<Id, Name>>]>,
    closed: Option<SyncSender<NamedCounter>>,
    lost: AtomicU64,
}

/// Why the thread of the hook woke up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeReason {
    ByCounter,
    ByTime,
}

/// Whether names are remembered.
#[derive(Debug)]
pub(super) enum Naming {
    Off,
    Remembered,
    /// And closed counters go to the hook.
    Told(SyncSender<NamedCounter>),
}

/// The part of a fingerprint that a slot keeps.
type Id = (u64, u64);

#[derive(Clone)]
struct Name {
    policy: Box<str>,
    quota: Quota,
    key: Key<'static>,
}

impl Names {
    /// `None` if names are not remembered.
    pub(super) fn new(shards: usize, naming: Naming) -> Option<Self> {
        let closed = match naming {
            Naming::Off => return None,
            Naming::Remembered => None,
            Naming::Told(closed) => Some(closed),
        };
        let shards = (0..shards).map(|_| Mutex::default()).collect();
        Some(Self { shards, closed, lost: AtomicU64::new(0) })
    }

    /// Remembers a counter that has been given a slot. A block has no name: the hook gets
    /// no units of counters that were reset, by a block or otherwise.
    pub(super) fn remember(&self, shard: usize, fingerprint: Fingerprint, counter: &Counter<'_>) {
        if !counter.quota().is_block() {
            self.of_shard(shard).insert(id(fingerprint), Name::of(counter));
        }
    }

    /// Removes the name of a counter that was reset, without calling the hook.
    pub(super) fn remove(&self, shard: usize, fingerprint: Fingerprint) {
        self.of_shard(shard).remove(&id(fingerprint));
    }

    /// Removes the names of counters that were dropped because their windows have closed, and returns those with usage.
    pub(super) fn take(&self, shard: usize, dropped: &[(Fingerprint, State)]) -> Vec<NamedCounter> {
        let mut names = self.of_shard(shard);
        let taken = dropped
            .iter()
            .filter_map(|(fingerprint, state)| Some((names.remove(&id(*fingerprint))?, *state)));
        taken.filter_map(|(name, state)| name.closed(state)).collect()
    }

    /// Queues a counter whose window has closed.
    pub(super) fn tell(&self, counter: NamedCounter) {
        if self.closed.as_ref().is_some_and(|closed| closed.try_send(counter).is_err()) {
            // Relaxed: a count for people.
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Queues a counter that continues in its next window.
    pub(super) fn tell_of_rollover(&self, counter: &Counter<'_>, state: State) {
        // Asked first, because a name is copied.
        let is_window = counter.quota().quota().kind() == QuotaKind::Window;
        if self.closed.is_some()
            && is_window
            && !counter.quota().is_block()
            && state.level > 0
            && let Some(closed) = Name::of(counter).closed(state)
        {
            self.tell(closed);
        }
    }

    /// Closed counters that the queue had no room for.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Returns these counters of a shard with their names.
    pub(super) fn of(
        &self,
        shard: usize,
        live: &[(Fingerprint, State)],
        now: Timestamp,
    ) -> Vec<NamedCounter> {
        let names = self.of_shard(shard);
        let named = |(fingerprint, state): &(Fingerprint, State)| {
            Some(names.get(&id(*fingerprint))?.clone().live(StoredCounter::Held(*state), now))
        };
        live.iter().filter_map(named).collect()
    }

    /// Returns this counter of a shard with its name.
    pub(super) fn live(
        &self,
        shard: usize,
        fingerprint: Fingerprint,
        stored: StoredCounter,
        now: Timestamp,
    ) -> Option<NamedCounter> {
        let name = self.of_shard(shard).get(&id(fingerprint))?.clone();
        Some(name.live(stored, now))
    }

    /// A panic under the lock, in an allocation for example, leaves the map intact.
    fn of_shard(&self, shard: usize) -> MutexGuard<'_, HashMap<Id, Name>> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Name {
    fn of(counter: &Counter<'_>) -> Self {
        let quota = counter.quota();
        Self {
            policy: quota.policy().into(),
            quota: quota.quota().clone(),
            key: counter.key().clone().into_owned(),
        }
    }

    /// A fixed window with usage that has closed.
    fn closed(self, State { level: used, end }: State) -> Option<NamedCounter> {
        let Self { policy, quota, key } = self;
        let is_window = quota.kind() == QuotaKind::Window;
        (is_window && used > 0).then_some(NamedCounter { policy, quota, key, used, reset_at: end })
    }

    fn live(self, stored: StoredCounter, now: Timestamp) -> NamedCounter {
        let Self { policy, quota, key } = self;
        let (used, reset_at) = match (quota.kind(), stored) {
            // A fixed window is listed as it is stored: a list moves no counter after the clock has stepped back.
            (QuotaKind::Window, StoredCounter::Held(state)) => (state.level, state.end),
            (_, stored) => {
                let PlacedCounter { standing, .. } = PlacedCounter::elsewhere(&quota, &key, &stored, now);
                (standing.used(), standing.reset_at())
            }
        };
        NamedCounter { policy, quota, key, used, reset_at }
    }
}

fn id(fingerprint: Fingerprint) -> Id {
    (fingerprint.position, fingerprint.tag)
}

/// Calls the hook for each closed counter until the store is gone. After each, and once a second, `drop_closed` returns
/// those that nobody has touched since their windows closed, or `None` once the store is gone.
pub(super) fn run(
    closed: &Receiver<NamedCounter>,
    hook: impl Fn(NamedCounter),
    mut drop_closed: impl FnMut(WakeReason) -> Option<Vec<NamedCounter>>,
) {
    // A hook that panics still gets the next counters.
    let call = |counter| drop(catch_unwind(AssertUnwindSafe(|| hook(counter))));
    loop {
        let woken = match closed.recv_timeout(INTERVAL) {
            Ok(counter) => {
                call(counter);
                WakeReason::ByCounter
            }
            Err(RecvTimeoutError::Timeout) => WakeReason::ByTime,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        match drop_closed(woken) {
            Some(dropped) => dropped.into_iter().for_each(call),
            None => return,
        }
    }
}

#[cfg(test)]
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod tests {
    use std::time::Duration;

    use super::super::*;
    use crate::{Key, ManualClock, PolicyQuota, Quota};

    /// A thread that dropped closed counters released the lock before it removed their names. A counter that came again
    /// in between lost its name: it was not listed, and the hook never got its last window.
    #[test]
    fn a_shard_is_locked_until_the_names_of_its_dropped_counters_are_gone() {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).remember_keys().max_counters(1).build();
        let (quota, key) = (PolicyQuota::new("", Quota::per_second(1)), Key::from("alice"));
        assert!(store.charge(&[Charge::new(&quota, &key, 1)]).finish().unwrap().is_admitted());
        clock.advance(Duration::from_secs(1));

        let table = &store.inner.table;
        let names = table.names.as_ref().unwrap().of_shard(0);
        std::thread::scope(|scope| {
            scope.spawn(|| table.drop_closed(clock.now()));
            while store.counters() > 0 {
                std::thread::yield_now();
            }
            let version = table.shard_at(0).version();
            drop(names);
            assert!(version % 2 == 1, "the lock is given back");
        });
    }
}
