//! The store: takes charges and returns counts.

mod reserve;
mod warm_up;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};
use tollgate::{
    Charge, Counted, Counter, Key, Mark, PolicyQuota, QuotaState, Source, Step, Store, StoreError, Timestamp,
    Window,
};

use self::reserve::{groups, in_order, parts};
use crate::batch::{Awaited, Committer, Company};
use crate::denials::{Denials, Remembered, Version};
use crate::keys::{Names, Slot};
use crate::named_charges::{self, Asked, KeyIndices, NamedCharges};
use crate::script::{Answer, Found, Outcome, Request};
use crate::time::{Instant, instant};
use crate::topology::{Share, StoreStatus, Topology, slot};
use crate::{AcrossSlots, RedisError};

/// How often a request is sent when the calendar window it names is not open: once for an estimate that was off,
/// and again where a window ended on the way.
const TRIES: usize = 4;

/// Keys that are looked at for one in each share: enough for a share of one slot to be found nearly always, which takes
/// milliseconds. Usual shares take a few.
const SEARCHED: u64 = 5 * slot::SLOTS as u64;

/// A store of counters in Redis or Valkey, shared by all processes that use it. Clones share connections.
#[derive(Clone)]
pub struct RedisStore(Arc<Inner>);

struct Inner {
    /// The addresses in errors.
    place: Arc<str>,
    committer: Committer,
    names: Names,
    denials: Denials,
    across_slots: AcrossSlots,
}

/// The result of a step, and its time.
struct Taken {
    now: Timestamp,
    found: SmallVec<[Found; 1]>,
}

/// A request to charge, of which nothing is under way.
enum Prepared<'a> {
    Known(Counted),
    Named(NamedCharges<'a>),
    /// Lies in several slots.
    Across(&'a [Charge<'a>]),
}

/// A request to charge.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all steps are asked, and a box for each would cost more"
)]
enum Begun<'a> {
    Known(Counted),
    Asked(Pending<'a>),
    /// Lies in several slots, and is not begun yet.
    Across(&'a [Charge<'a>]),
}

/// Charges that are under way.
struct Pending<'a> {
    named: NamedCharges<'a>,
    asked: Asked,
    begun: Instant,
    versions: SmallVec<[Version; 1]>,
    sent: Result<Sent, StoreError>,
}

/// A request that is under way.
struct Sent {
    awaited: Awaited,
    indices: KeyIndices,
}

/// While a counter is being changed, nothing is remembered of it.
struct Changing<'a, 'q> {
    denials: &'a Denials,
    named: &'a NamedCharges<'q>,
}

impl RedisStore {
    pub(crate) fn new(
        topology: Topology,
        place: &str,
        timeout: Duration,
        names: Names,
        denials: Denials,
        across_slots: AcrossSlots,
    ) -> Self {
        let committer = Committer::new(Arc::new(topology), timeout);
        Self(Arc::new(Inner { place: place.into(), committer, names, denials, across_slots }))
    }

    pub(crate) fn topology(&self) -> &Topology {
        self.0.committer.topology()
    }

    /// Keys whose counters of this quota lie on all servers that count, one on each: to see whether every one of them
    /// does. Where nobody serves some slots of a Cluster, one is in such a slot; where it is not known yet who counts,
    /// there is one at all.
    #[must_use]
    pub fn key_on_each_server(&self, quota: &PolicyQuota) -> Vec<Key<'static>> {
        let names = &self.0.names;
        let (mut shares, mut keys) = (self.topology().shares(), Vec::new());
        let mut numbers = 0..SEARCHED;
        while let (false, Some(number)) = (shares.is_empty(), numbers.next()) {
            let key = self.probe(number);
            let counter = Counter::new(quota, &key);
            let Ok((name, _)) =
                names.of(&counter, &names.who(&key), self.0.committer.topology().time_at(instant()))
            else {
                break;
            };
            let slot = slot::of(&name);
            let is_here = |share: &Share| share.iter().any(|slots| slots.contains(&slot));
            if let Some(place) = shares.iter().position(is_here) {
                shares.swap_remove(place);
                keys.push(key);
            }
        }
        keys
    }

    /// One of many keys to try the store with, whom no caller is.
    pub(crate) fn probe(&self, number: u64) -> Key<'static> {
        self.0.names.probe(number)
    }

    /// Returns which servers are connected.
    #[must_use]
    pub fn status(&self) -> StoreStatus {
        self.0.committer.topology().status()
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("topology", self.0.committer.topology()).finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    fn step<'a>(
        &'a self,
        step: Step<'a>,
    ) -> tollgate::Answer<impl Future<Output = Result<Counted, StoreError>> + Send> {
        let prepared = match step {
            Step::Charge(charges) => match self.0.prepare(charges) {
                Prepared::Known(counted) => return tollgate::Answer::Now(Ok(counted)),
                prepared => Some(prepared),
            },
            _ => None,
        };
        tollgate::Answer::Later(async move {
            let answer = match prepared {
                Some(prepared) => self.0.charge(prepared).await,
                None => self.0.step(step, instant()).await,
            };
            answer.map_err(|error| error.at(Arc::clone(&self.0.place)))
        })
    }

    fn step_each<'a>(
        &'a self,
        steps: &'a [Step<'a>],
    ) -> tollgate::Answer<impl Future<Output = Vec<Result<Counted, StoreError>>> + Send> {
        tollgate::Answer::Later(async move {
            let answers = self.0.step_each(steps).await.into_iter();
            answers.map(|answer| answer.map_err(|error| error.at(Arc::clone(&self.0.place)))).collect()
        })
    }
}

impl Inner {
    async fn step_each<'a>(self: &'a Arc<Self>, steps: &'a [Step<'a>]) -> Vec<Result<Counted, StoreError>> {
        let call_begun = instant();
        // All charges are sent before the first answer is awaited.
        let begun: Vec<Option<Begun<'_>>> = steps
            .iter()
            .map(|step| match step {
                Step::Charge(charges) => Some(self.begin(self.prepare(charges), Company::Others)),
                _ => None,
            })
            .collect();
        let mut answers = Vec::with_capacity(begun.len());
        let (mut across, mut others) = (Vec::new(), Vec::new());
        for (place, begun) in begun.into_iter().enumerate() {
            answers.push(match begun {
                Some(Begun::Known(counted)) => Ok(counted),
                Some(Begun::Asked(mut pending)) => self.counted(&mut pending).await,
                Some(Begun::Across(_)) => {
                    across.push(place);
                    Err(RedisError::TimedOut.into())
                }
                None => {
                    others.push(place);
                    Err(RedisError::TimedOut.into())
                }
            });
        }
        let steps_of = |place: &usize| self.step(steps[*place], call_begun);
        for (place, answer) in others.iter().zip(all(others.iter().map(steps_of)).await) {
            answers[*place] = answer;
        }
        // One after another, once nothing else is under way: no charge across slots is denied because of what another
        // gives back.
        for place in across {
            answers[place] = self.step(steps[place], call_begun).await;
        }
        answers
    }

    async fn charge(self: &Arc<Self>, prepared: Prepared<'_>) -> Result<Counted, StoreError> {
        match self.begin(prepared, Company::Alone) {
            Begun::Known(counted) => Ok(counted),
            Begun::Asked(mut pending) => self.counted(&mut pending).await,
            Begun::Across(charges) => self.reserve(charges, instant()).await,
        }
    }

    /// Takes a step that is not under way yet, within the deadline of a call that has begun then. Charges are those
    /// across slots.
    async fn step(self: &Arc<Self>, step: Step<'_>, begun: Instant) -> Result<Counted, StoreError> {
        match step {
            Step::Charge(charges) => self.reserve(charges, begun).await,
            Step::Peek(charges) => self.peek(charges, begun).await,
            Step::Record(charge) => self.record(&charge, begun).await.map(Counted::one),
            Step::Refund { charge, mark } => self.refund(&charge, mark, begun).await.map(Counted::one),
            Step::Reset(counter) => self.change(&counter, Asked::Reset, begun).await.map(Counted::one),
            Step::Set { counter, used } => {
                self.change(&counter, Asked::Set(used), begun).await.map(Counted::one)
            }
            _ => Err(StoreError::Uncountable("this version of the store does not know the step")),
        }
    }

    async fn peek(&self, charges: &[Charge<'_>], begun: Instant) -> Result<Counted, StoreError> {
        if charges.is_empty() {
            return Ok(Counted::from_iter([]));
        }
        if self.reserves(charges) {
            let groups = groups(charges, &self.names, self.committer.topology().time_at(instant()))?;
            let parts = parts(&groups, &self.names);
            let looked = self.ask_each(&parts, Asked::Look, begun).await?;
            return Ok(in_order(&parts, &looked));
        }
        let named = NamedCharges::new(charges, &self.names);
        self.counted(&mut self.send(named, Asked::Look, begun, Company::Alone)).await
    }

    async fn record(&self, charge: &Charge<'_>, begun: Instant) -> Result<QuotaState, StoreError> {
        let charges = [*charge];
        let named = NamedCharges::new(&charges, &self.names);
        let mut pending = self.send(named, Asked::Record, begun, Company::Alone);
        let taken = self.note(&mut pending).await?;
        let Found { before, after, .. } = taken.only()?;
        let units = named_charges::units(charge, after.saturating_sub(before));
        Ok(taken.state(&charge.counter())?.with_units(units))
    }

    async fn refund(
        &self,
        charge: &Charge<'_>,
        mark: Mark,
        begun: Instant,
    ) -> Result<QuotaState, StoreError> {
        let charges = [*charge];
        let named = NamedCharges::new(&charges, &self.names);
        let answer = {
            let _changing = self.changing(&named);
            self.ask(&named, Asked::Refund(mark), begun).await?
        };
        let taken = match answer.outcome {
            Outcome::Closed(Some(found)) => {
                return Taken { now: answer.now, found: smallvec![found] }.state(&charge.counter());
            }
            // The window that is open now is under another key.
            Outcome::Closed(None) => {
                return self.take(&named, Asked::Look, begun).await?.state(&charge.counter());
            }
            _ => Taken::try_from(answer)?,
        };
        let Found { before, after, .. } = taken.only()?;
        let given = u32::try_from(before - after).map_err(|_| RedisError::BadReply)?;
        // The window that was named, which after a step back of the clock may not have begun.
        let (quota, key) = (charge.counter().quota().quota(), charge.counter().key());
        let window = quota.window_at(key, mark.time());
        Ok(QuotaState::in_window(quota, after, window, taken.now, None).with_units(given))
    }

    /// Changes a counter of which nothing is taken.
    async fn change(
        &self,
        counter: &Counter<'_>,
        asked: Asked,
        begun: Instant,
    ) -> Result<QuotaState, StoreError> {
        let charges = [Charge::new(counter.quota(), counter.key(), 0)];
        let named = NamedCharges::new(&charges, &self.names);
        let _changing = self.changing(&named);
        self.take(&named, asked, begun).await?.state(counter)
    }

    /// The answer, if it is known here; else what is to be asked.
    fn prepare<'a>(&self, charges: &'a [Charge<'a>]) -> Prepared<'a> {
        if charges.is_empty() {
            return Prepared::Known(Counted::from_iter([]));
        }
        if self.reserves(charges) {
            return Prepared::Across(charges);
        }
        let named = NamedCharges::new(charges, &self.names);
        if self.may_deny(&named) {
            let known = self.recall(&named, instant());
            if let Some((denied, _)) = known.filter(|(known, is_due)| !known.is_admitted() && !is_due) {
                return Prepared::Known(denied);
            }
        }
        Prepared::Named(named)
    }

    /// The answer, if it is known here; else the charges are under way.
    fn begin<'a>(&self, prepared: Prepared<'a>, company: Company) -> Begun<'a> {
        let named = match prepared {
            Prepared::Known(counted) => return Begun::Known(counted),
            Prepared::Across(charges) => return Begun::Across(charges),
            Prepared::Named(named) => named,
        };
        let begun = instant();
        let known = if self.may_deny(&named) { self.recall(&named, begun) } else { None };
        let asked = match known.filter(|(known, _)| !known.is_admitted()) {
            Some((denied, _)) if !self.is_to_renew(&named, begun) => return Begun::Known(denied),
            Some(_) => Asked::Renewal,
            None => Asked::Charge,
        };
        Begun::Asked(self.send(named, asked, begun, company))
    }

    /// Whether something is remembered by which these charges may be denied here.
    fn may_deny(&self, named: &NamedCharges<'_>) -> bool {
        named.denials_are_free() && named.ids().all(|id| self.denials.may_know(id))
    }

    /// Awaits the answer, and gives where the quotas stand.
    async fn counted(&self, pending: &mut Pending<'_>) -> Result<Counted, StoreError> {
        let taken = self.note(pending).await?;
        Ok(pending.named.counted(taken.now, &taken.found))
    }

    /// Whether the charges may lie in several slots, and are then taken slot by slot.
    fn reserves(&self, charges: &[Charge<'_>]) -> bool {
        let mut counters = charges.iter().map(Charge::counter);
        let Some(first) = counters.next() else { return false };
        let lies_elsewhere = |counter: Counter<'_>| {
            if self.names.have_slot_for_each_key() { counter.key() != first.key() } else { counter != first }
        };
        self.across_slots == AcrossSlots::Reserve
            && self.committer.topology().is_cluster()
            && counters.any(lies_elsewhere)
    }

    /// Asks these counters in the next batch, for a decision that has begun then.
    fn send<'a>(
        &self,
        named: NamedCharges<'a>,
        asked: Asked,
        begun: Instant,
        company: Company,
    ) -> Pending<'a> {
        let versions = named.ids().map(|id| self.denials.version(id)).collect();
        let sent = self.submit(&named, asked, begun, None, company);
        Pending { named, asked, begun, versions, sent }
    }

    /// Awaits the answer and notes what it says of counters that deny.
    async fn note(&self, pending: &mut Pending<'_>) -> Result<Taken, StoreError> {
        let Pending { named, asked, begun, versions, sent } = pending;
        let (named, asked, begun) = (&*named, *asked, *begun);
        let sent = sent.as_mut().map_err(|error| error.clone())?;
        let taken = Taken::try_from(self.answer(named, asked, begun, sent).await?)?;
        let is_denied = match asked {
            Asked::Deny => true,
            Asked::Charge | Asked::Renewal | Asked::Record => named.is_denied(&taken.found),
            _ => false,
        };
        // Nearly always nobody was denied and nothing is known.
        if is_denied || !named.ids().all(|id| self.denials.note_unknown(id)) {
            let received = instant();
            let windows = named.windows(taken.now, &taken.found);
            for (((counter, window), found), version) in
                named.ids().zip(windows).zip(&taken.found).zip(&*versions)
            {
                let (used, now) = (found.after, taken.now);
                let count = Remembered { counter, used, window, now, sent: begun, received };
                if is_denied {
                    self.denials.remember(count, *version);
                } else {
                    self.denials.update(count, *version);
                }
            }
        }
        Ok(taken)
    }

    /// Whether whoever asks is to ask the store, so that what is remembered stays true.
    fn is_to_renew(&self, named: &NamedCharges<'_>, at: Instant) -> bool {
        named.ids().any(|id| self.denials.is_to_renew(id, at))
    }

    /// Where the quotas stand, if all their counters are remembered, and whether some of them should be renewed.
    fn recall(&self, named: &NamedCharges<'_>, at: Instant) -> Option<(Counted, bool)> {
        let (mut known, mut is_due) = (SmallVec::<[Remembered; 1]>::new(), false);
        for id in named.ids() {
            let (count, is_due_itself) = self.denials.recall(id, at)?;
            known.push(count);
            is_due |= is_due_itself;
        }
        // Each is at most the server's time; so is the latest.
        let now = known.iter().map(|count| count.now_at(at)).max()?;
        let counted = named.states(|index| (known[index].used, known[index].used, known[index].window), now);
        Some((counted.iter().map(|state| state.with_source(Source::Local)).collect(), is_due))
    }

    fn changing<'a, 'q>(&'a self, named: &'a NamedCharges<'q>) -> Changing<'a, 'q> {
        let changing = Changing { denials: &self.denials, named };
        changing.forget();
        changing
    }

    async fn take(
        &self,
        named: &NamedCharges<'_>,
        asked: Asked,
        begun: Instant,
    ) -> Result<Taken, StoreError> {
        self.ask(named, asked, begun).await?.try_into()
    }

    async fn ask(
        &self,
        named: &NamedCharges<'_>,
        asked: Asked,
        begun: Instant,
    ) -> Result<Answer, StoreError> {
        let mut sent = self.submit(named, asked, begun, None, Company::Alone)?;
        self.answer(named, asked, begun, &mut sent).await
    }

    /// Awaits the answer, and asks again where the window it named was not open.
    async fn answer(
        &self,
        named: &NamedCharges<'_>,
        asked: Asked,
        begun: Instant,
        sent: &mut Sent,
    ) -> Result<Answer, StoreError> {
        let mut tries = 1;
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
            *sent = self.submit(named, asked, begun, Some(answer.now), Company::Others)?;
        }
    }

    /// Asks these counters in the next batch of the server that counts, as of this server's time, or else of what it is
    /// believed to be.
    fn submit(
        &self,
        named: &NamedCharges<'_>,
        asked: Asked,
        begun: Instant,
        now: Option<Timestamp>,
        company: Company,
    ) -> Result<Sent, StoreError> {
        let topology = self.committer.topology();
        let (mut request, mut indices) =
            named.request(asked, &self.names, now.unwrap_or_else(|| topology.time_at(begun)))?;
        let mut slot = self.slot(&request)?;
        let mut lane = topology.lane(slot);
        // On a Cluster each server has a time of its own, and which of them counts is known by the key.
        if now.is_none() && topology.is_cluster() && !matches!(asked, Asked::Refund(_)) {
            let now = lane.time().estimate_at(begun);
            if !request.is_open_at(now) {
                (request, indices) = named.request(asked, &self.names, now)?;
                slot = self.slot(&request)?;
                lane = topology.lane(slot);
            }
        }
        let awaited = self.committer.submit(lane, slot, request, begun, company)?;
        Ok(Sent { awaited, indices })
    }

    /// Where the keys of the request lie.
    fn slot(&self, request: &Request) -> Result<Slot, StoreError> {
        if !self.committer.topology().is_cluster() {
            return Ok(Slot(0));
        }
        let mut slots = request.keys.iter().map(|key| slot::of(key));
        let first = slots.next().unwrap_or(0);
        if slots.any(|slot| slot != first) {
            return Err(StoreError::Uncountable(
                "on a cluster, all quotas of a request have to count the same key, and a layout to put it into one slot, unless the store reserves across slots",
            ));
        }
        Ok(Slot(first))
    }
}

/// Awaits the futures side by side, and returns their outputs in order.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, output) in running.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(done) = future.as_mut().poll(context)
            {
                *output = Some(done);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
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
    fn only(&self) -> Result<Found, StoreError> {
        self.found.first().copied().ok_or_else(|| RedisError::BadReply.into())
    }

    /// Where the only counter stands, of which nothing was asked.
    fn state(&self, counter: &Counter<'_>) -> Result<QuotaState, StoreError> {
        let found = self.only()?;
        let window: Window = found.window(counter, self.now);
        Ok(QuotaState::in_window(counter.quota().quota(), found.after, window, self.now, None))
    }
}

impl Changing<'_, '_> {
    fn forget(&self) {
        self.named.ids().for_each(|id| self.denials.forget(id));
    }
}

/// What was asked before the change and answered during it is forgotten too.
impl Drop for Changing<'_, '_> {
    fn drop(&mut self) {
        self.forget();
    }
}
