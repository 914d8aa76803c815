//! Requests to the script: sent, asked again if their window was not open, and noted when they are answered.

use smallvec::SmallVec;
use tollgate::{Counter, QuotaState, QuotaStates, StoreError, Timestamp, Window};

use super::Inner;
use crate::batch::{Awaited, Company};
use crate::denials::{Remembered, Version};
use crate::error::RedisError;
use crate::named_charges::{Asked, KeyIndices, NamedCharges};
use crate::script::{Answer, Found, Outcome, Request};
use crate::slot::{self, Slot};
use crate::time::{CallTime, instant};

/// How often a request is sent when the window that it names is not open: once for an estimate that was off, and again
/// where a window ended on the way or servers of a Cluster have different times.
const TRIES: usize = 4;

/// A request in flight.
pub(super) struct Pending {
    asked: Asked,
    time: CallTime,
    versions: SmallVec<[Version; 1]>,
    sent: Result<Sent, StoreError>,
}

struct Sent {
    awaited: Awaited,
    indices: KeyIndices,
}

/// The time by which windows are named after a server has refused a window that was not open by its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// The time of the server that refused.
    At(Timestamp),
    /// The latest time that any server gave. The window may not have begun by the clock of the server that has its
    /// counter.
    ///
    /// Only where the window is part of the name, without a slot for each key. There the counter of the next window may
    /// lie on a server whose clock is behind, and each server would refer to the other for ever. The later window is the
    /// right one, because a closed window is never counted again.
    Ahead(Timestamp),
}

/// The result of a step, and its time.
pub(super) struct Taken {
    pub(super) now: Timestamp,
    pub(super) found: SmallVec<[Found; 1]>,
}

impl Inner {
    /// Sends the request in the next batch.
    pub(super) fn send(
        &self,
        named: &NamedCharges<'_>,
        asked: Asked,
        time: CallTime,
        company: Company,
    ) -> Pending {
        let versions = named.ids().map(|id| self.denials.version(id)).collect();
        Pending { asked, time, versions, sent: self.submit(named, asked, time, None, company) }
    }

    /// Awaits the answer, and returns the states of the quotas.
    pub(super) async fn counted(
        &self,
        named: &NamedCharges<'_>,
        pending: &mut Pending,
    ) -> Result<QuotaStates, StoreError> {
        let taken = self.note(named, pending).await?;
        Ok(named.counted(taken.now, &taken.found))
    }

    /// Awaits the answer, and remembers counters that deny.
    pub(super) async fn note(
        &self,
        named: &NamedCharges<'_>,
        pending: &mut Pending,
    ) -> Result<Taken, StoreError> {
        let taken = Taken::try_from(self.answer(named, pending).await?)?;
        let Pending { asked, time, versions, .. } = pending;
        let is_denied = match asked {
            Asked::Deny => true,
            Asked::Charge | Asked::Renewal | Asked::Record => named.is_denied(&taken.found),
            _ => false,
        };
        // Nearly always nothing was denied and nothing is known.
        if is_denied || !named.ids().all(|id| self.denials.note_unknown(id)) {
            let received = instant();
            let windows = named.windows(taken.now, &taken.found);
            for (((counter, window), found), version) in
                named.ids().zip(windows).zip(&taken.found).zip(versions.iter())
            {
                let (used, now) = (found.after, taken.now);
                let count = Remembered { counter, used, window, now, sent: time.begun, received };
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
        asked: Asked,
        time: CallTime,
    ) -> Result<Taken, StoreError> {
        self.ask(named, asked, time).await?.try_into()
    }

    pub(super) async fn ask(
        &self,
        named: &NamedCharges<'_>,
        asked: Asked,
        time: CallTime,
    ) -> Result<Answer, StoreError> {
        let sent = self.submit(named, asked, time, None, Company::Alone);
        self.answer(named, &mut Pending { asked, time, versions: SmallVec::new(), sent }).await
    }

    /// Awaits the answer. If the window that the request named was not open, sends the request again.
    async fn answer(&self, named: &NamedCharges<'_>, pending: &mut Pending) -> Result<Answer, StoreError> {
        let Pending { asked, time, sent, .. } = pending;
        let sent = sent.as_mut().map_err(|error| error.clone())?;
        let (mut tries, mut latest) = (1, None);
        loop {
            let answer = sent.awaited.received().await?;
            match answer.outcome {
                Outcome::Stale if tries < TRIES => tries += 1,
                Outcome::Taken(found) => {
                    let outcome = Outcome::Taken(named.found(found, &sent.indices));
                    return Ok(Answer { outcome, ..answer });
                }
                _ => return Ok(answer),
            }
            // By the time that this very answer gave: what is known of the servers' time may be another server's.
            let told = Told::of(answer.now, latest.filter(|_| self.windows_have_slots()), tries);
            latest = latest.max(Some(answer.now));
            *sent = self.submit(named, *asked, CallTime::now(time.begun), Some(told), Company::Others)?;
        }
    }

    /// Whether the counters of one key and quota may lie on different servers, window by window.
    pub(super) fn windows_have_slots(&self) -> bool {
        self.committer.topology().is_cluster() && !self.names.have_slot_for_each_key()
    }

    /// Sends the request in the next batch of its server. Its windows are those by a server's answer, or else those
    /// that are open by the estimate of the server's time.
    fn submit(
        &self,
        named: &NamedCharges<'_>,
        asked: Asked,
        time: CallTime,
        told: Option<Told>,
        company: Company,
    ) -> Result<Sent, StoreError> {
        let topology = self.committer.topology();
        let now = || told.map_or_else(|| topology.time_at(time.begun), Told::time);
        let (mut request, mut indices) = named.request(asked, &self.names, now)?;
        // What was charged ahead can be given back.
        let is_refund = matches!(asked, Asked::Refund(_));
        if matches!(told, Some(Told::Ahead(_))) || (is_refund && self.windows_have_slots()) {
            request.go_ahead();
        }
        let mut slot = self.slot(&request)?;
        let mut lane = topology.lane(slot);
        // On a Cluster each server has a time of its own, and the key says which of them counts.
        if told.is_none() && topology.is_cluster() && !is_refund {
            let now = || lane.time().estimate_at(time.begun);
            if !request.is_open_at(now) {
                (request, indices) = named.request(asked, &self.names, now)?;
                slot = self.slot(&request)?;
                lane = topology.lane(slot);
            }
        }
        let awaited = self.committer.submit(lane, slot, request, time, company)?;
        Ok(Sent { awaited, indices })
    }

    /// Where the keys of the request lie.
    pub(super) fn slot(&self, request: &Request) -> Result<Slot, StoreError> {
        if !self.committer.topology().is_cluster() {
            return Ok(Slot(0));
        }
        let mut slots = request.keys.iter().map(|key| slot::of(key));
        let first = slots.next().unwrap_or(0);
        if slots.any(|slot| slot != first) {
            return Err(StoreError::Uncountable(
                "on a cluster, all quotas of a request must have the same key, in one slot if a layout writes the keys, unless the store reserves across slots",
            ));
        }
        Ok(Slot(first))
    }
}

impl Told {
    /// The windows to name after a request was stale by this time of its server. `latest` is the latest time that an
    /// earlier answer gave, if another server may have given it.
    fn of(now: Timestamp, latest: Option<Timestamp>, tries: usize) -> Self {
        match latest {
            Some(latest) if now < latest || tries == TRIES => Self::Ahead(latest.max(now)),
            _ => Self::At(now),
        }
    }

    const fn time(self) -> Timestamp {
        match self {
            Self::At(time) | Self::Ahead(time) => time,
        }
    }
}

impl TryFrom<Answer> for Taken {
    type Error = StoreError;

    fn try_from(answer: Answer) -> Result<Self, StoreError> {
        match answer.outcome {
            Outcome::Taken(found) => Ok(Self { now: answer.now, found }),
            Outcome::NoCount => Err(RedisError::WrongType.into()),
            // Its time and ours do not come together.
            Outcome::Stale => Err(RedisError::NotReady.into()),
            Outcome::Closed(_) => Err(RedisError::BadReply.into()),
        }
    }
}

impl Taken {
    pub(super) fn only(&self) -> Result<Found, StoreError> {
        self.found.first().copied().ok_or_else(|| RedisError::BadReply.into())
    }

    /// Where the only counter stands, of which nothing was asked.
    pub(super) fn state(&self, counter: &Counter<'_>) -> Result<QuotaState, StoreError> {
        let found = self.only()?;
        let window: Window = found.window(counter, self.now);
        Ok(QuotaState::in_window(counter.quota().quota(), found.after, window, self.now, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: i64) -> Timestamp {
        Timestamp::from_unix_millis(millis)
    }

    #[test]
    fn windows_are_named_ahead_once_two_servers_refer_to_each_other() {
        assert_eq!(Told::of(at(5), None, 2), Told::At(at(5)));
        assert_eq!(Told::of(at(7), Some(at(5)), 3), Told::At(at(7)));
        assert_eq!(Told::of(at(5), Some(at(7)), 3), Told::Ahead(at(7)));
        // The last try has to succeed.
        assert_eq!(Told::of(at(9), Some(at(7)), TRIES), Told::Ahead(at(9)));
    }
}
