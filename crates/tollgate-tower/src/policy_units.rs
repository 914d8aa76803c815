//! What a request holds by policies, as its keeper renews and ends it.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use tollgate::{
    Answer, AnswerError, Clock, HoldAnswer, HoldEnding, HoldId, KeeperFuture, RenewableHold, SettledStates,
    Store, StoreError,
};
use tollgate_policy::{
    AskedHold, CheckError, PolicyDecision, PolicyHold, PolicyLimiter, PolicySet, RenewAnswer, ReserveAnswer,
    SettleAnswer, View,
};

/// What a request asks policies to hold.
pub(crate) struct PolicyUnits<S, C, V> {
    limiter: Arc<PolicyLimiter<S, C>>,
    /// The policies when it was asked for.
    set: Arc<PolicySet>,
    values: V,
    asked: AskedHold,
    /// The hold, or that there is none, once that is known.
    hold: OnceLock<Option<PolicyHold>>,
}

impl<S, C, V> PolicyUnits<S, C, V>
where
    S: Store,
    C: Clock,
    V: View + Send + Sync,
{
    pub(crate) fn new(limiter: &Arc<PolicyLimiter<S, C>>, values: V, cost: u32) -> Self {
        let asked = AskedHold::new(HoldId::random(), cost);
        Self { limiter: Arc::clone(limiter), set: limiter.live(), values, asked, hold: OnceLock::new() }
    }

    /// Asks for it, and remembers the hold.
    pub(crate) async fn reserve(&self) -> Result<PolicyDecision, CheckError> {
        let set = Arc::clone(&self.set);
        match self.limiter.reserve_in_until(None, set, &self.values, self.asked).await? {
            ReserveAnswer::Decided { decision, hold, .. } => {
                let _ = self.hold.set(hold);
                Ok(decision)
            }
            // Nobody else has the id.
            ReserveAnswer::Conflict | ReserveAnswer::Ended => Err(nonsense().into()),
        }
    }

    /// Returns the hold, if there is one.
    pub(crate) fn hold(&self) -> Option<&PolicyHold> {
        self.hold.get()?.as_ref()
    }

    async fn renewed(&self) -> Result<HoldAnswer, StoreError> {
        let Some(hold) = self.hold() else { return Ok(HoldAnswer::Gone) };
        Ok(match self.limiter.renew_until(None, hold).await? {
            RenewAnswer::Renewed { left } => HoldAnswer::Renewed { left },
            RenewAnswer::Lost => HoldAnswer::Lost,
            RenewAnswer::Expired => HoldAnswer::Expired,
            RenewAnswer::Ended => HoldAnswer::Ended,
            RenewAnswer::Conflict => HoldAnswer::Conflict,
            RenewAnswer::Gone => HoldAnswer::Gone,
        })
    }

    async fn ended(&self, ending: HoldEnding) -> Result<HoldAnswer, StoreError> {
        if self.hold.get().is_none() {
            // The answer was lost. Reserving again with the id gets it, or takes what is ended at once.
            match self.reserve().await {
                Ok(_) => {}
                Err(CheckError::Store(error)) => return Err(error),
                Err(_) => return Ok(HoldAnswer::Expired),
            }
        }
        let Some(hold) = self.hold() else { return Ok(HoldAnswer::Gone) };
        let settled = match ending {
            HoldEnding::Keep => self.limiter.settle_until(None, hold, self.asked.cost).await,
            HoldEnding::GiveBack => self.limiter.cancel_until(None, hold).await,
            HoldEnding::Settle(cost) => self.limiter.settle_until(None, hold, cost).await,
        };
        Ok(match settled? {
            SettleAnswer::Settled(settled) => {
                let states = settled.iter().map(|settlement| settlement.state).collect();
                HoldAnswer::Settled(SettledStates::new(states))
            }
            SettleAnswer::Expired => HoldAnswer::Expired,
            SettleAnswer::Conflict => HoldAnswer::Conflict,
            SettleAnswer::Gone => HoldAnswer::Gone,
        })
    }

    /// Answers at once if the counters are in this process, which never waits.
    fn answer<'a>(
        &self,
        answer: impl Future<Output = Result<HoldAnswer, StoreError>> + Send + 'a,
    ) -> Answer<KeeperFuture<'a>> {
        if self.limiter.store().address().is_none() {
            return Answer::Later(Box::pin(answer));
        }
        match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Answer::Now(answer),
            Poll::Pending => Answer::Now(Err(nonsense())),
        }
    }
}

impl<S, C, V> RenewableHold for PolicyUnits<S, C, V>
where
    S: Store,
    C: Clock,
    V: View + Send + Sync,
{
    fn renew(&self) -> Answer<KeeperFuture<'_>> {
        self.answer(self.renewed())
    }

    fn end(&self, ending: HoldEnding) -> Answer<KeeperFuture<'_>> {
        self.answer(self.ended(ending))
    }
}

fn nonsense() -> StoreError {
    AnswerError::Nonsense.into()
}
