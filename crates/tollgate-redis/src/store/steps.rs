//! Steps that are not charges of one slot: looks, refunds and changes.

use std::sync::Arc;

use tollgate::{BlockCharge, Charge, Counter, Mark, QuotaState, QuotaStates, Step, StoreError};

use super::StoreInner;
use super::ask::StepResult;
use super::charge::PreparedCharge;
use crate::batch::Company;
use crate::error::RedisError;
use crate::named_charges::{self, CounterOperation, NamedCharges};
use crate::script::{CountChange, ScriptOutcome};
use crate::time::CallTime;

impl StoreInner {
    /// Takes a step that was not sent yet, within the deadline of this call. Charges are those across
    /// slots.
    pub(super) async fn step(
        self: &Arc<Self>,
        step: Step<'_>,
        call: CallTime,
    ) -> Result<QuotaStates, StoreError> {
        match step {
            Step::Charge(charges) => self.reserve(charges, CounterOperation::Charge, call).await,
            Step::ChargeBefore { charges, end } => {
                let asked = CounterOperation::ChargeBefore(end);
                match self.prepare_unknown(charges) {
                    PreparedCharge::Known(counted) => Ok(counted),
                    PreparedCharge::Across => self.reserve(charges, asked, call).await,
                    PreparedCharge::Named(named) => {
                        let mut pending = self.send(&named, asked, call.continued(), Company::Alone);
                        self.counted(&named, &mut pending).await
                    }
                }
            }
            Step::Peek(charges) => self.peek(charges, call).await,
            Step::Record(charge) => self.record(&charge, call).await.map(QuotaStates::one),
            Step::Block(charge) => self.block(&charge, call).await,
            Step::Refund { charge, mark } => self.refund(&charge, mark, call).await.map(QuotaStates::one),
            Step::Reset(counter) => {
                self.change(&counter, CounterOperation::Reset, call).await.map(QuotaStates::one)
            }
            Step::Set { counter, used } => {
                self.change(&counter, CounterOperation::Set(used), call).await.map(QuotaStates::one)
            }
            _ => Err(StoreError::Uncountable("this version of the store does not support the step")),
        }
    }

    async fn peek(&self, charges: &[Charge<'_>], call: CallTime) -> Result<QuotaStates, StoreError> {
        if charges.is_empty() {
            return Ok(QuotaStates::from_iter([]));
        }
        if self.slots.splits(charges, &self.names) {
            return self.peek_across(charges, call).await;
        }
        let named = NamedCharges::new(charges, &self.names);
        let mut pending = self.send(&named, CounterOperation::Look, call.continued(), Company::Alone);
        self.counted(&named, &mut pending).await
    }

    async fn record(&self, charge: &Charge<'_>, call: CallTime) -> Result<QuotaState, StoreError> {
        let charges = [*charge];
        let named = NamedCharges::new(&charges, &self.names);
        let mut pending = self.send(&named, CounterOperation::Record, call.continued(), Company::Alone);
        let taken = self.note(&named, &mut pending).await?;
        let CountChange { before, after, .. } = *taken.only()?;
        let units = named_charges::units(charge, after.saturating_sub(before));
        Ok(taken.state(&charge.counter())?.with_units(units))
    }

    async fn block(&self, charge: &BlockCharge<'_>, call: CallTime) -> Result<QuotaStates, StoreError> {
        let charges = charge.charges();
        let named = NamedCharges::new(&charges, &self.names);
        let taken = {
            // If the block begins, the counter is reset.
            let _changing = self.changing(&named);
            self.take(&named, CounterOperation::Block, call.continued()).await?
        };
        let [counted, block] = taken.found.as_slice() else { return Err(RedisError::BadReply.into()) };
        let units = u32::try_from(counted.given).map_err(|_| RedisError::BadReply)?;
        let counter = counted.state(&charge.charge().counter(), taken.now).with_units(units);
        Ok([counter, block.state(&charge.block(), taken.now)].into_iter().collect())
    }

    async fn refund(
        &self,
        charge: &Charge<'_>,
        mark: Mark,
        call: CallTime,
    ) -> Result<QuotaState, StoreError> {
        let charges = [*charge];
        let named = NamedCharges::new(&charges, &self.names);
        let window = named_charges::marked_window(&charge.counter(), mark);
        let look = async || {
            let looked = self.take(&named, CounterOperation::Look, call.continued()).await?;
            looked.state(&charge.counter())
        };
        if !self.names.can_give_back(charge.counter().quota().quota(), &window, mark) {
            return look().await;
        }
        let answer = {
            let _changing = self.changing(&named);
            self.ask(&named, CounterOperation::Refund(mark), call.continued()).await?
        };
        let taken = match answer.outcome {
            ScriptOutcome::Closed(Some(found)) => return Ok(found.state(&charge.counter(), answer.now)),
            // The window that is open now is under another key.
            ScriptOutcome::Closed(None) => return look().await,
            _ => StepResult::try_from(answer)?,
        };
        let change = taken.only()?;
        if self.names.is_early_refund(&window, change.before, taken.now) {
            return look().await;
        }
        let given = u32::try_from(change.given).map_err(|_| RedisError::BadReply)?;
        // The window that was named, which after a step back of the clock may not have begun.
        Ok(change.state_in(window, &charge.counter(), taken.now).with_units(given))
    }

    /// Changes a counter of which nothing is taken.
    async fn change(
        &self,
        counter: &Counter<'_>,
        asked: CounterOperation,
        call: CallTime,
    ) -> Result<QuotaState, StoreError> {
        let charges = [Charge::new(counter.quota(), counter.key(), 0)];
        let named = NamedCharges::new(&charges, &self.names);
        let _changing = self.changing(&named);
        self.take(&named, asked, call.continued()).await?.state(counter)
    }
}
