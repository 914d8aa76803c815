//! A reservation during the call of the store.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::boxed::BoxFuture;
use crate::held_receipt::HeldReceipt;
use crate::reservation::go_on;
use crate::warning::Warnings;

/// A step of the store that charges units.
///
/// # Cancel safety
///
/// If it is dropped before it completes, it continues by itself and gives the units back, because the client has
/// disconnected.
pub(crate) struct Reserving<A: 'static> {
    warnings: Arc<Warnings>,
    /// `None` once it is done.
    step: Option<BoxFuture<'static, A>>,
    /// Returns the charged units.
    taken: fn(A) -> Option<Box<HeldReceipt>>,
}

impl<A> Reserving<A> {
    pub(crate) fn new(
        warnings: &Arc<Warnings>,
        step: impl Future<Output = A> + Send + 'static,
        taken: fn(A) -> Option<Box<HeldReceipt>>,
    ) -> Self {
        Self { warnings: Arc::clone(warnings), step: Some(Box::pin(step)), taken }
    }
}

impl<A> Future for Reserving<A> {
    type Output = A;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<A> {
        let Some(step) = &mut self.step else { panic!("`Reserving` polled after it was done") };
        let polled = step.as_mut().poll(context);
        if polled.is_ready() {
            self.step = None;
        }
        polled
    }
}

impl<A> Drop for Reserving<A> {
    fn drop(&mut self) {
        let Some(step) = self.step.take() else { return };
        let taken = self.taken;
        go_on(&self.warnings, async move {
            if let Some(taken) = taken(step.await) {
                // No caller can get the error; the units count until their window ends.
                let _ = taken.cancel().await;
            }
        });
    }
}
