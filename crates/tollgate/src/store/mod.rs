//! Stores keep the counts: one atomic step decides and counts.
//!
//! Only a store reads the time. It answers a [`Step`] with its counts ([`QuotaStates`]), and a pure function, the same
//! for every store, turns them into a [`Decision`](crate::Decision).

mod answer;
mod any;
mod error;
mod quota_states;
mod step;
mod step_deadline;

use std::future::Ready;
use std::sync::Arc;

pub use self::answer::{Answer, Waiting};
pub use self::any::AnyStore;
pub use self::error::{AnswerError, Full, MemoryError, StoreError};
pub(crate) use self::quota_states::only;
pub use self::quota_states::{PerQuota, QuotaStates};
pub use self::step::Step;
pub use self::step_deadline::StepDeadline;
use crate::hold::{HoldAnswer, HoldPlace, HoldStep};

/// A keeper of counters that executes every [`Step`] atomically.
///
/// A store in this process answers immediately, and a store over a network later: [`Answer`] is either. References to
/// stores, [`Arc`]s of stores and [`AnyStore`] are stores too.
///
/// # Consistency
///
/// Steps on the same counters happen one after another, in some order that every caller sees. Each step reads the
/// store's clock once. In one window of one key, admitted costs never exceed the limit; if all requested costs fit, all
/// are admitted. Other [kinds](crate::QuotaKind) have bounds of their own.
///
/// # Waiting
///
/// A store that may have to wait has a deadline, after which it returns an error. For a store without one, use
/// [`FallbackStore::deadline`](crate::FallbackStore::deadline).
///
/// A caller may pass a [deadline of its own](StepDeadline) with a step: see [`step_until`](Self::step_until). It never
/// extends the store's.
pub trait Store: Send + Sync {
    /// Executes the step for a caller that waits no longer than until the deadline, and answers with the states of its
    /// quotas: one for each charge, in their order. `None` is no deadline.
    ///
    /// An answer that is [`Later`](Answer::Later) does nothing until it is polled. If it is dropped before, nothing was
    /// charged.
    ///
    /// A store that never waits ignores the deadline. A store that may have to wait should keep it, and a store above
    /// another should pass it on.
    ///
    /// # Errors
    ///
    /// If the store could not execute the step: see [`StoreError`]. If a store that keeps the deadline has no answer by
    /// then, the step fails in [trouble](StoreError::Trouble), and the error says whether it [may have
    /// charged](StoreError::may_have_charged). A step that would begin after the deadline charges nothing.
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send>;

    /// Executes many steps, each atomic by itself, and answers in their order. All have the same deadline, as
    /// [`step_until`](Self::step_until) describes; the answers that came before it are kept.
    ///
    /// The answers are as if the steps had been executed one after another, in some order: a step that is denied or
    /// fails does not affect the others. A store in this process executes them in the given order.
    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send>;

    /// Executes the step without a deadline of the caller: see [`step_until`](Self::step_until).
    ///
    /// # Errors
    ///
    /// If the store could not execute the step: see [`StoreError`].
    #[inline(always)]
    fn step<'a>(
        &'a self,
        step: Step<'a>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        self.step_until(step, None)
    }

    /// Executes many steps without a deadline of the caller: see [`step_each_until`](Self::step_each_until).
    #[inline]
    fn step_each<'a>(
        &'a self,
        steps: &'a [Step<'a>],
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        self.step_each_until(steps, None)
    }

    /// Executes a step on a hold with an id for a caller that waits no longer than until the deadline, as
    /// [`step_until`](Self::step_until) describes.
    ///
    /// A call that fails with an unknown outcome may be repeated with the same terms: the store remembers the id of an
    /// admitted hold.
    ///
    /// By default, a store has no holds.
    ///
    /// # Errors
    ///
    /// If the store could not execute the step: see [`StoreError`]; [`StoreError::Uncountable`] if it has no holds.
    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        let _ = (step, deadline);
        Answer::<Ready<_>>::Now(Err(StoreError::Uncountable("this store has no holds")))
    }

    /// Executes a step on a hold where it is counted: the [place](crate::HoldStates::place) that its reservation was
    /// answered with. A hold in the memory of another process is [`Expired`](HoldAnswer::Expired) here, and one that is
    /// counted nowhere is [`Gone`](HoldAnswer::Gone).
    ///
    /// The hold must have the same limits as at first, with the same policies for outages.
    ///
    /// By default, only the store counts holds. A store above another should pass the step on.
    ///
    /// # Errors
    ///
    /// As [`hold_until`](Self::hold_until).
    fn hold_in<'a>(
        &'a self,
        place: HoldPlace,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        match place {
            HoldPlace::Store => self.hold_until(step, deadline),
            HoldPlace::Process => Answer::Now(Ok(HoldAnswer::Expired)),
            HoldPlace::Nowhere => Answer::Now(Ok(HoldAnswer::Gone)),
        }
    }

    /// Returns where the counters are, if this process's memory has all of them: stores with two different addresses
    /// share no counter.
    ///
    /// By default, `None`: other stores may have the same counters, as on one server.
    fn address(&self) -> Option<usize> {
        None
    }
}

impl<S: Store + ?Sized> Store for &S {
    #[inline]
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        (**self).step_until(step, deadline)
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        (**self).step_each_until(steps, deadline)
    }

    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        (**self).hold_until(step, deadline)
    }

    fn hold_in<'a>(
        &'a self,
        place: HoldPlace,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        (**self).hold_in(place, step, deadline)
    }

    fn address(&self) -> Option<usize> {
        (**self).address()
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    #[inline]
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        (**self).step_until(step, deadline)
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        (**self).step_each_until(steps, deadline)
    }

    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        (**self).hold_until(step, deadline)
    }

    fn hold_in<'a>(
        &'a self,
        place: HoldPlace,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        (**self).hold_in(place, step, deadline)
    }

    fn address(&self) -> Option<usize> {
        (**self).address()
    }
}
