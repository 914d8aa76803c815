//! The keeper of counts: one atomic step decides and counts.
//!
//! A store is the only part that knows the time. What it counted becomes a [`Decision`](crate::Decision) by a
//! pure function, the same for every store.

use std::future::Future;
use std::ops::Deref;

use thiserror::Error;

use crate::{Charge, Counter, QuotaState, Timestamp};

/// One value for each quota charged, in the order of the charges; a single one is held in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerQuota<T>(Values<T>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Values<T> {
    One([T; 1]),
    Many(Box<[T]>),
}

impl<T> PerQuota<T> {
    /// The value of the only quota.
    pub const fn one(value: T) -> Self {
        Self(Values::One([value]))
    }
}

impl<T> Deref for PerQuota<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Values::One(value) => value,
            Values::Many(values) => values,
        }
    }
}

impl<T> FromIterator<T> for PerQuota<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values = values.into_iter();
        match (values.next(), values.next()) {
            (Some(only), None) => Self::one(only),
            (first, second) => Self(Values::Many(first.into_iter().chain(second).chain(values).collect())),
        }
    }
}

impl<'a, T> IntoIterator for &'a PerQuota<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        (**self).iter()
    }
}

/// What one step of a store found and did: for each charge, where its quota stands then.
pub type Counted = PerQuota<QuotaState>;

impl Counted {
    /// Whether every charge had room, and so all were charged.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.iter().all(QuotaState::has_room)
    }
}

/// What came of a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refunded {
    /// The window that was charged is still open.
    Open {
        /// Units given back: at most the cost, at most what was used.
        given: u32,
        /// Units still used.
        used: u64,
    },
    /// The window that was named is not the open one; nothing was given back.
    Closed,
}

impl Refunded {
    /// Units given back.
    #[must_use]
    pub const fn given(&self) -> u32 {
        match self {
            Self::Open { given, .. } => *given,
            Self::Closed => 0,
        }
    }
}

/// Why a store could not answer. It is never a denial: what to do then is the caller's choice.
///
/// Unless [`may_have_charged`](Self::may_have_charged) says otherwise, nothing was charged. No store sends a
/// charge again whose outcome it does not know.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store is at its cap and holds no counter for the key. Counters it holds go on working. Nobody's
    /// fault but the cap's; a retry helps once a window closes. The [guide](crate::guide#when-the-store-is-full)
    /// says what to do with it.
    #[error("the store is full: no room for another counter")]
    Full,
    /// There is no connection to the store, or its last calls went unanswered and nothing is sent until it
    /// answers again. The fault of the store or of the network; a retry helps once it is back.
    #[error("the store cannot be reached")]
    Unreachable,
    /// The store answers, but cannot count now: it loads its data, runs another's slow script, elects a new
    /// primary, has too few replicas or cannot save. A retry helps once that is over.
    #[error("the store is not ready to count")]
    NotReady,
    /// As many calls as are allowed were under way. The fault of the load or of a slow store; a retry helps
    /// once there is less of it.
    #[error("too many calls to the store are under way")]
    Overloaded,
    /// No answer came in time, or the connection broke before one came. Whether the store charged, or still
    /// will, is unknown: a retry may charge twice.
    #[error("no answer from the store: whether it charged is unknown")]
    TimedOut,
    /// Under a counter's key, the store holds something that is no count. The fault of whoever wrote it; a
    /// retry helps once the counter is reset.
    #[error("the store holds something that is no count under the key of a counter")]
    WrongType,
    /// The store is at its limit of memory and refuses to write. The fault of its configuration; a retry helps
    /// once it has room.
    #[error("the store is out of memory")]
    OutOfMemory,
    /// The store wants another user or password, or its rules forbid the user what counting takes. The fault
    /// of the configuration on either side; a retry helps once that is changed.
    #[error("the store denies access: wrong user or password, or a right is missing")]
    AccessDenied,
    /// The store, or what we were told of it, is not set up to count; the text says what is wrong. The fault of
    /// the configuration on either side; a retry helps once that is changed.
    #[error("the store is misconfigured: {0}")]
    Misconfigured(&'static str),
    /// The store refuses the script that counts, or stopped it half way. The fault of its configuration or ours;
    /// a retry does not help. Whether it charged is unknown.
    #[error("the store refuses the script that counts")]
    ScriptRefused,
    /// The answer makes no sense. The fault of the store, or of something else that listens at its address; a
    /// retry seldom helps. Whether it charged is unknown.
    #[error("the store's answer makes no sense")]
    BadReply,
}

impl StoreError {
    /// Whether units may have been charged although there is no decision.
    ///
    /// ```
    /// use tollgate::StoreError;
    ///
    /// assert!(StoreError::TimedOut.may_have_charged());
    /// assert!(!StoreError::Unreachable.may_have_charged());
    /// ```
    #[must_use]
    pub const fn may_have_charged(&self) -> bool {
        match self {
            Self::TimedOut | Self::ScriptRefused | Self::BadReply => true,
            Self::Full
            | Self::Unreachable
            | Self::NotReady
            | Self::Overloaded
            | Self::WrongType
            | Self::OutOfMemory
            | Self::AccessDenied
            | Self::Misconfigured(_) => false,
        }
    }
}

/// Keeps the counters and takes every decision in one atomic step.
///
/// All units of a step are charged or none (unless a quota [counts denied
/// requests](crate::CountDenied::Yes)), and each step reads the store's clock once. Charges of one step on the
/// same counter add up.
///
/// # Consistency
///
/// Steps on the same counters happen one after another, in some order that every caller sees. In one window of
/// one key, admitted costs never exceed the limit; if the costs asked for fit, all are admitted.
///
/// # Waiting
///
/// A store that may have to wait has a deadline, and then gives an error. For one that has none,
/// [`FallbackStore`](crate::FallbackStore) has one.
pub trait Store: Send + Sync {
    /// Charges all or nothing. A charge of cost 0 takes nothing and is answered as cost 1 would be.
    ///
    /// # Errors
    ///
    /// If the store could not take the step.
    fn charge(&self, charges: &[Charge<'_>]) -> impl Future<Output = Result<Counted, StoreError>> + Send;

    /// As [`charge`](Self::charge), where that never waits: so does every [`SyncStore`]. Any other store answers
    /// `None`, and then nothing was charged. What was counted is handed on where it is made, and not copied first.
    ///
    /// It is for callers that go on at once if they can, without a future to keep.
    #[inline(always)]
    fn charge_now<A>(
        &self,
        charges: &[Charge<'_>],
        then: impl FnOnce(Counted) -> A,
    ) -> Option<Result<A, StoreError>> {
        let _ = (charges, then);
        None
    }

    /// Whether no step ever waits, so that each future is done when it is first polled: so is every [`SyncStore`].
    ///
    /// It is for callers that have several steps to take, and go on at once if they can.
    fn never_waits(&self) -> bool {
        false
    }

    /// Takes one step for each request, for those who have many at hand, and answers in the order of the requests.
    ///
    /// The answers are as if the requests had been taken one after another, in some order: a request that is
    /// denied or fails harms no other. A store in this process ([`SyncStore`]) takes them in the given order.
    fn charge_each(
        &self,
        requests: &[&[Charge<'_>]],
    ) -> impl Future<Output = Vec<Result<Counted, StoreError>>> + Send;

    /// Looks whether the charges would be admitted, and charges nothing.
    ///
    /// # Errors
    ///
    /// If the store could not be asked, or could not take the step.
    fn peek(&self, charges: &[Charge<'_>]) -> impl Future<Output = Result<Counted, StoreError>> + Send;

    /// Charges without asking whether there is room; `used` may pass the limit and saturates at 2^40 - 1.
    ///
    /// # Errors
    ///
    /// If the store could not take the step.
    fn record(&self, charge: &Charge<'_>) -> impl Future<Output = Result<QuotaState, StoreError>> + Send;

    /// Gives back the cost of the charge in the window that began at `start`: at most what is used, and
    /// nothing once that window has closed.
    ///
    /// # Errors
    ///
    /// If the store could not take the step.
    fn refund(
        &self,
        charge: &Charge<'_>,
        start: Timestamp,
    ) -> impl Future<Output = Result<Refunded, StoreError>> + Send;

    /// Forgets the counter: nothing is used, and a `first_hit` window is closed.
    ///
    /// # Errors
    ///
    /// If the store could not take the step.
    fn reset(&self, counter: &Counter<'_>) -> impl Future<Output = Result<QuotaState, StoreError>> + Send;

    /// Sets what is used in the current window, also above the limit; it saturates at 2^40 - 1.
    ///
    /// # Errors
    ///
    /// If the store could not take the step.
    fn set(
        &self,
        counter: &Counter<'_>,
        used: u64,
    ) -> impl Future<Output = Result<QuotaState, StoreError>> + Send;
}

/// A store whose steps never wait, because its counters are in this process.
///
/// Whoever implements it implements [`Store`] with it: the same steps, taken when first polled. What each step
/// does and when it fails is said there.
pub trait SyncStore: Send + Sync {
    /// See [`Store::charge`].
    fn charge(&self, charges: &[Charge<'_>]) -> Result<Counted, StoreError>;

    /// As [`charge`](Self::charge), with what was counted handed on where it is made, and not copied first.
    #[inline(always)]
    fn charge_then<A>(
        &self,
        charges: &[Charge<'_>],
        then: impl FnOnce(Counted) -> A,
    ) -> Result<A, StoreError> {
        self.charge(charges).map(then)
    }

    /// See [`Store::charge_each`]; the requests are taken in the given order.
    fn charge_each(&self, requests: &[&[Charge<'_>]]) -> Vec<Result<Counted, StoreError>> {
        requests.iter().map(|charges| self.charge(charges)).collect()
    }

    /// See [`Store::peek`].
    fn peek(&self, charges: &[Charge<'_>]) -> Result<Counted, StoreError>;

    /// See [`Store::record`].
    fn record(&self, charge: &Charge<'_>) -> Result<QuotaState, StoreError>;

    /// See [`Store::refund`].
    fn refund(&self, charge: &Charge<'_>, start: Timestamp) -> Result<Refunded, StoreError>;

    /// See [`Store::reset`].
    fn reset(&self, counter: &Counter<'_>) -> Result<QuotaState, StoreError>;

    /// See [`Store::set`].
    fn set(&self, counter: &Counter<'_>, used: u64) -> Result<QuotaState, StoreError>;
}

impl<S: SyncStore> Store for S {
    async fn charge(&self, charges: &[Charge<'_>]) -> Result<Counted, StoreError> {
        SyncStore::charge(self, charges)
    }

    #[inline(always)]
    fn charge_now<A>(
        &self,
        charges: &[Charge<'_>],
        then: impl FnOnce(Counted) -> A,
    ) -> Option<Result<A, StoreError>> {
        Some(self.charge_then(charges, then))
    }

    fn never_waits(&self) -> bool {
        true
    }

    async fn charge_each(&self, requests: &[&[Charge<'_>]]) -> Vec<Result<Counted, StoreError>> {
        SyncStore::charge_each(self, requests)
    }

    async fn peek(&self, charges: &[Charge<'_>]) -> Result<Counted, StoreError> {
        SyncStore::peek(self, charges)
    }

    async fn record(&self, charge: &Charge<'_>) -> Result<QuotaState, StoreError> {
        SyncStore::record(self, charge)
    }

    async fn refund(&self, charge: &Charge<'_>, start: Timestamp) -> Result<Refunded, StoreError> {
        SyncStore::refund(self, charge, start)
    }

    async fn reset(&self, counter: &Counter<'_>) -> Result<QuotaState, StoreError> {
        SyncStore::reset(self, counter)
    }

    async fn set(&self, counter: &Counter<'_>, used: u64) -> Result<QuotaState, StoreError> {
        SyncStore::set(self, counter, used)
    }
}
