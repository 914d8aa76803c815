//! The steps of a store as methods.

use tollgate::{
    BlockCharge, Charge, Counter, Mark, QuotaState, QuotaStates, Step, Store, StoreError, Timestamp,
};

/// Shorthand for single steps, which tests write many times.
///
/// A store must answer a step on one counter with one state; anything else fails the test.
pub trait StoreSteps: Store {
    /// See [`Step::Charge`].
    fn charge(&self, charges: &[Charge<'_>]) -> impl Future<Output = Result<QuotaStates, StoreError>> + Send {
        async move { self.step(Step::Charge(charges)).await }
    }

    /// Charges of many requests: see [`Store::step_each`].
    fn charge_each(
        &self,
        requests: &[&[Charge<'_>]],
    ) -> impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send {
        let steps: Vec<Step<'_>> = requests.iter().map(|charges| Step::Charge(charges)).collect();
        async move { self.step_each(&steps).await }
    }

    /// See [`Step::ChargeBefore`].
    fn charge_before(
        &self,
        charges: &[Charge<'_>],
        end: Timestamp,
    ) -> impl Future<Output = Result<QuotaStates, StoreError>> + Send {
        async move { self.step(Step::ChargeBefore { charges, end }).await }
    }

    /// See [`Step::Peek`].
    fn peek(&self, charges: &[Charge<'_>]) -> impl Future<Output = Result<QuotaStates, StoreError>> + Send {
        async move { self.step(Step::Peek(charges)).await }
    }

    /// See [`Step::Record`].
    fn record(&self, charge: &Charge<'_>) -> impl Future<Output = Result<QuotaState, StoreError>> + Send {
        async move { self.step(Step::Record(*charge)).await.map(only) }
    }

    /// See [`Step::Block`]: the states of the counter and of its block.
    fn block(
        &self,
        charge: &BlockCharge<'_>,
    ) -> impl Future<Output = Result<[QuotaState; 2], StoreError>> + Send {
        async move { self.step(Step::Block(*charge)).await.map(both) }
    }

    /// See [`Step::Refund`].
    fn refund(
        &self,
        charge: &Charge<'_>,
        mark: Mark,
    ) -> impl Future<Output = Result<QuotaState, StoreError>> + Send {
        async move { self.step(Step::Refund { charge: *charge, mark }).await.map(only) }
    }

    /// See [`Step::Reset`].
    fn reset(&self, counter: &Counter<'_>) -> impl Future<Output = Result<QuotaState, StoreError>> + Send {
        async move { self.step(Step::Reset(*counter)).await.map(only) }
    }

    /// See [`Step::Set`].
    fn set(
        &self,
        counter: &Counter<'_>,
        used: u64,
    ) -> impl Future<Output = Result<QuotaState, StoreError>> + Send {
        async move { self.step(Step::Set { counter: *counter, used }).await.map(only) }
    }
}

impl<S: Store> StoreSteps for S {}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map`")]
fn only(counted: QuotaStates) -> QuotaState {
    let [state] = &*counted else { panic!("a step on one counter, and {counted:?}") };
    *state
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map`")]
fn both(counted: QuotaStates) -> [QuotaState; 2] {
    let [counter, block] = &*counted else { panic!("a step on a counter and its block, and {counted:?}") };
    [*counter, *block]
}
