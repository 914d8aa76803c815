//! Counters in this process's memory.
//!
//! [`MemoryStore`] is the interface. `steps` takes a step on one of three paths, which differ in how they reach
//! counters. One pure function decides on all of them.
//!
//! ```text
//! one quota charged  ──▶ fast_path  one compare-and-swap on the counter's slot, no lock; a denial only reads
//! several charged    ──▶ fast_path  read first; if all have room, changed under the locks of their shards
//! everything else    ──▶ locked     the shards of its counters locked, in one order for all
//!                          │   │
//!                          │   └─▶ time ─▶ decide ─▶ stored ─▶ kind  one reading, taken last; what it comes to
//!                          ▼
//!                        table ─▶ shard ─▶ slot                      where counters are; 24 bytes each
//!                                           │
//!                        fingerprint, word ─┘                        what a slot says, packed into three words
//! ```
//!
//! `hold` takes units in flight, of which `live` has the count of each key, and charges in the same step. `id_steps` does
//! so for holds with an id, which `hold_ids` remembers until they end. `names` remembers which counters those are, on
//! request.

mod decide;
mod fast_path;
mod fingerprint;
mod hold;
mod hold_ids;
mod id_steps;
mod live;
mod locked;
mod logs;
mod multilinear;
mod names;
mod shard;
mod slot;
mod slots;
mod steps;
mod stored;
mod sync;
mod table;
#[cfg(test)]
mod tests;
mod time;
mod word;

use std::future::Pending;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::{fmt, io, thread};

use smallvec::SmallVec;

use self::fingerprint::Fingerprint;
pub(crate) use self::hold::{HeldUnits, LiveCharge};
use self::locked::Needs;
pub use self::names::NamedCounter;
use self::names::{Names, Naming, WakeReason};
pub(crate) use self::steps::ChargeAttempt;
use self::steps::Inner;
use self::table::{Cap, Table};
use self::time::{StepTime, Time};
use crate::clock::{Clock, SystemClock};
use crate::hold::{HoldAnswer, HoldStep};
use crate::kind::Mark;
use crate::store::{Answer, Full, MemoryError, QuotaStates, Step, StepDeadline, Store, StoreError};
use crate::{BlockCharge, Charge, Counter, QuotaState, Timestamp};

/// Requests of a batch whose counters are prefetched together: about as many as a core can wait for.
const BATCH: usize = 16;

/// Counters in this process's memory. Clones share them.
///
/// A counter takes 24 bytes, or about 33 with the table's spare room, whatever its key: the table keeps keyed
/// fingerprints and not keys. The chance that any two of ten million live counters meet is below 10<sup>-10</sup> if no
/// key is longer than 3.6 KB, and below 3 x 10<sup>-10</sup> for keys of any length. An attacker who chooses keys
/// cannot raise it.
///
/// Memory is bounded by the cap on counters ([`MemoryStoreBuilder::max_counters`], one million by default): counters of
/// closed windows make room, live counters never do. When every counter is live, a key without a counter gets [`Full`];
/// keys with a counter are not affected. A log is affected if it needs another place of the cap, which is at each third
/// entry. The table grows with its counters, in small steps, and never shrinks. Logs have memory of their own, which they
/// give back; so have keys with [units in flight](crate::InFlightLimiter), which take five places of the cap each, and
/// [ids](crate::HoldId) of holds.
///
/// # Consistency
///
/// Exact under any number of threads. A charge of one quota on a key that has a counter is one compare-and-swap and
/// takes no lock, and a denial writes nothing (unless denials are counted), so threads that are denied do not slow each
/// other down. A new key takes the lock of a shard of some 600 counters during its insertion. A step over several
/// quotas takes the locks of all its shards. For a key with a counter, three cases take the lock of one shard: counts
/// of 2<sup>32</sup> and more; the first unit in a window that ends at another fraction of a second than the window
/// before (`first_hit` quotas, and lengths that are not whole seconds); and the first unit in a new window after some
/// thirteen hours, so in each window that is longer. Logs are in 64 maps, each with a lock, which denials take as well.
/// Steps on holds with an id take one lock for all of them; other charges never wait for it, unless the store is full.
/// A step [before an end](Step::ChargeBefore) takes the locks of its shards, and so does a [peek](Step::Peek); both read
/// the precise clock.
///
/// Each decision reads the clock once. Windows of a second or more use the coarse reading, except near their ends (see
/// [`Clock::coarse_now`]), so no unit is counted in a window that is over.
///
/// If the clock steps back by a second or less, no window is opened again: counters stay in their windows, and a
/// dropped one opens no earlier than its window's end. After a longer step, a counter moves, with what it has used,
/// into the window that holds then, so a window that the clock passes twice may be counted twice. [`SystemClock`] never
/// steps back. More than 8,900 years before or after 1970, the store's time stands still.
///
/// # Examples
///
/// ```
/// use tollgate::{Full, Limiter, MemoryStore, Quota};
///
/// let store = MemoryStore::builder().max_counters(1).build();
/// let limiter = Limiter::with_store(Quota::per_day(5), store);
/// assert!(limiter.check("alice")?.is_allowed());
/// assert_eq!(limiter.check("bob").unwrap_err(), Full);
/// assert!(limiter.check("alice")?.is_allowed());
/// # Ok::<(), Full>(())
/// ```
pub struct MemoryStore<C = SystemClock> {
    inner: Arc<Inner<C>>,
}

/// Settings of a [`MemoryStore`].
#[derive(Debug, Clone)]
pub struct MemoryStoreBuilder<C = SystemClock> {
    clock: C,
    cap: Cap,
    remember_keys: bool,
}

impl MemoryStore {
    /// Creates a store with room for one million counters, on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns the settings of a new store.
    #[must_use]
    pub const fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder { clock: SystemClock, cap: Cap::Counters(1_000_000), remember_keys: false }
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
        MemoryStoreBuilder { clock, cap: self.cap, remember_keys: self.remember_keys }
    }

    /// Holds at most this many counters: one for each key of each quota with a live window. Each takes about 33
    /// bytes. A log takes as much of the cap as five counters, and as one more for every three of its entries.
    #[must_use]
    pub fn max_counters(self, max_counters: usize) -> Self {
        Self { cap: Cap::Counters(max_counters), ..self }
    }

    /// Holds as many counters as fit into this much memory, about one per 31 bytes; see [`MemoryStore::max_counters`].
    /// At least 24 KiB, the smallest table. A store whose counters are logs or units in flight at one time and
    /// others at another may take twice as much, because the table of the others never shrinks, and the allocator may keep
    /// the memory of the former.
    #[must_use]
    pub fn max_bytes(self, max_bytes: usize) -> Self {
        Self { cap: Cap::Bytes(max_bytes), ..self }
    }

    /// Remembers which keys the counters belong to, so that they can be [listed](MemoryStore::live_counters).
    ///
    /// This costs the key's bytes and some 200 more for each counter, outside of the cap in bytes, and an allocation
    /// and a lock for each new key. Charging a known key costs the same as before. Keys, which may be personal or
    /// secret, are then in memory in the clear.
    #[must_use]
    pub fn remember_keys(self) -> Self {
        Self { remember_keys: true, ..self }
    }

    /// Returns the empty store.
    ///
    /// # Panics
    ///
    /// If there is no address space for the cap: some 38 bytes are reserved for each of its counters, but not used
    /// until needed.
    #[must_use]
    pub fn build(self) -> MemoryStore<C> {
        let naming = if self.remember_keys { Naming::Remembered } else { Naming::Off };
        let table = Table::new(self.cap, naming);
        MemoryStore { inner: Arc::new(Inner { time: Time::new(self.clock), table }) }
    }

    /// Builds the store with a hook that receives every fixed window with usage that has closed, for example for
    /// billing. Keys are [remembered](Self::remember_keys) for it.
    ///
    /// The hook runs on its own thread behind a queue of this length. It may be slow; if it panics, it is still called
    /// for the next counter. Counters for which the queue has no room are counted in [`MemoryStore::lost_closings`].
    /// The hook gets a counter when its slot is reused or its key comes again, or else within some two seconds of its
    /// window's end. It does not get counters that were reset, also by a block ([`Step::Block`]), or that are live when
    /// the store is dropped.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    ///
    /// # Panics
    ///
    /// The same as [`build`](Self::build).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, MemoryStore, Quota};
    ///
    /// let (bill, bills) = mpsc::channel();
    /// let clock = ManualClock::default();
    /// let builder = MemoryStore::builder().clock(clock.clone());
    /// let store = builder.build_with_hook(1_000, move |counter| drop(bill.send(counter)))?;
    /// let limiter = Limiter::with_store(Quota::per_minute(100), store);
    ///
    /// assert!(limiter.check_cost("alice", 7)?.is_allowed());
    /// clock.advance(Duration::from_secs(60));
    /// assert!(limiter.check("alice")?.is_allowed());
    /// let bill = bills.recv()?;
    /// assert_eq!((bill.key, bill.used), ("alice".into(), 7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build_with_hook(
        self,
        queue: usize,
        hook: impl Fn(NamedCounter) + Send + 'static,
    ) -> io::Result<MemoryStore<C>>
    where
        C: 'static,
    {
        let (sender, closed) = sync_channel(queue);
        let table = Table::new(self.cap, Naming::Told(sender));
        let inner = Arc::new(Inner { time: Time::new(self.clock), table });
        let (weak, mut last) = (Arc::downgrade(&inner), Timestamp::from_unix_millis(i64::MIN));
        let drop_closed = move |woken| {
            let inner = weak.upgrade()?;
            let now = inner.time.coarse();
            // Not after each counter, of which there may be many. The clock may have stepped back.
            if woken == WakeReason::ByCounter && (last..last + names::INTERVAL).contains(&now) {
                return Some(Vec::new());
            }
            last = now;
            Some(inner.table.drop_closed(now))
        };
        let thread = thread::Builder::new().name("tollgate-closed".to_owned());
        thread.spawn(move || names::run(&closed, hook, drop_closed))?;
        Ok(MemoryStore { inner })
    }
}

impl<C: Clock> MemoryStore<C> {
    /// The time now, by the store's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.inner.time.precise()
    }

    /// Returns the counters whose windows are open, in no particular order; `None` unless keys are
    /// [remembered](MemoryStoreBuilder::remember_keys).
    ///
    /// Reads the whole table, one shard at a time; concurrent changes may or may not be included.
    #[must_use]
    pub fn live_counters(&self) -> Option<Vec<NamedCounter>> {
        self.inner.table.live(self.inner.time.precise())
    }

    /// Returns at most this many live counters with the most usage, the largest first; `None` unless keys are
    /// [remembered](MemoryStoreBuilder::remember_keys).
    #[must_use]
    pub fn top(&self, count: usize) -> Option<Vec<NamedCounter>> {
        let mut counters = self.live_counters()?;
        let most_first = |counter: &NamedCounter| std::cmp::Reverse(counter.used);
        // To order all of millions of counters takes seconds.
        if count < counters.len() {
            counters.select_nth_unstable_by_key(count, most_first);
            counters.truncate(count);
        }
        counters.sort_unstable_by_key(most_first);
        Some(counters)
    }
}

impl<C: Clock> MemoryStore<C> {
    /// Returns the number of [ids](crate::HoldId) of holds: of those that live, and of settled ones that are still
    /// remembered.
    #[must_use]
    pub fn holds(&self) -> usize {
        self.inner.end_due_holds();
        self.inner.table.hold_ids.count()
    }

    /// Returns the number of holds with an id that have expired before they were settled.
    #[must_use]
    pub fn expired_holds(&self) -> usize {
        self.inner.end_due_holds();
        self.inner.table.hold_ids.expired()
    }
}

impl<C> MemoryStore<C> {
    /// Returns the number of counters, including those of closed windows until their space is needed. A log counts as
    /// several counters. A key with units in flight counts as five, and the id of a hold as twelve, or more if the hold
    /// has several parts.
    #[must_use]
    pub fn counters(&self) -> usize {
        self.inner.table.counters()
    }

    /// Returns the number of closed counters for which the hook's queue had no room.
    #[must_use]
    pub fn lost_closings(&self) -> u64 {
        self.inner.table.names.as_ref().map_or(0, Names::lost)
    }

    /// Returns the maximum number of counters. A key without a counter is refused only when this number is
    /// reached, or less than it needs is left.
    #[must_use]
    pub fn max_counters(&self) -> usize {
        self.inner.table.max_counters()
    }
}

impl<C> Clone for MemoryStore<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<C> fmt::Debug for MemoryStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("counters", &self.counters())
            .field("max_counters", &self.max_counters())
            .finish()
    }
}

impl<C: Clock> MemoryStore<C> {
    /// Takes a step, as [`Store::step`] does.
    ///
    /// # Errors
    ///
    /// If there is no room for another counter, or the step comes after its end.
    pub fn take(&self, step: Step<'_>) -> Result<QuotaStates, MemoryError> {
        let counted = match step {
            Step::Charge(charges) => self.charge(charges).finish(),
            Step::ChargeBefore { charges, end } => return self.charge_before(charges, end),
            Step::Peek(charges) => self.peek(charges),
            Step::Record(charge) => self.record(&charge).map(QuotaStates::one),
            Step::Block(block) => self.block(&block),
            Step::Refund { charge, mark } => Ok(QuotaStates::one(self.refund(&charge, mark))),
            Step::Reset(counter) => Ok(QuotaStates::one(self.reset(&counter))),
            Step::Set { counter, used } => self.set(&counter, used).map(QuotaStates::one),
        };
        counted.map_err(MemoryError::from)
    }

    /// Takes a step on a hold with an id, as [`Store::hold_until`] does.
    ///
    /// # Errors
    ///
    /// If there is no room for another counter, or for another id, or a reservation comes after its end. Nothing was
    /// changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{
    ///     HoldAnswer, HoldId, HoldLength, HoldStep, HoldTerms, InFlight, InFlightCharge, Key, MemoryError,
    ///     MemoryStore, PolicyInFlight,
    /// };
    ///
    /// let (store, key) = (MemoryStore::new(), Key::from("alice"));
    /// let jobs = PolicyInFlight::new("jobs", InFlight::new(1)?);
    /// let units = [InFlightCharge::new(&jobs, &key, 1)];
    /// let terms = HoldTerms::new(HoldId::random(), &units, &[], HoldLength::default());
    /// let others = HoldTerms::new(HoldId::random(), &units, &[], HoldLength::default());
    ///
    /// let is_admitted = |terms| match store.take_hold(HoldStep::Reserve(terms))? {
    ///     HoldAnswer::Decided(states) => Ok::<bool, MemoryError>(states.is_admitted()),
    ///     other => unreachable!("{other:?}"),
    /// };
    /// assert!(is_admitted(terms)? && is_admitted(terms)?);
    /// assert!(!is_admitted(others)?);
    /// assert!(matches!(store.take_hold(HoldStep::Settle(terms, &[]))?, HoldAnswer::Settled(_)));
    /// assert!(is_admitted(others)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_hold(&self, step: HoldStep<'_>) -> Result<HoldAnswer, MemoryError> {
        self.inner.take_hold(step)
    }

    /// Prefetches the memory of these counters into the processor's cache, and changes nothing. If it is called for
    /// some counters at once and they are charged after that one by one, the charges rarely wait for memory: with
    /// millions of counters, that is most of their time.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Charge, Counter, Key, MemoryError, MemoryStore, PolicyQuota, Quota, Step};
    ///
    /// let (store, quota) = (MemoryStore::new(), PolicyQuota::new("login", Quota::per_minute(5)));
    /// let keys = ["alice", "bob"].map(Key::from);
    /// store.prefetch(keys.iter().map(|key| Counter::new(&quota, key)));
    /// assert_eq!(store.counters(), 0);
    /// for key in &keys {
    ///     assert!(store.take(Step::Charge(&[Charge::new(&quota, key, 1)]))?.is_admitted());
    /// }
    /// # Ok::<(), MemoryError>(())
    /// ```
    pub fn prefetch<'a>(&self, counters: impl IntoIterator<Item = Counter<'a>>) {
        let table = &self.inner.table;
        let mut fingerprints = SmallVec::<[Fingerprint; BATCH]>::new();
        // Not `collect`: callers pass nested iterators, which are faster when they drive the loop.
        counters.into_iter().for_each(|counter| fingerprints.push(table.fingerprint(&counter)));
        table.prefetch(&fingerprints);
    }

    /// Takes many steps in this order, as [`Store::step_each`] does.
    #[must_use]
    pub fn take_each(&self, steps: &[Step<'_>]) -> Vec<Result<QuotaStates, MemoryError>> {
        self.take_each_as(steps)
    }

    /// Charges all or nothing.
    #[inline(always)]
    pub(crate) fn charge<'a>(&'a self, charges: &'a [Charge<'a>]) -> ChargeAttempt<'a, C> {
        let first = match charges {
            [charge] => self.inner.table.fingerprint(&charge.counter()),
            _ => Fingerprint::NONE,
        };
        self.inner.charge(charges, first)
    }

    /// Charges all or nothing, if the time is before the end.
    pub(crate) fn charge_before(
        &self,
        charges: &[Charge<'_>],
        end: Timestamp,
    ) -> Result<QuotaStates, MemoryError> {
        if charges.is_empty() {
            return Ok(QuotaStates::none());
        }
        Ok(self.inner.with_room(|| self.inner.charge_before(charges, 0, Some(end)))??)
    }

    pub(crate) fn peek(&self, charges: &[Charge<'_>]) -> Result<QuotaStates, Full> {
        self.inner.with_room(|| self.inner.peek(charges, 0))
    }

    /// Like [`peek`](Self::peek), but a counter for which there is no room is answered as an unused one.
    pub(crate) fn look(&self, charges: &[Charge<'_>]) -> QuotaStates {
        self.inner.lock_by(charges, StepTime::Precise).look()
    }

    pub(crate) fn record(&self, charge: &Charge<'_>) -> Result<QuotaState, Full> {
        self.inner.with_room(|| self.inner.locked(&[*charge], Needs::Room, |step| step.record()))
    }

    pub(crate) fn block(&self, charge: &BlockCharge<'_>) -> Result<QuotaStates, Full> {
        self.inner
            .with_room(|| self.inner.locked(&charge.charges(), Needs::Room, |step| step.charge_or_block()))
    }

    pub(crate) fn refund(&self, charge: &Charge<'_>, mark: Mark) -> QuotaState {
        self.inner.lock(&[*charge]).refund(mark)
    }

    pub(crate) fn reset(&self, counter: &Counter<'_>) -> QuotaState {
        self.inner.lock(&[counter.charge(0)]).reset()
    }

    pub(crate) fn set(&self, counter: &Counter<'_>, used: u64) -> Result<QuotaState, Full> {
        let charges = [counter.charge(0)];
        self.inner.with_room(|| self.inner.locked(&charges, Needs::Room, |step| step.set(used)))
    }

    fn take_each_as<E: From<Full> + From<MemoryError>>(
        &self,
        steps: &[Step<'_>],
    ) -> Vec<Result<QuotaStates, E>> {
        let table = &self.inner.table;
        let mut answers = Vec::with_capacity(steps.len());
        for steps in steps.chunks(BATCH) {
            let fingerprint = |step: &Step<'_>| match step {
                Step::Charge([charge, ..]) => table.fingerprint(&charge.counter()),
                _ => Fingerprint::NONE,
            };
            let fingerprints: SmallVec<[Fingerprint; BATCH]> = steps.iter().map(fingerprint).collect();
            table.prefetch(&fingerprints);
            for (step, fingerprint) in steps.iter().zip(fingerprints) {
                let answer = match step {
                    Step::Charge(charges) => {
                        self.inner.charge(charges, fingerprint).finish().map_err(E::from)
                    }
                    step => self.take(*step).map_err(E::from),
                };
                answers.push(answer);
            }
        }
        answers
    }
}

impl<C: Clock> Store for MemoryStore<C> {
    #[inline(always)]
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        _: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        let counted = match step {
            Step::Charge(charges) => match self.charge(charges) {
                ChargeAttempt::Made(state) => return Answer::<Pending<_>>::Now(Ok(QuotaStates::one(state))),
                ChargeAttempt::Left(left) => left.finish().map_err(StoreError::from),
            },
            step => self.take(step).map_err(StoreError::from),
        };
        Answer::Now(counted)
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        _: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        Answer::<Pending<_>>::Now(self.take_each_as(steps))
    }

    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        _: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        Answer::<Pending<_>>::Now(self.take_hold(step).map_err(StoreError::from))
    }

    fn address(&self) -> Option<usize> {
        Some(Arc::as_ptr(&self.inner).addr())
    }
}
