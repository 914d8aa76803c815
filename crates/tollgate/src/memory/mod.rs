//! Counters in this process's memory.
//!
//! [`MemoryStore`] is the face. How a step decides is in `step`, how a shard keeps its counters in `shard`, how
//! their number is capped in `room`.

mod room;
mod shard;
mod step;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use self::room::Room;
use self::shard::{Shard, State, hash_name};
use crate::clock::{Clock, SystemClock};
use crate::store::{Count, Counted, Refunded, StoreError, SyncStore};
use crate::{Charge, Counter, Timestamp};

/// How many shards share the counters: enough that a few threads seldom meet in one.
const SHARDS: usize = 64;

/// Counters in this process's memory. Clones share them.
///
/// Exact under any number of threads: a step locks the shards of its counters, in one order for all, reads
/// the clock once and decides. It allocates only for a key that has no counter yet.
///
/// Memory is bounded by the cap on keys ([`MemoryStoreBuilder::max_keys`], one million by default): counters
/// of closed windows make room, live counters never do. When every counter is live, a key without one gets
/// [`StoreError::Full`]; keys with one go on as before.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, MemoryStore, Quota, StoreError};
///
/// let store = MemoryStore::builder().max_keys(1).build();
/// let limiter = Limiter::with_store(Quota::per_day(5), store);
/// assert!(limiter.check("alice")?.is_allowed());
/// assert_eq!(limiter.check("bob"), Err(StoreError::Full));
/// assert!(limiter.check("alice")?.is_allowed());
/// # Ok::<(), StoreError>(())
/// ```
pub struct MemoryStore<C = SystemClock> {
    inner: Arc<Inner<C>>,
}

struct Inner<C> {
    clock: C,
    /// SipHash with a random key: keys come from strangers.
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    room: Room,
}

/// Settings of a [`MemoryStore`].
#[derive(Debug, Clone)]
pub struct MemoryStoreBuilder<C = SystemClock> {
    clock: C,
    max_keys: usize,
}

impl MemoryStore {
    /// A store on the system's clock, for one million keys.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Settings to change before building.
    #[must_use]
    pub const fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder { clock: SystemClock, max_keys: 1_000_000 }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> MemoryStoreBuilder<C> {
    /// Takes the time from this clock.
    #[must_use]
    pub fn clock<D: Clock>(self, clock: D) -> MemoryStoreBuilder<D> {
        MemoryStoreBuilder { clock, max_keys: self.max_keys }
    }

    /// Holds at most this many counters: one for each key of each quota with a live window.
    #[must_use]
    pub fn max_keys(self, max_keys: usize) -> Self {
        Self { max_keys, ..self }
    }

    /// The empty store.
    #[must_use]
    pub fn build(self) -> MemoryStore<C> {
        let inner = Inner {
            clock: self.clock,
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            room: Room::new(self.max_keys),
        };
        MemoryStore { inner: Arc::new(inner) }
    }
}

impl<C> MemoryStore<C> {
    /// How many counters are held; those of closed windows are among them until their space is needed.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.inner.room.keys()
    }

    /// How many counters can be held.
    #[must_use]
    pub fn max_keys(&self) -> usize {
        self.inner.room.max_keys()
    }
}

impl<C> Clone for MemoryStore<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<C> fmt::Debug for MemoryStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("keys", &self.keys()).field("max_keys", &self.max_keys()).finish()
    }
}

impl<C: Clock> SyncStore for MemoryStore<C> {
    fn charge(&self, charges: &[Charge<'_>]) -> Result<Counted, StoreError> {
        self.inner.step(charges.iter().map(Charge::counter), |locked| locked.charge(charges))
    }

    fn peek(&self, charges: &[Charge<'_>]) -> Result<Counted, StoreError> {
        self.inner.step(charges.iter().map(Charge::counter), |locked| locked.peek(charges))
    }

    fn record(&self, charge: &Charge<'_>) -> Result<Count, StoreError> {
        self.inner.step([charge.counter()], |locked| locked.record(charge))
    }

    fn refund(&self, charge: &Charge<'_>, start: Timestamp) -> Result<Refunded, StoreError> {
        self.inner.step([charge.counter()], |locked| locked.refund(charge, start))
    }

    fn reset(&self, counter: &Counter<'_>) -> Result<Count, StoreError> {
        self.inner.step([*counter], |locked| locked.reset(counter))
    }

    fn set(&self, counter: &Counter<'_>, used: u64) -> Result<Count, StoreError> {
        self.inner.step([*counter], |locked| locked.set(counter, used))
    }
}

impl<C: Clock> Inner<C> {
    /// Takes a step with the shards of these counters locked. If it finds no room for a new counter, closed
    /// counters are swept out of all shards and it is taken once more.
    fn step<'a, T>(
        &self,
        counters: impl IntoIterator<Item = Counter<'a>>,
        step: impl Fn(&mut Locked<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let places: SmallVec<[Place; 2]> = counters.into_iter().map(|counter| self.place(&counter)).collect();
        let take = || {
            let mut locked = self.lock(&places);
            let taken = step(&mut locked);
            locked.sweep_grown();
            taken
        };
        match take() {
            Err(StoreError::Full) if self.room.make(self.clock.now(), &self.shards) => take(),
            taken => taken,
        }
    }

    fn place(&self, counter: &Counter<'_>) -> Place {
        let mut hasher = self.hasher.build_hasher();
        hash_name(counter, &mut hasher);
        let hash = std::hash::Hasher::finish(&hasher);
        // From the middle: a shard's table uses the lowest and the highest bits.
        Place { hash, shard: (hash >> 32) as usize % SHARDS }
    }

    fn lock<'a>(&'a self, places: &'a [Place]) -> Locked<'a> {
        let mut order: SmallVec<[usize; 2]> = places.iter().map(|place| place.shard).collect();
        order.sort_unstable();
        order.dedup();
        let shards =
            order.into_iter().filter_map(|index| Some((index, lock(self.shards.get(index)?)))).collect();
        // Read under the locks, so that the readings of all steps on one counter are in the order of the steps.
        let (now, resolution) = (self.clock.now(), self.clock.resolution());
        Locked { places, shards, now, resolution, room: &self.room }
    }
}

/// A counter's hash and the index of its shard.
struct Place {
    hash: u64,
    shard: usize,
}

/// The shards of one step, and its time.
struct Locked<'a> {
    places: &'a [Place],
    shards: SmallVec<[(usize, MutexGuard<'a, Shard>); 2]>,
    now: Timestamp,
    resolution: std::time::Duration,
    room: &'a Room,
}

/// A panic under the lock (there is none that we know of) leaves every counter whole, since each is written
/// in one piece.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
