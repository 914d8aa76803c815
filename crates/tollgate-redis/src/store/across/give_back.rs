//! Units that are given back after a denial or a failure.

use std::sync::Arc;
use std::time::Duration;

use tollgate::StoreError;

use crate::backoff::Backoff;
use crate::batch::Company;
use crate::denials::Id;
use crate::error::RedisError;
use crate::script::{CountChange, Request, ScriptAnswer, ScriptOutcome};
use crate::slot::ClusterSlot;
use crate::store::StoreInner;
use crate::time::{CallTime, instant};

/// How long units are tried to be given back: longer than a Cluster without one of its primaries refuses to count, and
/// shorter than it takes by default until a replica is elected, which may never have heard of the charge.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was charged to one counter.
pub(super) struct ChargedUnits {
    pub(super) counter: Id,
    pub(super) slot: ClusterSlot,
    pub(super) refund: Request,
}

/// Gives the units back, and returns the counter then, or nothing if their window has closed. What certainly did not
/// happen is tried again for a while. What may have happened is not: twice would make room that there is not.
pub(super) async fn give_back(
    inner: Arc<StoreInner>,
    units: ChargedUnits,
) -> Result<Option<CountChange>, StoreError> {
    let (mut backoff, patience) = (Backoff::default(), instant() + PATIENCE);
    loop {
        backoff.wait().await;
        match inner.give_back_once(&units).await {
            Ok(ScriptAnswer { outcome: ScriptOutcome::Taken(found), .. }) => {
                return Ok(found.into_iter().next());
            }
            // After a step back of the clock, its window has not begun, and the units may have moved with the counter.
            Ok(ScriptAnswer { outcome: ScriptOutcome::Stale, now }) if units.refund.is_early_at(now) => {
                return Err(RedisError::TimedOut.into());
            }
            // Its window has closed, or another program has overwritten it.
            Ok(_) => return Ok(None),
            Err(error) if error.may_have_charged() || instant() >= patience => return Err(error),
            Err(_) => {}
        }
    }
}

impl StoreInner {
    async fn give_back_once(&self, units: &ChargedUnits) -> Result<ScriptAnswer, StoreError> {
        // Before and after, as with every refund: what is answered meanwhile is not remembered either.
        self.denials.forget(units.counter);
        let lane = self.committer.topology().lane(units.slot);
        let refund = units.refund.clone();
        let answer =
            match self.committer.submit(lane, units.slot, refund, CallTime::begins(None), Company::Others) {
                Ok(mut awaited) => awaited.received().await,
                Err(error) => Err(error),
            };
        self.denials.forget(units.counter);
        answer
    }
}
