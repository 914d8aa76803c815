//! Reservations: units that are charged before the cost is known.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;
use tollgate::{AnyStore, Receipt, ReceiptError, ReceiptItem};

use crate::key::BoxFuture;
use crate::warning::{SetupWarning, Warnings};

/// A reservation of the maximum cost of a request, until the actual cost is committed.
///
/// With [`Rule::reserve`](crate::Rule::reserve) it is in the extensions of the request. The code that knows the cost
/// takes it from there and commits the cost, even after the response has begun. The rest goes back to the window that
/// was charged, unless that has closed. If the last clone is dropped without a commit, everything is given back. So a
/// handler that fails, or a client that disconnects before the commit, costs nothing.
///
/// Clones share one reservation. The first [`commit`](Self::commit) or [`cancel`](Self::cancel) settles it; later ones
/// do nothing.
///
/// If two layers reserve, the inner reservation also settles the outer one at the same cost. If the outer one counts
/// something else, such as requests instead of words, put a layer between the two that takes its reservation out of the
/// extensions and settles it.
///
/// # Examples
///
/// ```
/// use tollgate_tower::Reservation;
///
/// async fn answer(reservation: Reservation) -> Result<String, tollgate::ReceiptError> {
///     let answer = "the answer".to_owned();
///     reservation.commit(answer.len() as u32).await?;
///     Ok(answer)
/// }
/// ```
#[derive(Clone)]
#[must_use = "dropped, it gives back everything"]
pub struct Reservation {
    inner: Arc<ReservationState>,
}

struct ReservationState {
    warnings: Arc<Warnings>,
    /// `None` once it is settled.
    taken: Mutex<Option<Box<HeldReceipt>>>,
    units: u32,
    /// The reservation of the outer layer: the extensions have room for only one.
    outer: Option<Reservation>,
}

impl Reservation {
    pub(crate) fn new(warnings: &Arc<Warnings>, taken: Box<HeldReceipt>, outer: Option<Self>) -> Self {
        let (warnings, units) = (Arc::clone(warnings), taken.units());
        Self { inner: Arc::new(ReservationState { warnings, taken: Mutex::new(Some(taken)), units, outer }) }
    }

    /// Returns the most units that the innermost layer has charged to a quota.
    #[must_use]
    pub fn units(&self) -> u32 {
        self.inner.units
    }

    /// Settles it at the actual cost. Units above the cost are given back. Missing units are charged whether or not
    /// there is room, in the windows that are open now, so `used` may exceed the limit.
    ///
    /// # Errors
    ///
    /// If the store could not execute a step. The error names the policy and the quota, the first of the innermost
    /// layer. All others are settled; units that could not be given back count until they come back by themselves.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the difference may or may not have been given back.
    pub async fn commit(&self, actual: u32) -> Result<(), ReceiptError> {
        together(self.settle().into_iter().map(|taken| taken.commit(actual))).await
    }

    /// Gives back everything.
    ///
    /// # Errors
    ///
    /// See [`commit`](Self::commit).
    pub async fn cancel(&self) -> Result<(), ReceiptError> {
        together(self.settle().into_iter().map(|taken| taken.cancel())).await
    }

    /// Returns the charged units of this layer and the outer ones. All reservations are marked as settled before the
    /// first step, so that a dropped future does not look like a dropped reservation.
    fn settle(&self) -> SmallVec<[Box<HeldReceipt>; 2]> {
        std::iter::successors(Some(self), |reservation| reservation.inner.outer.as_ref())
            .filter_map(|reservation| reservation.inner.settle())
            .collect()
    }
}

impl ReservationState {
    /// Returns the charged units, if they were not settled before.
    fn settle(&self) -> Option<Box<HeldReceipt>> {
        // Nothing that is done under the lock can panic.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for ReservationState {
    fn drop(&mut self) {
        let Some(taken) = self.settle() else { return };
        go_on(&self.warnings, async move {
            // No caller can get the error; the units count until they come back by themselves.
            let _ = taken.cancel().await;
        });
    }
}

/// Charged units, and their counters.
pub(crate) struct HeldReceipt {
    store: AnyStore,
    receipt: Receipt,
}

impl HeldReceipt {
    /// Boxed, so that requests without refunds move less memory.
    pub(crate) fn boxed(store: &AnyStore, receipt: Receipt) -> Box<Self> {
        Box::new(Self { store: store.clone(), receipt })
    }

    /// Returns the most units that a quota was charged, including fallback decisions.
    pub(crate) fn units(&self) -> u32 {
        let units = |item: &ReceiptItem| item.cost().unwrap_or(item.units());
        self.receipt.items().iter().map(units).max().unwrap_or(0)
    }

    /// Gives everything back, to the windows that were charged.
    pub(crate) async fn cancel(mut self) -> Result<(), ReceiptError> {
        self.receipt.refund(&self.store).await.map(drop)
    }

    /// Gives back unneeded units, or charges missing ones without asking for room.
    pub(crate) async fn commit(mut self, actual: u32) -> Result<(), ReceiptError> {
        self.receipt.settle(&self.store, actual).await.map(drop)
    }
}

/// A step of the store that charges units.
///
/// # Cancel safety
///
/// If it is dropped before it completes, it continues by itself and gives the units back, because the client has
/// disconnected.
pub(crate) struct ReservedStep<A: 'static> {
    warnings: Arc<Warnings>,
    /// `None` once it is done.
    step: Option<BoxFuture<'static, A>>,
    /// Returns the charged units.
    taken: fn(A) -> Option<Box<HeldReceipt>>,
}

impl<A> ReservedStep<A> {
    pub(crate) fn new(
        warnings: &Arc<Warnings>,
        step: impl Future<Output = A> + Send + 'static,
        taken: fn(A) -> Option<Box<HeldReceipt>>,
    ) -> Self {
        Self { warnings: Arc::clone(warnings), step: Some(Box::pin(step)), taken }
    }
}

impl<A> Future for ReservedStep<A> {
    type Output = A;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<A> {
        let Some(step) = &mut self.step else { panic!("`ReservedStep` polled after it was done") };
        let polled = step.as_mut().poll(context);
        if polled.is_ready() {
            self.step = None;
        }
        polled
    }
}

impl<A> Drop for ReservedStep<A> {
    fn drop(&mut self) {
        let Some(step) = self.step.take() else { return };
        let taken = self.taken;
        go_on(&self.warnings, async move {
            if let Some(taken) = taken(step.await) {
                // No caller can get the error; the units count until they come back by themselves.
                let _ = taken.cancel().await;
            }
        });
    }
}

/// Runs these concurrently, so that together they take no longer than the deadline of one. Returns the first error.
async fn together<F>(steps: impl Iterator<Item = F>) -> Result<(), ReceiptError>
where
    F: Future<Output = Result<(), ReceiptError>>,
{
    let mut running: SmallVec<[_; 2]> = steps.map(|step| (Box::pin(step), None)).collect();
    poll_fn(|context| {
        for (step, done) in &mut running {
            if done.is_none()
                && let Poll::Ready(settled) = step.as_mut().poll(context)
            {
                *done = Some(settled);
            }
        }
        if running.iter().all(|(_, done)| done.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, done)| done).collect()
}

/// Finishes this without a caller: here if it completes immediately, else in a task.
fn go_on(warnings: &Warnings, step: impl Future<Output = ()> + Send + 'static) {
    let mut step = Box::pin(step);
    // With a store in this process, the first poll finishes it.
    if step.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(()) {
        return;
    }
    #[cfg(feature = "tokio")]
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        drop(runtime.spawn(step));
        return;
    }
    warnings.give(SetupWarning::RefundNotTaken);
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("units", &self.inner.units).finish_non_exhaustive()
    }
}
