//! A reservation while the store is asked for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::boxed::BoxFuture;
use crate::gate::Gate;
use crate::reservation::go_on;
use crate::taken::Taken;

/// A step of the store that takes units, with what it says and what it took.
///
/// # Cancel safety
///
/// Dropped before it is done it goes on by itself, and gives back what it took: the client that it was for is gone.
pub(crate) struct Reserving<A: 'static> {
    gate: Arc<Gate>,
    /// `None` once it is done.
    step: Option<BoxFuture<'static, (A, Option<Box<Taken>>)>>,
}

impl<A> Reserving<A> {
    pub(crate) fn new(
        gate: &Arc<Gate>,
        step: impl Future<Output = (A, Option<Box<Taken>>)> + Send + 'static,
    ) -> Self {
        Self { gate: Arc::clone(gate), step: Some(Box::pin(step)) }
    }
}

impl<A> Future for Reserving<A> {
    type Output = (A, Option<Box<Taken>>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
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
        go_on(&self.gate, async move {
            let taken = step.await.1;
            if let Some(taken) = taken {
                // Nobody is there to be told; what was taken counts until its window ends.
                let _ = taken.cancel().await;
            }
        });
    }
}
