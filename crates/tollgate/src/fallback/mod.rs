//! A store above a store: what is answered when the lower one cannot.
//!
//! It asks no reason. Whatever error the store gives, if it does not answer in time, or answers what cannot be, the
//! policy decides. How the store finds its way back is its own affair: it is asked again with the next request.

mod on_store_failure;

use std::fmt;
use std::future::{Pending, pending, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use smallvec::SmallVec;

pub use self::on_store_failure::{LocalShare, LocalShareError, OnStoreFailure};
use crate::store::{Counted, Refunded, Store, StoreError, SyncStore};
use crate::{
    Charge, Clock, Counter, MemoryStore, PolicyQuota, QuotaState, Reason, Source, SystemClock, Timestamp,
};

/// A store with a policy for the time when it cannot answer.
///
/// [`OnStoreFailure`] says what each policy answers, and what several processes admit at most. A decision by the
/// policy has the source [`Fallback`](Source::Fallback), and its figures are those it was made by. With `Local` the
/// limit is this process's share and `used` what it counted by itself; with `Open` nothing is used of the whole
/// limit. So also then `remaining` is what the next request will find.
///
/// | step | `Open` | `Closed` | `Local` |
/// |---|---|---|---|
/// | [`charge`](Store::charge), [`charge_each`](Store::charge_each), [`peek`](Store::peek) | admitted | error | counted here |
/// | [`record`](Store::record) | not counted | error | counted here |
/// | [`refund`](Store::refund), [`reset`](Store::reset), [`set`](Store::set) | error | error | error |
///
/// The last three change a counter of the store. Nothing in this process can stand for that, and whoever asks must
/// learn that it did not happen. What was counted here ends with its window: it is not carried over to the store,
/// and not given back.
///
/// A quota may have [a policy of its own](PolicyQuota::with_on_store_failure). Where several quotas are charged, the
/// strictest policy among them decides: `Closed`, then `Local`, then `Open`. With `Local`, those quotas that say
/// `Local` are counted, each against its own share, and the others are not; the answer has both.
///
/// The policy decides only where there is no decision. A denial stays one, and [`StoreError::Full`], which asks for
/// [a choice of its own](crate::guide#when-the-store-is-full), is given on under every policy; with `Local`, the
/// memory of this process may be full as well.
///
/// # Cancel safety
///
/// Dropped before it is done, a step may or may not have been taken, by the store or in this process.
///
/// # Examples
///
/// ```
/// use tollgate::{Decision, FallbackStore, Limiter, LocalShare, MemoryStore, OnStoreFailure, Quota, Source};
/// # use tollgate_testkit::{Fault, FaultyStore};
/// # let shared = FaultyStore::new(MemoryStore::new());
/// # let away = shared.clone();
///
/// // Three processes share the store `shared`.
/// let store = FallbackStore::new(shared, OnStoreFailure::Local(LocalShare::new(1, 3)?));
/// let limiter = Limiter::with_store(Quota::per_day(4), store);
/// # tollgate_testkit::block_on(async {
/// assert_eq!(limiter.check_async("alice").await?.remaining(), 3);
///
/// // While it is away, each of the three admits two: a third of four, rounded up.
/// # away.begin(Fault::Fails(tollgate::StoreError::Unreachable));
/// let decision = limiter.check_async("alice").await?;
/// assert_eq!((decision.source(), decision.remaining()), (Source::Fallback, 1));
/// assert!(limiter.check_async("alice").await?.is_allowed());
/// assert!(!limiter.check_async("alice").await?.is_allowed());
/// # Ok::<(), tollgate::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FallbackStore<S, C = SystemClock, D = fn() -> Pending<()>> {
    store: S,
    on_failure: OnStoreFailure,
    /// Counts with `Local`.
    memory: MemoryStore<C>,
    deadline: D,
}

impl<S: Store> FallbackStore<S> {
    /// The store with this policy. It waits for the store as long as that takes: one that has no deadline of its
    /// own needs [`deadline`](Self::deadline).
    pub fn new(store: S, on_failure: OnStoreFailure) -> Self {
        Self { store, on_failure, memory: MemoryStore::new(), deadline: pending }
    }
}

impl<S, C, D> FallbackStore<S, C, D> {
    /// Counts with `Local` in this memory, by its clock and up to its cap, instead of one million keys by the
    /// system's clock.
    pub fn memory<K>(self, memory: MemoryStore<K>) -> FallbackStore<S, K, D> {
        FallbackStore { store: self.store, on_failure: self.on_failure, memory, deadline: self.deadline }
    }

    /// Waits for the store until such a future is done, and then takes it that there is no answer. It is made when
    /// a step has to wait: `|| tokio::time::sleep(Duration::from_millis(20))`, say.
    pub fn deadline<F, T>(self, deadline: F) -> FallbackStore<S, C, F>
    where
        F: Fn() -> T,
        T: Future<Output = ()>,
    {
        FallbackStore { store: self.store, on_failure: self.on_failure, memory: self.memory, deadline }
    }

    /// The store below.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The policy.
    pub const fn on_failure(&self) -> OnStoreFailure {
        self.on_failure
    }
}

impl<S, C: Clock, D> FallbackStore<S, C, D> {
    /// What `Open` answers: as if nobody had used anything, in windows of this process's clock. Also for whoever
    /// admits keys that a full store has no room for.
    pub fn uncounted(&self, charges: &[Charge<'_>]) -> Counted {
        let now = self.memory.now();
        let state = |charge: &Charge<'_>| {
            let counter = charge.counter();
            let quota = counter.quota().quota();
            let reason = Reason::of(0, charge.asked_in(charges), charge.limit());
            let window = quota.window_at(counter.key(), now);
            QuotaState::new(quota, 0, window, now, reason).with_source(Source::Fallback)
        };
        charges.iter().map(state).collect()
    }
}

impl<S, C, D, T> Store for FallbackStore<S, C, D>
where
    S: Store,
    C: Clock,
    D: Fn() -> T + Send + Sync,
    T: Future<Output = ()> + Send,
{
    async fn charge(&self, charges: &[Charge<'_>]) -> Result<Counted, StoreError> {
        let answer = self.in_time(pin!(self.store.charge(charges))).await.flatten();
        self.charged(charges, answer)
    }

    fn never_waits(&self) -> bool {
        self.store.never_waits()
    }

    async fn charge_each(&self, requests: &[&[Charge<'_>]]) -> Vec<Result<Counted, StoreError>> {
        let answers = match self.in_time(pin!(self.store.charge_each(requests))).await {
            Ok(answers) if answers.len() == requests.len() => answers,
            Ok(_) => vec![Err(StoreError::BadReply); requests.len()],
            Err(late) => vec![Err(late); requests.len()],
        };
        requests.iter().zip(answers).map(|(charges, answer)| self.charged(charges, answer)).collect()
    }

    async fn peek(&self, charges: &[Charge<'_>]) -> Result<Counted, StoreError> {
        let answer = self.in_time(pin!(self.store.peek(charges))).await.flatten();
        possible(charges, answer)
            .or_else(|error| self.instead(charges, error, |charges| SyncStore::peek(&self.memory, charges)))
    }

    async fn record(&self, charge: &Charge<'_>) -> Result<QuotaState, StoreError> {
        let answer = self.in_time(pin!(self.store.record(charge))).await.flatten();
        answer.or_else(|error| {
            let counted = self.instead(std::slice::from_ref(charge), error, |charges| {
                charges.iter().map(|charge| SyncStore::record(&self.memory, charge)).collect()
            })?;
            // A record does not ask, and so is not told that there is no room.
            counted.first().map(|state| state.with_reason(None)).ok_or(StoreError::BadReply)
        })
    }

    async fn refund(&self, charge: &Charge<'_>, start: Timestamp) -> Result<Refunded, StoreError> {
        self.in_time(pin!(self.store.refund(charge, start))).await.flatten()
    }

    async fn reset(&self, counter: &Counter<'_>) -> Result<QuotaState, StoreError> {
        self.in_time(pin!(self.store.reset(counter))).await.flatten()
    }

    async fn set(&self, counter: &Counter<'_>, used: u64) -> Result<QuotaState, StoreError> {
        self.in_time(pin!(self.store.set(counter, used))).await.flatten()
    }
}

impl<S, C, D, T> FallbackStore<S, C, D>
where
    C: Clock,
    D: Fn() -> T,
    T: Future<Output = ()>,
{
    /// What the step gives, unless the deadline passes before. It stays where it is, because a future that is handed
    /// on is kept twice.
    async fn in_time<A>(&self, mut step: Pin<&mut impl Future<Output = A>>) -> Result<A, StoreError> {
        let mut deadline = pin!(None);
        poll_fn(|context| {
            // The step first: an answer that is there counts, however late this task gets its turn.
            if let Poll::Ready(answer) = step.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            if deadline.is_none() {
                deadline.set(Some((self.deadline)()));
            }
            match deadline.as_mut().as_pin_mut() {
                Some(deadline) => deadline.poll(context).map(|()| Err(StoreError::TimedOut)),
                None => Poll::Pending,
            }
        })
        .await
    }

    fn charged(
        &self,
        charges: &[Charge<'_>],
        answer: Result<Counted, StoreError>,
    ) -> Result<Counted, StoreError> {
        possible(charges, answer)
            .or_else(|error| self.instead(charges, error, |charges| SyncStore::charge(&self.memory, charges)))
    }

    /// What the policies of these charges answer in the store's stead. The strictest that is among them decides:
    /// one `Closed` is enough to give the error on, and beside a `Local`, which counts, an `Open` only denies what
    /// no window ever has room for.
    fn instead(
        &self,
        charges: &[Charge<'_>],
        error: StoreError,
        step: impl FnOnce(&[Charge<'_>]) -> Result<Counted, StoreError>,
    ) -> Result<Counted, StoreError> {
        if error == StoreError::Full {
            return Err(error);
        }
        let mut shared = SmallVec::<[(Charge<'_>, LocalShare); 2]>::new();
        let mut open = SmallVec::<[Charge<'_>; 2]>::new();
        for charge in charges {
            match charge.counter().quota().on_store_failure().unwrap_or(self.on_failure) {
                OnStoreFailure::Closed => return Err(error),
                OnStoreFailure::Open => open.push(*charge),
                OnStoreFailure::Local(share) => shared.push((*charge, share)),
            }
        }
        let open_states = self.uncounted(&open);
        if shared.is_empty() {
            return Ok(open_states);
        }
        // All or nothing: beside what can never pass, nothing is counted.
        let shared_states = if open_states.is_admitted() {
            with_shares(&shared, step)?
        } else {
            with_shares(&shared, |charges| SyncStore::peek(&self.memory, charges))?
        };
        if open.is_empty() {
            return Ok(shared_states);
        }
        let (mut open_states, mut shared_states) = (open_states.iter(), shared_states.iter());
        let states = charges.iter().filter_map(|charge| {
            match charge.counter().quota().on_store_failure().unwrap_or(self.on_failure) {
                OnStoreFailure::Local(_) => shared_states.next(),
                _ => open_states.next(),
            }
        });
        Ok(states.copied().collect())
    }
}

/// Takes a step on the same counters with these shares of their limits.
fn with_shares(
    charges: &[(Charge<'_>, LocalShare)],
    step: impl FnOnce(&[Charge<'_>]) -> Result<Counted, StoreError>,
) -> Result<Counted, StoreError> {
    let quotas: SmallVec<[PolicyQuota; 2]> =
        charges.iter().map(|(charge, share)| charge.counter().quota().with_share(*share)).collect();
    let whole: SmallVec<[Charge<'_>; 2]> = charges.iter().map(|(charge, _)| *charge).collect();
    let shares = whole.iter().zip(&quotas);
    let shares: SmallVec<[Charge<'_>; 2]> =
        shares.map(|(charge, quota)| Charge::new(quota, charge.counter().key(), charge.cost())).collect();
    let counted = step(&shares)?;
    let states = whole.iter().zip(&counted).map(|(charge, state)| {
        // What is above the share alone passes once the store is back: it may be told to come again.
        let passes_later = charge.asked_in(&whole) <= charge.limit();
        let reason = state.reason().map(|reason| if passes_later { Reason::QuotaExceeded } else { reason });
        state.with_reason(reason).with_source(Source::Fallback)
    });
    Ok(states.collect())
}

/// The answer, if a store that keeps its promises can have given it to these charges.
fn possible(charges: &[Charge<'_>], answer: Result<Counted, StoreError>) -> Result<Counted, StoreError> {
    let counted = answer?;
    let is_possible = |(charge, state): (&Charge<'_>, &QuotaState)| {
        state.limit() == charge.limit() && (!state.has_room() || state.used() <= state.limit())
    };
    if counted.len() == charges.len() && charges.iter().zip(&counted).all(is_possible) {
        Ok(counted)
    } else {
        Err(StoreError::BadReply)
    }
}

impl<S, C, D> fmt::Debug for FallbackStore<S, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallbackStore").field("on_failure", &self.on_failure).finish_non_exhaustive()
    }
}
