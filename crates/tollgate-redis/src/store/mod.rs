//! The store: takes charges and returns counts.

mod ask;
mod decide;
mod reserve;
mod warm_up;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use smallvec::smallvec;
use tollgate::{Charge, Counter, Key, Mark, PolicyQuota, QuotaState, QuotaStates, Step, Store, StoreError};

use self::ask::{Pending, Taken};
use self::reserve::{groups, parts};
use crate::across_slots::AcrossSlots;
use crate::batch::{Committer, Company};
use crate::denials::{Denials, Id};
use crate::error::RedisError;
use crate::keys::Names;
use crate::named_charges::{self, Asked, NamedCharges};
use crate::script::{Found, Outcome};
use crate::slot;
use crate::time::{CallTime, Instant, instant};
use crate::topology::{Share, StoreStatus, Topology};

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

/// A request to charge that was not sent.
enum Prepared<'a> {
    Known(QuotaStates),
    Named(NamedCharges<'a>),
    /// Lies in several slots.
    Across,
}

/// A request to charge.
enum Begun {
    Known(QuotaStates),
    Asked(Pending),
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

    /// Returns one probe key for each server that counts, so that a caller can test each of them. If some slots of a
    /// Cluster have no server, one key lies in such a slot. Before the servers are known, returns a single key.
    #[must_use]
    pub fn key_on_each_server(&self, quota: &PolicyQuota) -> Vec<Key<'static>> {
        let names = &self.0.names;
        let (mut shares, mut keys) = (self.topology().shares(), Vec::new());
        let mut numbers = 0..SEARCHED;
        while let (false, Some(number)) = (shares.is_empty(), numbers.next()) {
            let key = names.probe(number);
            let counter = Counter::new(quota, &key);
            let Ok((name, _)) = names.of(&counter, &names.who(&key), || self.topology().time_at(instant()))
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

    pub(crate) fn names(&self) -> &Names {
        &self.0.names
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
    ) -> tollgate::Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        let prepared = match step {
            Step::Charge(charges) => match self.0.prepare(charges) {
                Prepared::Known(counted) => return tollgate::Answer::Now(Ok(counted)),
                prepared => Some(prepared),
            },
            _ => None,
        };
        tollgate::Answer::Later(async move {
            let answer = match &prepared {
                Some(Prepared::Named(named)) => self.0.charge(named).await,
                // In a box, or every charge's future would be as large as that of the rarest step.
                _ => Box::pin(self.0.step(step, instant())).await,
            };
            answer.map_err(|error| self.0.error_of_step(error, &step))
        })
    }

    fn step_each<'a>(
        &'a self,
        steps: &'a [Step<'a>],
    ) -> tollgate::Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        tollgate::Answer::Later(async move {
            let answers = self.0.step_each(steps).await.into_iter().zip(steps);
            answers.map(|(answer, step)| answer.map_err(|error| self.0.error_of_step(error, step))).collect()
        })
    }
}

impl Inner {
    /// The error of this step, as its caller gets it.
    fn error_of_step(&self, error: StoreError, step: &Step<'_>) -> StoreError {
        let error = error.at(Arc::clone(&self.place));
        if step.changes_nothing() { error.with_nothing_charged() } else { error }
    }

    async fn step_each<'a>(
        self: &'a Arc<Self>,
        steps: &'a [Step<'a>],
    ) -> Vec<Result<QuotaStates, StoreError>> {
        let call_begun = instant();
        let prepared: Vec<Option<Prepared<'_>>> = steps
            .iter()
            .map(|step| match step {
                Step::Charge(charges) => Some(self.prepare(charges)),
                _ => None,
            })
            .collect();
        // All charges are sent before the first answer is awaited.
        let begun: Vec<Option<Begun>> = prepared
            .iter()
            .map(|prepared| match prepared {
                Some(Prepared::Named(named)) => Some(self.begin(named, Company::Others)),
                _ => None,
            })
            .collect();
        let mut answers = Vec::with_capacity(begun.len());
        // Steps that have no answer yet, with their places.
        let (mut charges, mut across, mut others) = (Vec::new(), Vec::<(usize, Vec<Id>)>::new(), Vec::new());
        for (place, ((prepared, begun), step)) in prepared.into_iter().zip(begun).zip(steps).enumerate() {
            answers.push(match (prepared, begun, step) {
                (Some(Prepared::Known(counted)), ..) | (_, Some(Begun::Known(counted)), _) => Ok(counted),
                (Some(Prepared::Named(named)), Some(Begun::Asked(pending)), _) => {
                    charges.push((place, named, pending));
                    Err(RedisError::TimedOut.into())
                }
                (.., Step::Charge(charges)) => {
                    across.push((place, NamedCharges::new(charges, &self.names).ids().collect()));
                    Err(RedisError::TimedOut.into())
                }
                _ => {
                    others.push(vec![place]);
                    Err(RedisError::TimedOut.into())
                }
            });
        }
        let charges = async {
            let mut counted = Vec::with_capacity(charges.len());
            for (place, named, mut pending) in charges {
                counted.push((place, self.counted(&named, &mut pending).await));
            }
            counted
        };
        let in_turn = async |places: &Vec<usize>| {
            let mut taken = Vec::with_capacity(places.len());
            for place in places {
                taken.push((*place, self.step(steps[*place], call_begun).await));
            }
            taken
        };
        // Side by side, so that a server that hangs holds up no step on another.
        let (charges, others) = tokio::join!(charges, all(others.iter().map(in_turn)));
        // Only once nothing else is in flight: no charge across slots is denied because of what another gives back.
        let across = apart(across);
        let across = all(across.iter().map(in_turn)).await;
        for (place, answer) in charges.into_iter().chain(others.into_iter().chain(across).flatten()) {
            answers[place] = answer;
        }
        answers
    }

    async fn charge(&self, named: &NamedCharges<'_>) -> Result<QuotaStates, StoreError> {
        let mut pending = match self.begin(named, Company::Alone) {
            Begun::Known(counted) => return Ok(counted),
            Begun::Asked(pending) => pending,
        };
        self.counted(named, &mut pending).await
    }

    /// Takes a step that was not sent yet, within the deadline of a call that has begun then. Charges are those
    /// across slots.
    async fn step(self: &Arc<Self>, step: Step<'_>, begun: Instant) -> Result<QuotaStates, StoreError> {
        match step {
            Step::Charge(charges) => self.reserve(charges, begun).await,
            Step::Peek(charges) => self.peek(charges, begun).await,
            Step::Record(charge) => self.record(&charge, begun).await.map(QuotaStates::one),
            Step::Refund { charge, mark } => self.refund(&charge, mark, begun).await.map(QuotaStates::one),
            Step::Reset(counter) => self.change(&counter, Asked::Reset, begun).await.map(QuotaStates::one),
            Step::Set { counter, used } => {
                self.change(&counter, Asked::Set(used), begun).await.map(QuotaStates::one)
            }
            _ => Err(StoreError::Uncountable("this version of the store does not support the step")),
        }
    }

    async fn peek(&self, charges: &[Charge<'_>], begun: Instant) -> Result<QuotaStates, StoreError> {
        if charges.is_empty() {
            return Ok(QuotaStates::from_iter([]));
        }
        if self.reserves(charges) {
            let now = self.committer.topology().time_at(instant());
            let groups = groups(charges, &self.names, now)?;
            let parts = parts(&groups, &self.names);
            let looked = self.ask_each(&parts, Asked::Look, begun).await;
            return self.joined(&parts, looked);
        }
        let named = NamedCharges::new(charges, &self.names);
        let mut pending = self.send(&named, Asked::Look, CallTime::now(begun), Company::Alone);
        self.counted(&named, &mut pending).await
    }

    async fn record(&self, charge: &Charge<'_>, begun: Instant) -> Result<QuotaState, StoreError> {
        let charges = [*charge];
        let named = NamedCharges::new(&charges, &self.names);
        let mut pending = self.send(&named, Asked::Record, CallTime::now(begun), Company::Alone);
        let taken = self.note(&named, &mut pending).await?;
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
        let (quota, key) = (charge.counter().quota().quota(), charge.counter().key());
        let window = quota.window_at(key, mark.time());
        let look = async || {
            let looked = self.take(&named, Asked::Look, CallTime::now(begun)).await?;
            looked.state(&charge.counter())
        };
        // If the key names the window, the script can only give back to that one.
        if self.names.say_windows() && window.start() != mark.time() {
            return look().await;
        }
        let answer = {
            let _changing = self.changing(&named);
            self.ask(&named, Asked::Refund(mark), CallTime::now(begun)).await?
        };
        let taken = match answer.outcome {
            Outcome::Closed(Some(found)) => {
                return Taken { now: answer.now, found: smallvec![found] }.state(&charge.counter());
            }
            // The window that is open now is under another key.
            Outcome::Closed(None) => return look().await,
            _ => Taken::try_from(answer)?,
        };
        let Found { before, after, .. } = taken.only()?;
        // Such a refund may be early. A window that has not begun and holds nothing is not the one that is counted.
        if self.windows_have_slots() && before == 0 && taken.now < window.start() {
            return look().await;
        }
        let given = u32::try_from(before - after).map_err(|_| RedisError::BadReply)?;
        // The window that was named, which after a step back of the clock may not have begun.
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
        self.take(&named, asked, CallTime::now(begun)).await?.state(counter)
    }

    /// The answer, if it is known here; else what is to be asked.
    fn prepare<'a>(&self, charges: &'a [Charge<'a>]) -> Prepared<'a> {
        if charges.is_empty() {
            return Prepared::Known(QuotaStates::from_iter([]));
        }
        if self.reserves(charges) {
            return Prepared::Across;
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

    /// The answer, if it is known here; else the charges are in flight.
    fn begin(&self, named: &NamedCharges<'_>, company: Company) -> Begun {
        let time = CallTime::begins();
        let known = if self.may_deny(named) { self.recall(named, time.begun) } else { None };
        let asked = match known.filter(|(known, _)| !known.is_admitted()) {
            Some((denied, _)) if !self.is_to_renew(named, time.begun) => return Begun::Known(denied),
            Some(_) => Asked::Renewal,
            None => Asked::Charge,
        };
        Begun::Asked(self.send(named, asked, time, company))
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
}

/// The places of these requests, those with common counters in one list, in their order.
fn apart(requests: Vec<(usize, Vec<Id>)>) -> Vec<Vec<usize>> {
    let mut lists: Vec<(Vec<usize>, Vec<Id>)> = Vec::new();
    for (place, ids) in requests {
        let mut list = (vec![place], ids);
        let has_common = |(_, ids): &mut (_, Vec<Id>)| list.1.iter().any(|own| ids.contains(own));
        let joined: Vec<_> = lists.extract_if(.., has_common).collect();
        for (places, ids) in joined {
            list.0.extend(places);
            list.1.extend(ids);
        }
        list.0.sort_unstable();
        lists.push(list);
    }
    lists.into_iter().map(|(places, _)| places).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// All reservations of a batch were taken one after another, so the last of many had no time left.
    #[test]
    fn only_reservations_with_common_counters_are_taken_in_turn() {
        let counters: [[Id; 2]; 5] = [[0, 1], [2, 3], [4, 5], [3, 4], [0, 1]];
        let requests =
            |count| (10..).zip(counters).take(count).map(|(place, ids)| (place, ids.to_vec())).collect();
        assert_eq!(apart(requests(3)), [[10], [11], [12]]);
        assert_eq!(apart(requests(5)), [vec![11, 12, 13], vec![10, 14]]);
    }
}
