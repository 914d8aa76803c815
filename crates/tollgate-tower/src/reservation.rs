//! Units that were taken before it is known how many are needed.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;
use tollgate::ReceiptError;

use crate::held_receipt::HeldReceipt;
use crate::warning::{Warning, Warnings};

/// Units that a request was admitted with: the most it may cost, until what it did cost is committed.
///
/// With [`Rule::reserve`](crate::Rule::reserve) it is in the extensions of the request. Whoever knows the cost takes
/// it from there and commits it, also after the response has begun. What is left goes back to the window that was
/// charged; if that has closed meanwhile, nothing does. When the last clone is dropped before anything was committed,
/// all of it is given back: so a handler that fails, or a client that goes away before the reservation was committed,
/// costs nothing.
///
/// Clones are the same reservation. The first [`commit`](Self::commit) or [`cancel`](Self::cancel) settles it; later
/// ones do nothing.
///
/// Where two layers reserve, the reservation of the inner one settles that of the outer one as well, at the same cost.
/// If the outer one counts something else, such as requests and not words, a layer between the two takes its
/// reservation out of the extensions and settles it itself.
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
    inner: Arc<Inner>,
}

struct Inner {
    warnings: Arc<Warnings>,
    /// `None` once it is settled.
    taken: Mutex<Option<Box<HeldReceipt>>>,
    units: u32,
    /// That of the layer around this one: in the extensions of a request there is room for one.
    outer: Option<Reservation>,
}

impl Reservation {
    pub(crate) fn new(warnings: &Arc<Warnings>, taken: Box<HeldReceipt>, outer: Option<Self>) -> Self {
        let (warnings, units) = (Arc::clone(warnings), taken.units());
        Self { inner: Arc::new(Inner { warnings, taken: Mutex::new(Some(taken)), units, outer }) }
    }

    /// Units that the innermost layer has charged a quota with: of several, the most.
    #[must_use]
    pub fn units(&self) -> u32 {
        self.inner.units
    }

    /// Settles it at the actual cost. What was taken beyond it is given back. A cost beyond what was taken is charged
    /// without asking, in the windows that hold now, so that `used` may pass the limit.
    ///
    /// # Errors
    ///
    /// If the store could not take a step. The error names the policy and the quota; of several, the first of the
    /// innermost layer. All others are settled all the same, and what was taken counts until its window ends.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is done, the difference may or may not have been given back.
    pub async fn commit(&self, actual: u32) -> Result<(), ReceiptError> {
        together(self.settle().into_iter().map(|taken| taken.commit(actual))).await
    }

    /// Gives back everything.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub async fn cancel(&self) -> Result<(), ReceiptError> {
        together(self.settle().into_iter().map(|taken| taken.cancel())).await
    }

    /// What was taken by this layer and by those around it. All is settled before the first step: if nobody waits for
    /// the end of it, what is left is not taken for a reservation that was dropped.
    fn settle(&self) -> SmallVec<[Box<HeldReceipt>; 2]> {
        std::iter::successors(Some(self), |reservation| reservation.inner.outer.as_ref())
            .filter_map(|reservation| reservation.inner.settle())
            .collect()
    }
}

impl Inner {
    /// What was taken, if it was not settled before.
    fn settle(&self) -> Option<Box<HeldReceipt>> {
        // Nothing that is done under the lock can panic.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(taken) = self.settle() else { return };
        go_on(&self.warnings, async move {
            // Nobody is there to be told; what was taken counts until its window ends.
            let _ = taken.cancel().await;
        });
    }
}

/// Runs these at the same time, so that together they take no longer than the deadline of one. Returns the first error.
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

/// Goes on with this though nobody waits for it: here if it is done at once, else in a task of its own.
pub(crate) fn go_on(warnings: &Warnings, step: impl Future<Output = ()> + Send + 'static) {
    let mut step = Box::pin(step);
    // Over a store in this process the first poll is the last.
    if step.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(()) {
        return;
    }
    #[cfg(feature = "tokio")]
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        drop(runtime.spawn(step));
        return;
    }
    warnings.give(Warning::RefundNotTaken);
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("units", &self.inner.units).finish_non_exhaustive()
    }
}
