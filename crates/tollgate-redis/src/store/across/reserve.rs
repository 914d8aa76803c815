//! Requests whose counters lie in several slots of a Cluster: taken slot by slot, and given back if one denies.
//!
//! ```text
//! charges ─▶ parts, one a slot ─▶ charge the first ─▶ charge the next ─▶ ... ─▶ admitted
//!                                                        │ denied, failed, or the caller has gone away
//!                                                        ▼
//!                                                give back what was charged; look at the rest
//! ```
//!
//! Every part is all or nothing by itself. The order is the same for all, so of two requests on the same slots the
//! one that gets through the first finds the other behind it in all the others.
//!
//! A separate task does all of this: once begun, it finishes even if the caller goes away.
//! [`AcrossSlots::Reserve`](crate::AcrossSlots::Reserve) documents the promises.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tollgate::{Charge, Key, PolicyQuota, QuotaStates, Source, StoreError};

use super::KeptCharges;
use super::give_back::{ChargedUnits, give_back};
use super::parts::{SlotPart, groups, in_order, parts};
use crate::batch::Company;
use crate::error::RedisError;
use crate::named_charges::CounterOperation;
use crate::slot::{self, ClusterSlot};
use crate::store::StoreInner;
use crate::store::ask::{PendingRequest, StepResult};
use crate::time::{CallTime, instant};

/// A charge that outlives its caller.
#[derive(Debug)]
struct OwnedCharge {
    quota: PolicyQuota,
    key: Key<'static>,
    cost: u32,
}

/// A request that is taken slot by slot.
struct SlotReservation<'r, 'a> {
    inner: &'r Arc<StoreInner>,
    call: CallTime,
    parts: &'r [SlotPart<'a>],
    /// How each part is charged.
    asked: CounterOperation,
    /// Where its answer is awaited.
    caller: &'r oneshot::Sender<Result<QuotaStates, StoreError>>,
}

impl StoreInner {
    /// Looks at the charges slot by slot.
    pub(in crate::store) async fn peek_across(
        &self,
        charges: &[Charge<'_>],
        call: CallTime,
    ) -> Result<QuotaStates, StoreError> {
        let groups = groups(charges, &self.names, self.committer.topology().time_at(instant()))?;
        let parts = parts(&groups, &self.names);
        let looked = self.ask_each(&parts, CounterOperation::Look, call).await;
        self.joined(&parts, looked)
    }

    /// Takes the charges slot by slot, each part in this way: all of them, or none in the end.
    pub(in crate::store) async fn reserve(
        self: &Arc<Self>,
        charges: &[Charge<'_>],
        asked: CounterOperation,
        call: CallTime,
    ) -> Result<QuotaStates, StoreError> {
        let waits_until = call.continued().wait_for_step()?;
        let owned = charges.iter().map(OwnedCharge::new).collect();
        let (caller, answer) = oneshot::channel();
        tokio::spawn(Arc::clone(self).take_across(owned, asked, call.without_caller(), caller));
        let answer = match waits_until {
            None => answer.await.ok(),
            Some(until) => timeout_at(until, answer).await.ok().and_then(Result::ok),
        };
        // There is none if the caller's time is over, or the runtime shuts down.
        answer.unwrap_or_else(|| Err(RedisError::TimedOut.into()))
    }

    async fn take_across(
        self: Arc<Self>,
        owned: Vec<OwnedCharge>,
        asked: CounterOperation,
        call: CallTime,
        caller: oneshot::Sender<Result<QuotaStates, StoreError>>,
    ) {
        let charges: Vec<Charge<'_>> = owned.iter().map(OwnedCharge::charge).collect();
        let answer = match groups(&charges, &self.names, self.committer.topology().time_at(instant())) {
            Ok(groups) => {
                let parts = parts(&groups, &self.names);
                SlotReservation { inner: &self, call, parts: &parts, asked, caller: &caller }.take().await
            }
            Err(error) => Err(error),
        };
        let _ = caller.send(answer);
    }

    /// Asks all parts at once, and returns what each counted.
    async fn ask_each(
        &self,
        parts: &[SlotPart<'_>],
        asked: CounterOperation,
        call: CallTime,
    ) -> Vec<Result<QuotaStates, StoreError>> {
        let time = call.continued();
        let pending: Vec<PendingRequest> =
            parts.iter().map(|part| self.send(&part.named, asked, time, Company::Others)).collect();
        let mut counted = Vec::with_capacity(parts.len());
        for (part, mut pending) in parts.iter().zip(pending) {
            counted.push(self.counted(&part.named, &mut pending).await);
        }
        counted
    }

    /// Joins what was counted part by part, in the order of the charges. A denial is one even if another part has no
    /// answer.
    ///
    /// # Errors
    ///
    /// The first error, if nothing was denied.
    fn joined(
        &self,
        parts: &[SlotPart<'_>],
        answers: Vec<Result<QuotaStates, StoreError>>,
    ) -> Result<QuotaStates, StoreError> {
        let is_denied = answers.iter().flatten().any(|counted| !counted.is_admitted());
        let known = |(part, answer): (&SlotPart<'_>, Result<QuotaStates, StoreError>)| match answer {
            Err(_) if is_denied => Ok(self.unanswered(part)),
            answer => answer,
        };
        let counted: Vec<QuotaStates> = parts.iter().zip(answers).map(known).collect::<Result<_, _>>()?;
        Ok(in_order(parts, &counted))
    }

    /// The state of a part whose slot does not answer: as it is remembered, or else as if nothing were used.
    fn unanswered(&self, part: &SlotPart<'_>) -> QuotaStates {
        if let Some((counted, _)) = self.recall(&part.named, instant()) {
            return counted;
        }
        let now = self.committer.topology().time_at(instant());
        part.named.unused(now).iter().map(|state| state.with_source(Source::Fallback)).collect()
    }
}

impl OwnedCharge {
    fn new(charge: &Charge<'_>) -> Self {
        let counter = charge.counter();
        Self { quota: counter.quota().clone(), key: counter.key().clone().into_owned(), cost: charge.cost() }
    }

    const fn charge(&self) -> Charge<'_> {
        Charge::new(&self.quota, &self.key, self.cost)
    }
}

impl SlotReservation<'_, '_> {
    async fn take(&self) -> Result<QuotaStates, StoreError> {
        if let Some(denied) = self.foresee().await? {
            return Ok(denied);
        }
        let mut charged = Vec::with_capacity(self.parts.len());
        for part in self.parts {
            let time = self.call.continued();
            let mut pending = self.inner.send(&part.named, self.asked, time, Company::Others);
            match self.inner.note(&part.named, &mut pending).await {
                Ok(taken) if part.counted(&taken).is_admitted() => charged.push(taken),
                Ok(taken) => return self.deny(charged, part.counted(&taken)).await,
                Err(error) => return Err(self.fail(charged, error).await),
            }
            if self.caller.is_closed() {
                return Err(self.fail(charged, RedisError::TimedOut.into()).await);
            }
        }
        let counted: Vec<QuotaStates> =
            self.parts.iter().zip(&charged).map(|(part, taken)| part.counted(taken)).collect();
        Ok(in_order(self.parts, &counted))
    }

    /// A denial that this process can foresee, because it knows of a counter without room. So a key that is denied
    /// all the time does not keep taking units of others and giving them back.
    async fn foresee(&self) -> Result<Option<QuotaStates>, StoreError> {
        // Only the servers know whether an end has come.
        if self.asked != CounterOperation::Charge {
            return Ok(None);
        }
        let (at, inner) = (instant(), self.inner);
        let known: Vec<_> = self.parts.iter().map(|part| Some(inner.recall(&part.named, at)?.0)).collect();
        let is_foreseen = known.iter().flatten().any(|counted| !counted.is_admitted());
        if !self.denials_are_free() || !is_foreseen {
            return Ok(None);
        }
        let is_to_renew = self.parts.iter().any(|part| inner.is_to_renew(&part.named, at));
        let counted = match known.iter().cloned().collect::<Option<Vec<_>>>() {
            Some(counted) if !is_to_renew => in_order(self.parts, &counted),
            _ => {
                let asked = inner.ask_each(self.parts, CounterOperation::Deny, self.call).await;
                // What is remembered counts where there is no answer.
                let answers = asked.into_iter().zip(known).map(|(answer, known)| match (answer, known) {
                    (Err(_), Some(known)) => Ok(known),
                    // Nothing is charged for these denials.
                    (answer, _) => answer.map_err(StoreError::with_nothing_charged),
                });
                inner.joined(self.parts, answers.collect())?
            }
        };
        Ok(Some(counted).filter(|counted| !counted.is_admitted()))
    }

    /// Answers with what a part was denied. A part that fails now cannot make it an admission.
    async fn deny(
        &self,
        mut charged: Vec<StepResult>,
        denied: QuotaStates,
    ) -> Result<QuotaStates, StoreError> {
        let (before, rest) = self.parts.split_at(charged.len());
        let (_, rest) = rest.split_at(1);
        let (_, looked) =
            tokio::join!(self.give_back(&mut charged, KeptCharges::Overdrafts), self.deny_rest(rest));
        let given_back = |(part, taken): (&SlotPart<'_>, &StepResult)| {
            part.named.given_back(&self.inner.names, taken.now, &taken.found)
        };
        let before = before.iter().zip(&charged).map(given_back);
        self.inner.joined(self.parts, before.chain([Ok(denied)]).chain(looked).collect())
    }

    /// Charges these parts what a denial elsewhere charges. Where the end of the step has come, they are only looked at: the
    /// denial came before it.
    async fn deny_rest(&self, rest: &[SlotPart<'_>]) -> Vec<Result<QuotaStates, StoreError>> {
        let mut answers = self.inner.ask_each(rest, self.denial(), self.call).await;
        for (part, answer) in rest.iter().zip(&mut answers) {
            if matches!(answer, Err(StoreError::Ended { .. })) {
                let mut pending = self.inner.send(
                    &part.named,
                    CounterOperation::Look,
                    self.call.continued(),
                    Company::Others,
                );
                *answer = self.inner.counted(&part.named, &mut pending).await;
            }
        }
        answers
    }

    /// Says why a part could not be taken.
    async fn fail(&self, mut charged: Vec<StepResult>, error: StoreError) -> StoreError {
        certain(error, self.give_back(&mut charged, KeptCharges::Nothing).await)
    }

    /// Gives back what was charged, and notes what is used then. Whether that is certain in time for the answer; it
    /// goes on if it is not.
    async fn give_back(&self, charged: &mut [StepResult], kept: KeptCharges) -> bool {
        let (mut refunds, mut is_certain) = (Vec::new(), true);
        for (part, taken) in self.parts.iter().zip(charged) {
            let (names, now) = (&self.inner.names, taken.now);
            let (Ok(units), Ok(overdrafts)) = (
                part.named.refunds(names, now, &taken.found),
                part.named.overdrafts(names, now, &taken.found),
            ) else {
                is_certain = false;
                continue;
            };
            for (((counter, mut refund), found), is_overdraft) in
                units.into_iter().zip(&mut taken.found).zip(overdrafts)
            {
                let is_kept = kept == KeptCharges::Overdrafts && is_overdraft;
                if is_kept || found.after == found.before {
                    continue;
                }
                self.inner.names.accept_windows_ahead(&mut refund, None);
                let slot = ClusterSlot(refund.keys.first().map_or(0, |key| slot::of(key)));
                let units = ChargedUnits { counter, slot, refund };
                refunds.push((tokio::spawn(give_back(Arc::clone(self.inner), units)), found));
            }
        }
        let deadline = self.inner.committer.deadline(self.call.begun);
        for (refund, found) in refunds {
            let refunded = timeout_at(deadline, refund).await;
            is_certain &= matches!(refunded, Ok(Ok(Ok(_))));
            // What is used in a window that has closed, or is not known, is what was used before.
            match refunded {
                Ok(Ok(Ok(Some(refunded)))) => {
                    (found.after, found.standing) = (refunded.after, refunded.standing);
                }
                _ => found.undo(),
            }
        }
        is_certain
    }

    /// How a part is charged for a denial elsewhere.
    const fn denial(&self) -> CounterOperation {
        match self.asked {
            CounterOperation::ChargeBefore(end) => CounterOperation::DenyBefore(end),
            _ => CounterOperation::Deny,
        }
    }

    fn denials_are_free(&self) -> bool {
        self.parts.iter().all(|part| part.named.denials_are_free())
    }
}

/// The error of one part as that of the whole request. It may say that nothing was charged only if that is certain
/// of the other parts as well.
fn certain(error: StoreError, is_certain: bool) -> StoreError {
    if is_certain || error.may_have_charged() { error } else { RedisError::TimedOut.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_called_uncharged_that_is_not() {
        for (error, is_certain, expected) in [
            (RedisError::Unreachable, true, RedisError::Unreachable),
            (RedisError::Unreachable, false, RedisError::TimedOut),
            (RedisError::BadReply, false, RedisError::BadReply),
        ] {
            assert_eq!(RedisError::of(&certain(error.into(), is_certain)), Some(&expected));
        }
    }
}
