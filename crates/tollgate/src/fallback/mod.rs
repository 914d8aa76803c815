//! A store above another, which answers when the lower one cannot.
//!
//! If the store fails, does not answer in time or answers nonsense, the policy decides. The next request asks the store
//! again; reconnecting is the store's own work.

mod holds;
mod on_store_failure;

use std::fmt;
use std::future::{Pending, pending, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use smallvec::SmallVec;

pub use self::on_store_failure::{LocalShare, LocalShareError, OnStoreFailure};
use crate::hold::{HoldAnswer, HoldPlace, HoldStep};
use crate::store::{Answer, AnswerError, MemoryError, QuotaStates, Step, StepDeadline, Store, StoreError};
use crate::{
    BlockCharge, Charge, Clock, CountDenied, MemoryStore, PolicyQuota, QuotaState, Reason, Source,
    SystemClock, Timestamp,
};

/// A store with a policy for outages.
///
/// [`OnStoreFailure`] documents what each policy answers, and the most that several processes admit. A decision by the
/// policy has the source [`Fallback`](Source::Fallback), and its own figures. With `Local`, the limit is this process's
/// share, and `used` is its own count; a cost above the share is denied without a time to wait, because it does not
/// pass before the store is back. With `Open`, nothing of the limit is used. So `remaining` is true for the next
/// request as well.
///
/// | step | `Open` | `Closed` | `Local` |
/// |---|---|---|---|
/// | [`Charge`](Step::Charge), [`ChargeBefore`](Step::ChargeBefore), [`Peek`](Step::Peek) | admitted | error | counted here |
/// | [`Record`](Step::Record), [`Block`](Step::Block) | not counted | error | counted here |
/// | [`Refund`](Step::Refund), [`Reset`](Step::Reset), [`Set`](Step::Set) | error | error | error |
///
/// The last three change a counter of the store. Nothing in this process can replace that, so the caller gets the
/// error. Local counts end with their window: they are neither copied to the store nor given back.
///
/// A quota may have [its own policy](PolicyQuota::with_on_store_failure). If several quotas are charged, the strictest
/// policy among them decides: `Closed`, then `Local`, then `Open`. With `Local`, the quotas with `Local` are counted,
/// each against its own share. The others are not counted; the answer has both. Charges on one counter are counted
/// together: one with `Open` counts against the share of one with `Local`.
///
/// [Holds](HoldStep) follow the same policies, those of their [limits in
/// flight](crate::PolicyInFlight::with_on_store_failure) included:
///
/// | step | `Open` | `Closed` | `Local` |
/// |---|---|---|---|
/// | [`Reserve`](HoldStep::Reserve), [`Look`](HoldStep::Look) | admitted, [nowhere](HoldPlace::Nowhere) | error | counted [here](HoldPlace::Process) |
/// | [`Renew`](HoldStep::Renew), [`Settle`](HoldStep::Settle), [`Reset`](HoldStep::Reset) | error | error | error |
///
/// Later steps on a hold belong to its place: see [`hold_in`](Store::hold_in). A reservation that is repeated asks the
/// store first, so one that was counted here is new to a store that answers again. Both then count, until this process's
/// hold is settled or expires.
///
/// The store below may be a `FallbackStore` as well. Its policy comes first, and this one decides about errors that it
/// returns.
///
/// The policy decides only in [trouble](StoreError::Trouble). A denial stays one. A request that can [never be
/// counted](StoreError::Uncountable) is an error under every policy. So is a [full](StoreError::Full) store, which
/// needs [a choice of its own](crate::guide#when-the-store-is-full). With `Local`, the memory of this process may be
/// full as well.
///
/// # Cancel safety
///
/// A step that is dropped before it completes may or may not have been taken, by the store or in this process.
///
/// # Examples
///
/// ```
/// use tollgate::{FallbackStore, LocalShare, MemoryStore, OnStoreFailure, Quota, SharedLimiter, Source};
/// # use tollgate_testkit::{StoreFault, FaultyStore};
/// # let shared = FaultyStore::new(MemoryStore::new());
/// # let away = shared.clone();
///
/// // Three processes share the store `shared`.
/// let store = FallbackStore::new(shared, OnStoreFailure::Local(LocalShare::new(1, 3)?));
/// let limiter = SharedLimiter::new(Quota::per_day(4), store);
/// # tollgate_testkit::block_on(async {
/// assert_eq!(limiter.check("alice").await?.remaining(), 3);
///
/// // During an outage, each of the three admits two: a third of four, rounded up.
/// # away.begin(StoreFault::unreachable());
/// let decision = limiter.check("alice").await?;
/// assert_eq!((decision.source(), decision.remaining()), (Source::Fallback, 1));
/// assert!(limiter.check("alice").await?.is_allowed());
/// assert!(!limiter.check("alice").await?.is_allowed());
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
    /// Puts a policy above a store. It waits for the store without a limit; a store without its own deadline needs
    /// [`deadline`](Self::deadline).
    pub fn new(store: S, on_failure: OnStoreFailure) -> Self {
        Self { store, on_failure, memory: MemoryStore::new(), deadline: pending }
    }
}

impl<S, C, D> FallbackStore<S, C, D> {
    /// Sets the memory store that counts with `Local`. The default has room for one million counters and uses the
    /// system's clock.
    pub fn memory<K>(self, memory: MemoryStore<K>) -> FallbackStore<S, K, D> {
        FallbackStore { store: self.store, on_failure: self.on_failure, memory, deadline: self.deadline }
    }

    /// Sets the deadline of a step: after this future is done, the step fails as [`Late`](AnswerError::Late). Each step
    /// that has to wait makes one, for example by `|| tokio::time::sleep(Duration::from_millis(20))`. It does not depend
    /// on the deadline that a [step carries](Store::step_until), which is passed on to the store below.
    pub fn deadline<F, T>(self, deadline: F) -> FallbackStore<S, C, F>
    where
        F: Fn() -> T,
        T: Future<Output = ()>,
    {
        FallbackStore { store: self.store, on_failure: self.on_failure, memory: self.memory, deadline }
    }

    /// Returns the store below.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Returns the policy.
    pub const fn on_failure(&self) -> OnStoreFailure {
        self.on_failure
    }
}

impl<S, C: Clock, D> FallbackStore<S, C, D> {
    /// Returns the answer of `Open`: nothing is used, in windows of this process's clock. Use it also to admit keys for
    /// which a full store has no room.
    pub fn uncounted(&self, charges: &[Charge<'_>]) -> QuotaStates {
        let now = self.memory.now();
        let state = |charge: &Charge<'_>| {
            let counter = charge.counter();
            let quota = counter.quota().quota();
            let reason = Reason::of(0, charge.asked_in(charges), charge.limit());
            let unused = quota.unused_at(counter.key(), now);
            let needed = charge.asked_in(charges);
            QuotaState::of(quota, &unused, now, reason, needed).with_source(Source::Fallback)
        };
        charges.iter().map(state).collect()
    }
}

impl<S, C: Clock, D> FallbackStore<S, C, D> {
    /// Returns the policy's answer to a step that failed with this error. Use it for a step that you gave up on.
    ///
    /// # Errors
    ///
    /// As when the store fails.
    pub fn without_store(&self, step: Step<'_>, error: StoreError) -> Result<QuotaStates, StoreError> {
        self.judged(step, Err(error))
    }
}

impl<S, C, D, T> Store for FallbackStore<S, C, D>
where
    S: Store,
    C: Clock,
    D: Fn() -> T + Send + Sync,
    T: Future<Output = ()> + Send,
{
    #[inline]
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        match self.store.step_until(step, deadline) {
            Answer::Now(answer) => Answer::Now(self.judged(step, answer)),
            Answer::Later(later) => Answer::Later(async move {
                let answer = self.in_time(pin!(later)).await.unwrap_or_else(|late| Err(late.into()));
                self.judged(step, answer)
            }),
        }
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        match self.store.step_each_until(steps, deadline) {
            Answer::Now(answers) => Answer::Now(self.judged_each(steps, answers)),
            Answer::Later(later) => Answer::Later(async move {
                match self.in_time(pin!(later)).await {
                    Ok(answers) => self.judged_each(steps, answers),
                    Err(late) => self.judged_each(steps, vec![Err(late.into()); steps.len()]),
                }
            }),
        }
    }

    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        match self.store.hold_until(step, deadline) {
            Answer::Now(answer) => Answer::Now(self.judged_hold(step, answer)),
            Answer::Later(later) => Answer::Later(async move {
                let answer = self.in_time(pin!(later)).await.unwrap_or_else(|late| Err(late.into()));
                self.judged_hold(step, answer)
            }),
        }
    }

    /// A hold that is counted in this process fails only if its memory is full, or if it is reserved after its
    /// [end](crate::HoldTerms::before).
    fn hold_in<'a>(
        &'a self,
        place: HoldPlace,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        match place {
            HoldPlace::Store => self.hold_until(step, deadline),
            HoldPlace::Process => Answer::Now(self.hold_in_process(step).map_err(StoreError::from)),
            HoldPlace::Nowhere => Answer::Now(Ok(HoldAnswer::Gone)),
        }
    }
}

impl<S, C, D, T> FallbackStore<S, C, D>
where
    D: Fn() -> T,
    T: Future<Output = ()>,
{
    /// Returns the step's answer, unless the deadline passes first. The future is polled in place, because passing it
    /// on would store it twice.
    async fn in_time<A>(&self, mut step: Pin<&mut impl Future<Output = A>>) -> Result<A, AnswerError> {
        let mut deadline = pin!(None);
        poll_fn(|context| {
            // The step is polled first: an answer that has arrived counts, even if this task runs late.
            if let Poll::Ready(answer) = step.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            if deadline.is_none() {
                deadline.set(Some((self.deadline)()));
            }
            match deadline.as_mut().as_pin_mut() {
                Some(deadline) => deadline.poll(context).map(|()| Err(AnswerError::Late)),
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl<S, C: Clock, D> FallbackStore<S, C, D> {
    /// Returns the store's answers to these steps, or those of the policies.
    fn judged_each(
        &self,
        steps: &[Step<'_>],
        answers: Vec<Result<QuotaStates, StoreError>>,
    ) -> Vec<Result<QuotaStates, StoreError>> {
        let answers = if answers.len() == steps.len() {
            answers
        } else {
            vec![Err(AnswerError::Nonsense.into()); steps.len()]
        };
        steps.iter().zip(answers).map(|(step, answer)| self.judged(*step, answer)).collect()
    }

    /// Returns the store's answer to this step, or that of the policies.
    fn judged(
        &self,
        step: Step<'_>,
        answer: Result<QuotaStates, StoreError>,
    ) -> Result<QuotaStates, StoreError> {
        let answer = possible(step, answer);
        let answer = match answer {
            Err(error) if step.changes_nothing() => Err(error.with_nothing_charged()),
            answer => answer,
        };
        match (step, answer) {
            (_, Ok(counted)) => Ok(counted),
            (Step::Charge(charges), Err(error)) => {
                let charge = |charges: &[Charge<'_>]| self.memory.charge(charges).finish();
                self.instead(charges, error, charge, |charges| Ok(self.denied(charges)))
            }
            (Step::ChargeBefore { charges, end }, Err(error)) => {
                let charge = |charges: &[Charge<'_>]| self.memory.charge_before(charges, end);
                self.instead(charges, error, charge, |charges| {
                    self.require_before(end)?;
                    Ok(self.denied(charges))
                })
            }
            (Step::Peek(charges), Err(error)) => {
                let peek = |charges: &[Charge<'_>]| self.memory.peek(charges);
                self.instead(charges, error, peek, |charges| Ok(self.memory.look(charges)))
            }
            (Step::Record(charge), Err(error)) => {
                let record = |charges: &[Charge<'_>]| {
                    charges.iter().map(|charge| self.memory.record(charge)).collect()
                };
                let look = |charges: &[Charge<'_>]| Ok(self.memory.look(charges));
                let counted = self.instead(std::slice::from_ref(&charge), error, record, look)?;
                // A record charges without asking, so it is never denied.
                Ok(counted.iter().map(|state| state.with_reason(None)).collect())
            }
            (Step::Block(step), Err(error)) => {
                let block = |charges: &[Charge<'_>]| match charges {
                    [charge, block] => self.memory.block(&BlockCharge::of(*charge, block.counter())),
                    // Both have the policy of the quota.
                    charges => Ok(self.memory.look(charges)),
                };
                let look = |charges: &[Charge<'_>]| Ok(self.memory.look(charges));
                let counted = self.instead(&step.charges(), error, block, look)?;
                Ok(counted.iter().map(|state| state.with_reason(None)).collect())
            }
            (Step::Refund { .. } | Step::Reset(_) | Step::Set { .. }, Err(error)) => Err(error),
        }
    }

    /// Returns the answer of these charges' policies. With a `Local`, which counts, an `Open` denies only what can
    /// never pass; then the others are `denied`, for which they need no room.
    fn instead<E: Into<StoreError>>(
        &self,
        charges: &[Charge<'_>],
        error: StoreError,
        step: impl FnOnce(&[Charge<'_>]) -> Result<QuotaStates, E>,
        denied: impl FnOnce(&[Charge<'_>]) -> Result<QuotaStates, E>,
    ) -> Result<QuotaStates, StoreError> {
        let shares = self.shares(charges, error)?;
        let each = || charges.iter().zip(&shares);
        let open = each().filter(|(_, share)| share.is_none()).map(|(charge, _)| *charge);
        let open: SmallVec<[Charge<'_>; 2]> = open.collect();
        let shared = each().filter_map(|(charge, share)| Some((*charge, (*share)?)));
        let shared: SmallVec<[(Charge<'_>, LocalShare); 2]> = shared.collect();

        let open_states = self.uncounted(&open);
        if shared.is_empty() {
            return Ok(open_states);
        }
        // All or nothing: if one charge can never pass, the others are denied.
        let shared_states =
            if open_states.is_admitted() { with_shares(&shared, step) } else { with_shares(&shared, denied) };
        let shared_states = shared_states.map_err(E::into)?;
        let (mut open_states, mut shared_states) = (open_states.iter(), shared_states.iter());
        let states = shares.iter().filter_map(|share| match share {
            Some(_) => shared_states.next(),
            None => open_states.next(),
        });
        Ok(states.copied().collect())
    }

    /// Returns the share of its limit against which each charge is counted here; `None` for those that are admitted
    /// without a count. The strictest policy decides: one `Closed` returns the error.
    fn shares(&self, charges: &[Charge<'_>], error: StoreError) -> Result<Shares, StoreError> {
        if !matches!(error, StoreError::Trouble { .. }) {
            return Err(error);
        }
        let policy =
            |charge: &Charge<'_>| charge.counter().quota().on_store_failure().unwrap_or(self.on_failure);
        if charges.iter().any(|charge| policy(charge) == OnStoreFailure::Closed) {
            return Err(error);
        }
        let share = |charge: &Charge<'_>| match policy(charge) {
            OnStoreFailure::Local(share) => Some(share),
            _ => None,
        };
        // Charges on one counter add up, so they are counted together or not at all.
        let share_on_counter = |charge: &Charge<'_>| {
            let mut on_counter = charges.iter().filter(|other| other.counter() == charge.counter());
            share(charge).or_else(|| on_counter.find_map(share))
        };
        Ok(charges.iter().map(share_on_counter).collect())
    }

    /// Counts charges in memory whose request is denied elsewhere: only overdrafts are charged, where there is room for
    /// their counters.
    fn denied(&self, charges: &[Charge<'_>]) -> QuotaStates {
        let looked = self.memory.look(charges);
        let each = charges.iter().zip(&looked).map(|(charge, state)| {
            if !charge.is_overdraft_in(charges) {
                return *state;
            }
            let recorded = self.memory.record(charge).unwrap_or(*state);
            recorded.with_reason(state.reason())
        });
        each.collect()
    }

    /// Fails unless the time of this process's memory is before the end.
    fn require_before(&self, end: Timestamp) -> Result<(), MemoryError> {
        match self.memory.now() {
            now if now < end => Ok(()),
            now => Err(MemoryError::Ended { now }),
        }
    }
}

/// For each charge of a step, the share of its limit against which it is counted, if it is.
type Shares = SmallVec<[Option<LocalShare>; 2]>;

/// Takes a step on the same counters with these shares of their limits.
fn with_shares<E>(
    charges: &[(Charge<'_>, LocalShare)],
    step: impl FnOnce(&[Charge<'_>]) -> Result<QuotaStates, E>,
) -> Result<QuotaStates, E> {
    let quotas: SmallVec<[PolicyQuota; 2]> =
        charges.iter().map(|(charge, share)| charge.counter().quota().with_share(*share)).collect();
    let whole: SmallVec<[Charge<'_>; 2]> = charges.iter().map(|(charge, _)| *charge).collect();
    let shares = whole.iter().zip(&quotas);
    let shares: SmallVec<[Charge<'_>; 2]> =
        shares.map(|(charge, quota)| Charge::new(quota, charge.counter().key(), charge.cost())).collect();
    let counted = step(&shares)?;
    Ok(states_of_shares(&whole, &counted))
}

/// Returns the states of a step on shares of the limits of these charges.
fn states_of_shares(whole: &[Charge<'_>], counted: &QuotaStates) -> QuotaStates {
    let states = whole.iter().zip(counted).map(|(charge, state)| {
        // A cost above the share, but not above the limit, passes once the store is back. Nobody knows when that is.
        let is_above_share =
            state.reason() == Some(Reason::CostExceedsLimit) && charge.asked_in(whole) <= charge.limit();
        let reason = if is_above_share { Some(Reason::CostExceedsShare) } else { state.reason() };
        state.with_reason(reason).with_source(Source::Fallback)
    });
    states.collect()
}

/// Returns the answer if a correct store can have given it to this step.
fn possible(step: Step<'_>, answer: Result<QuotaStates, StoreError>) -> Result<QuotaStates, StoreError> {
    let is_possible = match (&answer, step) {
        (Ok(counted), Step::Charge(charges) | Step::Peek(charges)) => is_possible(charges, counted),
        (Ok(counted), Step::ChargeBefore { charges, end }) => {
            is_possible(charges, counted) && counted.iter().all(|state| is_before(state, end))
        }
        (Ok(counted), Step::Record(_) | Step::Refund { .. } | Step::Reset(_) | Step::Set { .. }) => {
            counted.len() == 1
        }
        (Ok(counted), Step::Block(_)) => counted.len() == 2,
        (Err(StoreError::Ended { now }), Step::ChargeBefore { end, .. }) => *now >= end,
        (Err(error), _) => !matches!(error, StoreError::Ended { .. }),
    };
    if is_possible { answer } else { Err(AnswerError::Nonsense.into()) }
}

/// Returns whether a correct store can have charged before the end. A fallback below may not have compared it.
fn is_before(state: &QuotaState, end: Timestamp) -> bool {
    state.now() < end || state.source() == Source::Fallback
}

/// Returns whether a correct store can have decided so on these charges.
fn is_possible(charges: &[Charge<'_>], counted: &QuotaStates) -> bool {
    let each = |(charge, state): (&Charge<'_>, &QuotaState)| {
        // A fallback below answers with another limit.
        let limit = if state.source() == Source::Fallback { state.limit() } else { charge.limit() };
        // Before an overdraft, less than the limit was used.
        let most = match charge.counter().quota().count_denied() {
            CountDenied::Overdraft => (limit + charge.cost_in(charges)).saturating_sub(1),
            CountDenied::No | CountDenied::Yes => limit,
        };
        state.limit() == limit && (!state.has_room() || state.used() <= most)
    };
    counted.len() == charges.len() && charges.iter().zip(counted).all(each)
}

impl<S, C, D> fmt::Debug for FallbackStore<S, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallbackStore").field("on_failure", &self.on_failure).finish_non_exhaustive()
    }
}
