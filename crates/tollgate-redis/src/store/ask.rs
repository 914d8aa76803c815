//! Requests to the script: sent, asked again if their window was not open, and noted when they are answered.

use smallvec::SmallVec;
use tollgate::{Counter, QuotaState, QuotaStates, StoreError, Timestamp};

use super::StoreInner;
use crate::batch::{AnswerReceiver, Company};
use crate::denials::{RememberedCount, Version};
use crate::error::RedisError;
use crate::named_charges::{CounterOperation, KeyIndices, NamedCharges};
use crate::names::WindowTime;
use crate::script::{CountChange, ScriptAnswer, ScriptOutcome};
use crate::time::{CallTime, instant};

/// A request in flight.
pub(super) struct PendingRequest {
    asked: CounterOperation,
    time: CallTime,
    versions: SmallVec<[Version; 1]>,
    sent: Result<SentRequest, StoreError>,
}

struct SentRequest {
    awaited: AnswerReceiver,
    indices: KeyIndices,
}

/// The result of a step, and its time.
pub(super) struct StepResult {
    pub(super) now: Timestamp,
    pub(super) found: SmallVec<[CountChange; 1]>,
}

impl StoreInner {
    /// Sends the request in the next batch.
    pub(super) fn send(
        &self,
        named: &NamedCharges<'_>,
        asked: CounterOperation,
        time: CallTime,
        company: Company,
    ) -> PendingRequest {
        let versions = named.ids().map(|id| self.denials.version(id)).collect();
        PendingRequest { asked, time, versions, sent: self.submit(named, asked, time, None, company) }
    }

    /// Awaits the answer, and returns the states of the quotas.
    pub(super) async fn counted(
        &self,
        named: &NamedCharges<'_>,
        pending: &mut PendingRequest,
    ) -> Result<QuotaStates, StoreError> {
        let taken = self.note(named, pending).await?;
        Ok(named.counted(taken.now, &taken.found))
    }

    /// Awaits the answer, and remembers counters that deny.
    pub(super) async fn note(
        &self,
        named: &NamedCharges<'_>,
        pending: &mut PendingRequest,
    ) -> Result<StepResult, StoreError> {
        let taken = StepResult::try_from(self.answer(named, pending).await?)?;
        let PendingRequest { asked, time, versions, .. } = pending;
        let is_denied = match asked {
            CounterOperation::Deny | CounterOperation::DenyBefore(_) => true,
            CounterOperation::Charge
            | CounterOperation::ChargeBefore(_)
            | CounterOperation::Renewal
            | CounterOperation::Record => named.is_denied(&taken.found),
            _ => false,
        };
        // Nearly always nothing was denied and nothing is known.
        if is_denied || !named.ids().all(|id| self.denials.note_unknown(id)) {
            let received = instant();
            let standings = named.standings(taken.now, &taken.found);
            for ((counter, standing), version) in named.ids().zip(standings).zip(versions.iter()) {
                let now = taken.now;
                let count = RememberedCount { counter, standing, now, sent: time.begun, received };
                if is_denied {
                    self.denials.remember(count, *version);
                } else {
                    self.denials.update(count, *version);
                }
            }
        }
        Ok(taken)
    }

    pub(super) async fn take(
        &self,
        named: &NamedCharges<'_>,
        asked: CounterOperation,
        time: CallTime,
    ) -> Result<StepResult, StoreError> {
        self.ask(named, asked, time).await?.try_into()
    }

    pub(super) async fn ask(
        &self,
        named: &NamedCharges<'_>,
        asked: CounterOperation,
        time: CallTime,
    ) -> Result<ScriptAnswer, StoreError> {
        let sent = self.submit(named, asked, time, None, Company::Alone);
        self.answer(named, &mut PendingRequest { asked, time, versions: SmallVec::new(), sent }).await
    }

    /// Awaits the answer. If the window that the request named was not open, sends the request again.
    async fn answer(
        &self,
        named: &NamedCharges<'_>,
        pending: &mut PendingRequest,
    ) -> Result<ScriptAnswer, StoreError> {
        let PendingRequest { asked, time, sent, .. } = pending;
        let sent = sent.as_mut().map_err(|error| error.clone())?;
        let mut tries = self.names.tries();
        loop {
            let answer = sent.awaited.received().await?;
            match answer.outcome {
                ScriptOutcome::Taken(found) => {
                    let outcome = ScriptOutcome::Taken(named.found(found, &sent.indices));
                    return Ok(ScriptAnswer { outcome, ..answer });
                }
                ScriptOutcome::Stale => {}
                _ => return Ok(answer),
            }
            // By the time that this very answer gave: what is known of the servers' time may be another server's.
            let Some(windows) = tries.next(answer.now) else { return Ok(answer) };
            *sent = self.submit(named, *asked, time.continued(), Some(windows), Company::Others)?;
        }
    }

    /// Sends the request in the next batch of its server. Its windows are those by a server's answer, or else those
    /// that are open by the estimate of the server's time.
    fn submit(
        &self,
        named: &NamedCharges<'_>,
        asked: CounterOperation,
        time: CallTime,
        windows: Option<WindowTime>,
        company: Company,
    ) -> Result<SentRequest, StoreError> {
        let topology = self.committer.topology();
        let now = || windows.map_or_else(|| topology.time_at(time.begun), WindowTime::time);
        let (mut request, mut indices) = named.request(asked, &self.names, now)?;
        let is_refund = matches!(asked, CounterOperation::Refund(_));
        self.names.accept_windows_ahead(&mut request, windows);
        let mut slot = self.slots.slot(&request)?;
        let mut lane = topology.lane(slot);
        // On a Cluster each server has a time of its own, and the key says which of them counts.
        if windows.is_none() && topology.is_cluster() && !is_refund {
            let now = || lane.time().estimate_at(time.begun);
            if !request.is_open_at(now) {
                (request, indices) = named.request(asked, &self.names, now)?;
                slot = self.slots.slot(&request)?;
                lane = topology.lane(slot);
            }
        }
        let awaited = self.committer.submit(lane, slot, request, time, company)?;
        Ok(SentRequest { awaited, indices })
    }
}

impl TryFrom<ScriptAnswer> for StepResult {
    type Error = StoreError;

    fn try_from(answer: ScriptAnswer) -> Result<Self, StoreError> {
        match answer.outcome {
            ScriptOutcome::Taken(found) => Ok(Self { now: answer.now, found }),
            ScriptOutcome::NoCount => Err(RedisError::WrongType.into()),
            ScriptOutcome::TooLate => Err(StoreError::Ended { now: answer.now }),
            // Its time and ours do not come together.
            ScriptOutcome::Stale => Err(RedisError::NotReady.into()),
            ScriptOutcome::Closed(_) | ScriptOutcome::Moving | ScriptOutcome::Hold(_) => {
                Err(RedisError::BadReply.into())
            }
        }
    }
}

impl StepResult {
    pub(super) fn only(&self) -> Result<&CountChange, StoreError> {
        self.found.first().ok_or_else(|| RedisError::BadReply.into())
    }

    /// Where the only counter stands, of which nothing was asked.
    pub(super) fn state(&self, counter: &Counter<'_>) -> Result<QuotaState, StoreError> {
        Ok(self.only()?.state(counter, self.now))
    }
}
