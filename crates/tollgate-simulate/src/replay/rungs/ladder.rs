//! Quotas that are decided together, under several limits at once.

use std::collections::HashMap;
use std::iter;

use tollgate::{Anchor, CountDenied, PolicyQuota, QuotaState, Timestamp, WindowLength};

use super::counters::RungCounters;
use super::denials::{Denials, RungBits};
use super::{MAX_RUNGS, Rung};
use crate::replay::policies::Tracks;

/// The rungs of quotas that are decided together: those of all policies that decide, or those of one on trial.
///
/// The policies have found out already what applies to a request, and whether that is so depends on no limit. Left to
/// decide is whether there is room under each limit: a request takes its units from all counters or, if one has no
/// room, from none.
pub(super) struct Ladder {
    pub(super) rungs: Vec<Rung>,
    /// For each policy, in each role, how its quotas are counted here.
    tracks: Vec<LadderTrack>,
    counters: Vec<RungCounters>,
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
    /// The limit under each rung, if some rungs change it.
    limits: Option<Box<[u64]>>,
}

/// A charge of a request.
pub(in super::super) struct Charge<'a> {
    pub(in super::super) track: usize,
    pub(in super::super) place: usize,
    /// The digest of its key.
    pub(in super::super) digest: u128,
    /// The number of its client by the policy's key.
    pub(in super::super) client: Option<u32>,
    pub(in super::super) cost: u32,
    pub(in super::super) state: &'a QuotaState,
}

/// A charge of the request that is being decided on.
struct PendingCharge {
    track: usize,
    place: usize,
    slot: usize,
    client: Option<u32>,
    cost: u64,
    /// The rungs under which it has no room, and those of them that no window has room under.
    without_room: RungBits,
    above_limit: RungBits,
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
        let ladder_tracks = tracks.iter().enumerate().map(|(number, track)| {
            if !is_of(number) {
                return LadderTrack::default();
            }
            let own = rungs.iter().enumerate().filter(|(_, rung)| rung.track == number);
            let denials = Denials::of(own.fold(0, |bits, (place, _)| bits | 1 << place));
            let places = track.quotas.iter().enumerate().map(|(place, quota)| {
                let quota = &quota.quota;
                let counters = *known.entry(quota.scope_digest()).or_insert_with(|| {
                    counters.push(RungCounters::new(count, opening(quota)));
                    counters.len() - 1
                });
                let is_changed = |rung: &&Rung| (rung.track, rung.quota) == (number, place);
                let today = quota.quota().limit();
                let limits = rungs.iter().map(|rung| if is_changed(&rung) { rung.limit } else { today });
                let limits = rungs.iter().any(|rung| is_changed(&rung)).then(|| limits.collect());
                CountedQuota { counters, count_denied: quota.count_denied(), limits }
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

    /// Asks for room for a charge of a request. `limits` are those of each rung, if they are others than usual.
    pub(super) fn ask(&mut self, charge: Charge<'_>, limits: Option<&[u64]>) {
        let Charge { track, place, digest, client, cost, state } = charge;
        let (now, cost) = (state.now(), u64::from(cost));
        let Some(end) = state.window().map(|window| window.end()) else { return self.lose() };
        let place_of = self.tracks.get(track).and_then(|track| track.places.get(place));
        let Some(CountedQuota { counters, count_denied, limits: own }) = place_of else { return };
        let Some(counters) = self.counters.get_mut(*counters) else { return };
        let before = counters.words();
        let max_words = (self.max_words + before).saturating_sub(self.words);
        let Some(found) = counters.place(digest, now, max_words) else { return self.lose() };
        self.words = self.words - before + counters.words();
        let Some(mut slot) = counters.slot(found) else { return };
        slot.enter(now, end);
        // Cost 0 is answered as cost 1, and an overdraft as what has room if one unit has.
        let needed = if *count_denied == CountDenied::Overdraft { 1 } else { cost.max(1) };
        let (without_room, above_limit) = match limits.or(own.as_deref()) {
            Some(limits) => {
                let above = limits.iter().enumerate();
                let above =
                    above.fold(0, |bits, (rung, limit)| bits | RungBits::from(needed > *limit) << rung);
                (slot.without_room(needed, limits.iter().copied()), above)
            }
            None => {
                let limit = state.limit();
                let above = if needed > limit { RungBits::MAX } else { 0 };
                (slot.without_room(needed, iter::repeat(limit)), above)
            }
        };
        self.charges.push(PendingCharge {
            track,
            place,
            slot: found,
            client,
            cost,
            without_room,
            above_limit,
        });
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
            let slot = self.counters.get_mut(*counters).and_then(|counters| counters.slot(asked.slot));
            if let Some(mut slot) = slot.filter(|_| takes) {
                slot.add(asked.cost, charged, now);
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
        if let Some(counters) = place.and_then(|place| self.counters.get(place.counters)) {
            counters.prefetch(digest);
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
        let words = self.counters.iter().map(RungCounters::words).sum();
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
