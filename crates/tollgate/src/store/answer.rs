//! A store's answer: immediate, or a future.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// A store's answer: immediate, or a future.
///
/// Await it, or match on it to avoid a future if the store answers immediately.
///
/// ```
/// use tollgate::{Answer, Charge, Key, MemoryStore, PolicyQuota, Quota, Step, Store};
///
/// let (store, quota, key) = (MemoryStore::new(), PolicyQuota::new("api", Quota::per_day(5)), Key::from("alice"));
/// let charges = [Charge::new(&quota, &key, 1)];
/// match store.step(Step::Charge(&charges)) {
///     Answer::Now(counted) => assert!(counted?.is_admitted()),
///     Answer::Later(_) => unreachable!("a memory store answers at once"),
/// }
/// # tollgate_testkit::block_on(async {
/// let counted = store.step(Step::Charge(&charges)).await?;
/// assert_eq!(counted[0].used(), 2);
/// # Ok::<(), tollgate::StoreError>(())
/// # })?;
/// # Ok::<(), tollgate::StoreError>(())
/// ```
#[must_use = "an answer that comes later does nothing unless it is awaited"]
pub enum Answer<F: Future> {
    /// The answer.
    Now(F::Output),
    /// A future of the answer. Nothing happens until it is polled.
    Later(F),
}

impl<F: Future> Answer<F> {
    /// Applies `make` to the answer, immediately or when it arrives.
    #[inline]
    pub fn map<T>(self, make: impl FnOnce(F::Output) -> T) -> Answer<impl Future<Output = T>> {
        match self {
            Self::Now(answer) => Answer::Now(make(answer)),
            Self::Later(later) => Answer::Later(async move { make(later.await) }),
        }
    }
}

impl<F: Future> IntoFuture for Answer<F> {
    type Output = F::Output;
    type IntoFuture = Waiting<F>;

    fn into_future(self) -> Waiting<F> {
        match self {
            Self::Now(answer) => Waiting { now: Some(answer), later: None },
            Self::Later(later) => Waiting { now: None, later: Some(later) },
        }
    }
}

impl<F: Future> fmt::Debug for Answer<F>
where
    F::Output: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(answer) => f.debug_tuple("Now").field(answer).finish(),
            Self::Later(_) => f.write_str("Later(..)"),
        }
    }
}

pin_project! {
    /// The future of an [`Answer`]. If the store answered immediately, the first poll is ready.
    pub struct Waiting<F: Future> {
        now: Option<F::Output>,
        #[pin]
        later: Option<F>,
    }
}

impl<F: Future> Future for Waiting<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        match (this.now.take(), this.later.as_pin_mut()) {
            (Some(answer), _) => Poll::Ready(answer),
            (None, Some(later)) => later.poll(context),
            // Polled again after it was done.
            (None, None) => Poll::Pending,
        }
    }
}

impl<F: Future> fmt::Debug for Waiting<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}
