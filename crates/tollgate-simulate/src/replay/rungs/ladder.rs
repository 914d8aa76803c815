//! Quotas that are decided together, under several limits or kinds at once.

use std::collections::HashMap;
use std::iter;
use std::sync::Arc;

use tollgate::{Anchor, CountDenied, PolicyQuota, Quota, QuotaKind, QuotaState, Timestamp, WindowLength};

use super::counters::RungCounters;
use super::denials::{Denials, RungBits};
use super::sparse::SparseTerms;
use super::standings::{RequestTime, StandingCounters};
use super::{MAX_RUNGS, Rung};
use crate::replay::counted_window::counted_window;
use crate::replay::policies::Tracks;

/// The rungs of quotas that are decided together: those of all policies that decide, or those of one on trial.
///
/// The policies have found out already what applies to a request, and whether that is so depends on no limit and no
/// kind. Left to decide is whether there is room under each rung: a request takes its units from all counters or, if
/// one has no room, from none.
pub(super) struct Ladder {
    pub(super) rungs: Vec<Rung>,
    /// For each policy, in each role, how its quotas are counted here.
    tracks: Vec<LadderTrack>,
    counters: Vec<LadderCounters>,
    /// The memory that these take, in words.
    words: usize,
    /// What all policies together deny, if they decide.
    totals: Option<Denials>,
    /// The request that is being decided on.
    charges: Vec<PendingCharge>,
    max_words: usize,
    /// Whether there was no room for its counters, so that it says nothing.
    pub(super) is_lost: bool,
}

/// One policy of a ladder. Of others, it has no places.
#[derive(Default)]
struct LadderTrack {
    places: Vec<CountedQuota>,
    /// What the policy denies under its own rungs.
    denials: Denials,
}

/// How a quota is counted.
struct CountedQuota {
    counters: usize,
    count_denied: CountDenied,
    /// The quota under each rung, if some rungs change it.
    changed: Option<ChangedQuota>,
}

/// A quota under each rung, and its limits.
pub(super) struct ChangedQuota {
    quotas: Arc<[Quota]>,
    limits: Box<[u64]>,
}

/// The counters of one quota.
enum LadderCounters {
    /// Those of fixed windows under every rung.
    Windows(RungCounters),
    /// All others.
    Standings(StandingCounters),
}

/// A charge of a request.
#[derive(Clone, Copy)]
pub(in super::super) struct Charge<'a> {
    pub(in super::super) track: usize,
    pub(in super::super) place: usize,
    /// The digest of its key.
    pub(in super::super) digest: u128,
    /// The number of its client by the policy's key.
    pub(in super::super) client: Option<u32>,
    pub(in super::super) cost: u32,
    /// As it was charged.
    pub(in super::super) quota: &'a Quota,
    pub(in super::super) state: &'a QuotaState,
}

/// A charge of the request that is being decided on.
struct PendingCharge {
    track: usize,
    place: usize,
    counter: PendingCounter,
    client: Option<u32>,
    cost: u64,
    /// The rungs under which it has no room, and those of them that no window has room under.
    without_room: RungBits,
    above_limit: RungBits,
}

/// Where a charge is counted.
enum PendingCounter {
    /// The place of its slot.
    Slot(usize),
    /// The key of its standings.
    Standings { digest: u128, time: RequestTime, quotas: PendingQuotas },
}

/// The quotas of a charge.
enum PendingQuotas {
    /// One for each rung.
    Each(Arc<[Quota]>),
    /// The same under all rungs.
    Same(Quota),
}

impl Ladder {
    /// A ladder of the rungs of these policies.
    pub(super) fn new(
        rungs: Vec<Rung>,
        tracks: &Tracks,
        is_of: impl Fn(usize) -> bool,
        max_words: usize,
    ) -> Self {
        let (mut counters, mut known) = (Vec::new(), HashMap::new());
        let count = rungs.len();
        let own_quotas = || {
            let own = tracks.iter().enumerate().filter(|(number, _)| is_of(*number));
            own.flat_map(|(_, track)| &track.quotas)
        };
        let ladder_tracks = tracks.iter().enumerate().map(|(number, track)| {
            if !is_of(number) {
                return LadderTrack::default();
            }
            let own = rungs.iter().enumerate().filter(|(_, rung)| rung.track == number);
            let denials = Denials::of(own.fold(0, |bits, (place, _)| bits | 1 << place));
            let places = track.quotas.iter().enumerate().map(|(place, quota)| {
                let (quota, today) = (&quota.quota, quota.quota.quota());
                let is_changed = |rung: &&Rung| (rung.track, rung.quota) == (number, place);
                let own = || rungs.iter().filter(is_changed);
                let quotas = rungs.iter().map(|rung| if is_changed(&rung) { &rung.tried } else { today });
                let changed: Option<ChangedQuota> = own().next().map(|_| quotas.cloned().collect());
                let counters = *known.entry(quota.scope_digest()).or_insert_with(|| {
                    let mut kinds = own().map(|rung| rung.tried.kind()).chain([today.kind()]);
                    counters.push(match kinds.all(|kind| kind == QuotaKind::Window) {
                        true => LadderCounters::Windows(RungCounters::new(count, opening(quota))),
                        false => {
                            let scope = quota.scope_digest();
                            let others = own_quotas().filter(|other| other.quota.scope_digest() == scope);
                            let is_fixed = own().all(|rung| rung.changed.is_none());
                            let own = changed.as_ref().filter(|_| is_fixed && others.count() == 1);
                            let sparse = own.and_then(|own| SparseTerms::of(&own.quotas));
                            LadderCounters::Standings(StandingCounters::new(count, sparse))
                        }
                    });
                    counters.len() - 1
                });
                CountedQuota { counters, count_denied: quota.count_denied(), changed }
            });
            LadderTrack { places: places.collect(), denials }
        });
        let ladder_tracks: Vec<LadderTrack> = ladder_tracks.collect();
        Self {
            rungs,
            tracks: ladder_tracks,
            counters,
            words: 0,
            totals: None,
            charges: Vec::new(),
            max_words,
            is_lost: false,
        }
    }

    /// Counts also what all policies together deny.
    pub(super) fn with_totals(self) -> Self {
        let totals = Some(Denials::of(self.all()));
        Self { totals, ..self }
    }

    fn all(&self) -> RungBits {
        RungBits::MAX >> (MAX_RUNGS - self.rungs.len().clamp(1, MAX_RUNGS))
    }

    /// Asks for room for a charge of a request. `varied` is its quota under each rung, if it is another than usual.
    pub(super) fn ask(&mut self, charge: Charge<'_>, varied: Option<&ChangedQuota>) {
        let Charge { track, place, digest, client, cost, quota, state } = charge;
        let (now, cost, window) = (state.now(), u64::from(cost), counted_window(quota, state));
        let place_of = self.tracks.get(track).and_then(|track| track.places.get(place));
        let Some(CountedQuota { counters, count_denied, changed }) = place_of else { return };
        let changed = varied.or(changed.as_ref());
        let Some(counters) = self.counters.get_mut(*counters) else { return };
        let before = counters.words();
        let max_words = (self.max_words + before).saturating_sub(self.words);
        // Cost 0 is answered as cost 1, and an overdraft as what has room if one unit has.
        let needed = if *count_denied == CountDenied::Overdraft { 1 } else { cost.max(1) };
        let (counter, (without_room, above_limit)) = match counters {
            LadderCounters::Windows(counters) => {
                let Some(found) = counters.place(digest, now, max_words) else { return self.lose() };
                let Some(mut slot) = counters.slot(found) else { return };
                slot.enter(now, window.end());
                let room = match changed {
                    Some(ChangedQuota { limits, .. }) => {
                        let above = limits.iter().enumerate();
                        let above = above
                            .fold(0, |bits, (rung, limit)| bits | RungBits::from(needed > *limit) << rung);
                        (slot.without_room(needed, limits.iter().copied()), above)
                    }
                    None => {
                        let limit = quota.limit();
                        let above = if needed > limit { RungBits::MAX } else { 0 };
                        (slot.without_room(needed, iter::repeat(limit)), above)
                    }
                };
                (PendingCounter::Slot(found), room)
            }
            LadderCounters::Standings(counters) => {
                let time = RequestTime { now, window };
                let quotas = match changed {
                    Some(changed) => PendingQuotas::Each(Arc::clone(&changed.quotas)),
                    None => PendingQuotas::Same(quota.clone()),
                };
                let room = counters.without_room(digest, needed, quotas.by_rung(), time, max_words);
                let Some(room) = room else { return self.lose() };
                (PendingCounter::Standings { digest, time, quotas }, room)
            }
        };
        self.words = self.words - before + counters.words();
        self.charges.push(PendingCharge { track, place, counter, client, cost, without_room, above_limit });
    }

    /// Decides on the request whose charges have been asked for. `client` is the number of its client in figures over
    /// all policies. A request that a trial must not count `takes` nothing.
    pub(super) fn decide(&mut self, now: Timestamp, client: Option<u32>, takes: bool) {
        let mut charges = std::mem::take(&mut self.charges);
        let denied = charges.iter().fold(0, |denied, asked| denied | asked.without_room);
        for asked in &charges {
            let place = self.tracks.get(asked.track).and_then(|track| track.places.get(asked.place));
            let Some(CountedQuota { counters, count_denied, .. }) = place else { continue };
            let charged = match count_denied {
                CountDenied::No => !denied,
                // The counter that denied it, unless the cost is above the limit.
                CountDenied::Yes => !denied | asked.without_room & !asked.above_limit,
                CountDenied::Overdraft => RungBits::MAX,
            };
            let Some(counters) = self.counters.get_mut(*counters).filter(|_| takes) else { continue };
            match (counters, &asked.counter) {
                (LadderCounters::Windows(counters), PendingCounter::Slot(place)) => {
                    let slot = counters.slot(*place);
                    slot.into_iter().for_each(|mut slot| slot.add(asked.cost, charged, now));
                }
                (LadderCounters::Standings(counters), PendingCounter::Standings { digest, time, quotas }) => {
                    let before = counters.words();
                    counters.add(*digest, asked.cost, charged, quotas.by_rung(), *time);
                    self.words = self.words - before + counters.words();
                }
                _ => {}
            }
        }
        if denied != 0 {
            self.note(&charges, denied, client);
        }
        charges.clear();
        // Its room is used again.
        self.charges = charges;
    }

    /// Notes a request that all rungs deny without a count.
    pub(super) fn note_denial(&mut self, client: Option<u32>) {
        let all = self.all();
        self.totals.iter_mut().for_each(|totals| totals.note(all, client));
    }

    fn note(&mut self, charges: &[PendingCharge], denied: RungBits, client: Option<u32>) {
        self.totals.iter_mut().for_each(|totals| totals.note(denied, client));
        // A policy has its charges together.
        for charges in charges.chunk_by(|one, other| one.track == other.track) {
            let by_policy = charges.iter().fold(0, |denied, asked| denied | asked.without_room);
            let Some(asked) = charges.first().filter(|_| by_policy != 0) else { continue };
            if let Some(track) = self.tracks.get_mut(asked.track) {
                track.denials.note(by_policy, asked.client);
            }
        }
    }

    /// Of the clients that the policy of this rung denies, how many are of interest.
    pub(super) fn denied_clients(&self, rung: usize, is_of_interest: impl Fn(u32) -> bool) -> Option<u64> {
        let track = self.rungs.get(rung)?.track;
        self.tracks.get(track)?.denials.clients_of_rung(rung, is_of_interest)
    }

    /// Requests and clients that the policy of this rung denies.
    pub(super) fn denied(&self, rung: usize) -> Option<(u64, u64)> {
        let track = self.rungs.get(rung)?.track;
        self.tracks.get(track)?.denials.of_rung(rung)
    }

    /// Requests and clients that all policies together deny under this rung, if they decide.
    pub(super) fn total_denied(&self, rung: usize) -> Option<(u64, u64)> {
        self.totals.as_ref()?.of_rung(rung)
    }

    /// Prefetches the counters of a key under a quota.
    pub(super) fn prefetch(&self, track: usize, place: usize, digest: u128) {
        let place = self.tracks.get(track).and_then(|track| track.places.get(place));
        match place.and_then(|place| self.counters.get(place.counters)) {
            Some(LadderCounters::Windows(counters)) => counters.prefetch(digest),
            Some(LadderCounters::Standings(counters)) => counters.prefetch(digest),
            None => {}
        }
    }

    /// Keeps the clients of a policy's key that had these numbers; `None` stands for those of all policies together.
    pub(super) fn keep(&mut self, track: Option<usize>, kept: &[u32]) {
        let denials = match track {
            None => self.totals.as_mut(),
            Some(track) => self.tracks.get_mut(track).map(|track| &mut track.denials),
        };
        denials.into_iter().for_each(|denials| denials.keep(kept));
    }

    /// The memory that its counters take, in words.
    #[cfg(test)]
    pub(super) fn words(&self) -> usize {
        let words = self.counters.iter().map(LadderCounters::words).sum();
        assert!(self.is_lost || words == self.words, "{words} {}", self.words);
        words
    }

    /// Gives up: there is no memory for more counters.
    #[cold]
    fn lose(&mut self) {
        self.is_lost = true;
        self.counters.clear();
        self.charges.clear();
    }
}

impl LadderCounters {
    const fn words(&self) -> usize {
        match self {
            Self::Windows(counters) => counters.words(),
            Self::Standings(counters) => counters.words(),
        }
    }
}

impl FromIterator<Quota> for ChangedQuota {
    fn from_iter<I: IntoIterator<Item = Quota>>(quotas: I) -> Self {
        let quotas: Arc<[Quota]> = quotas.into_iter().collect();
        Self { limits: quotas.iter().map(Quota::limit).collect(), quotas }
    }
}

impl PendingQuotas {
    /// The quota under each rung.
    fn by_rung<'q>(&'q self) -> impl Fn(usize) -> Option<&'q Quota> {
        move |rung| match self {
            Self::Each(quotas) => quotas.get(rung),
            Self::Same(quota) => Some(quota),
        }
    }
}

/// The length of the quota's windows in milliseconds, if they open at their first unit.
fn opening(quota: &PolicyQuota) -> Option<u64> {
    let quota = quota.quota();
    match quota.window() {
        WindowLength::Fixed(length) if quota.anchor() == Anchor::FirstHit => {
            Some(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
        }
        _ => None,
    }
}
