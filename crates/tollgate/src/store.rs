//! The keeper of counts: one atomic step decides and counts.
//!
//! A store is the only part that knows the time. What it counted becomes a [`Decision`](crate::Decision) by a
//! pure function, the same for every store.

use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use smallvec::SmallVec;
use thiserror::Error;

use crate::{Charge, Counter, Timestamp, Window};

/// One value for each quota charged, in the order of the charges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerQuota<T>(SmallVec<[T; 2]>);

impl<T> Deref for PerQuota<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> FromIterator<T> for PerQuota<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl<'a, T> IntoIterator for &'a PerQuota<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// What one step of a store found and did. It was admitted if every count fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// When the step was taken, by the clock that decides.
    pub now: Timestamp,
    /// How far behind the true time `now` can be.
    pub resolution: Duration,
    /// One count for each charge, in their order.
    pub counts: PerQuota<Count>,
}

impl Counted {
    /// Whether every charge had room, and so all were charged.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.counts.iter().all(|count| count.fits)
    }
}

/// What one charge found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Units used in the window after the step.
    pub used: u64,
    /// The window that was counted.
    pub window: Window,
    /// Whether the charge had room: `used + cost <= limit` held before it. Always true for what does not ask.
    pub fits: bool,
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
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store is at its cap and holds no counter for the key. Counters it holds go on working. Nobody's
    /// fault but the cap's; a retry helps once a window closes.
    #[error("the store is full: no room for another counter")]
    Full,
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
pub trait Store: Send + Sync {
    /// Charges all or nothing. A charge of cost 0 takes nothing and is answered as cost 1 would be.
    ///
    /// # Errors
    ///
    /// If the store could not take the step.
    fn charge(&self, charges: &[Charge<'_>]) -> impl Future<Output = Result<Counted, StoreError>> + Send;

    /// Takes one step for each request, independent of each other: for those who have many at hand.
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
    fn record(&self, charge: &Charge<'_>) -> impl Future<Output = Result<Count, StoreError>> + Send;

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
    fn reset(&self, counter: &Counter<'_>) -> impl Future<Output = Result<Count, StoreError>> + Send;

    /// Sets what is used in the current window, also above the limit; it saturates at 2^40 - 1.
    ///
    /// # Errors
    ///
    /// If the store could not take the step.
    fn set(&self, counter: &Counter<'_>, used: u64)
    -> impl Future<Output = Result<Count, StoreError>> + Send;
}

/// A store whose steps never wait, because its counters are in this process.
///
/// Whoever implements it implements [`Store`] with it: the same steps, taken when first polled. What each step
/// does and when it fails is said there.
pub trait SyncStore: Send + Sync {
    /// See [`Store::charge`].
    fn charge(&self, charges: &[Charge<'_>]) -> Result<Counted, StoreError>;

    /// See [`Store::charge_each`].
    fn charge_each(&self, requests: &[&[Charge<'_>]]) -> Vec<Result<Counted, StoreError>> {
        requests.iter().map(|charges| self.charge(charges)).collect()
    }

    /// See [`Store::peek`].
    fn peek(&self, charges: &[Charge<'_>]) -> Result<Counted, StoreError>;

    /// See [`Store::record`].
    fn record(&self, charge: &Charge<'_>) -> Result<Count, StoreError>;

    /// See [`Store::refund`].
    fn refund(&self, charge: &Charge<'_>, start: Timestamp) -> Result<Refunded, StoreError>;

    /// See [`Store::reset`].
    fn reset(&self, counter: &Counter<'_>) -> Result<Count, StoreError>;

    /// See [`Store::set`].
    fn set(&self, counter: &Counter<'_>, used: u64) -> Result<Count, StoreError>;
}

impl<S: SyncStore> Store for S {
    async fn charge(&self, charges: &[Charge<'_>]) -> Result<Counted, StoreError> {
        SyncStore::charge(self, charges)
    }

    async fn charge_each(&self, requests: &[&[Charge<'_>]]) -> Vec<Result<Counted, StoreError>> {
        SyncStore::charge_each(self, requests)
    }

    async fn peek(&self, charges: &[Charge<'_>]) -> Result<Counted, StoreError> {
        SyncStore::peek(self, charges)
    }

    async fn record(&self, charge: &Charge<'_>) -> Result<Count, StoreError> {
        SyncStore::record(self, charge)
    }

    async fn refund(&self, charge: &Charge<'_>, start: Timestamp) -> Result<Refunded, StoreError> {
        SyncStore::refund(self, charge, start)
    }

    async fn reset(&self, counter: &Counter<'_>) -> Result<Count, StoreError> {
        SyncStore::reset(self, counter)
    }

    async fn set(&self, counter: &Counter<'_>, used: u64) -> Result<Count, StoreError> {
        SyncStore::set(self, counter, used)
    }
}
