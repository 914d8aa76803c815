//! Other limits and kinds, tried on every request: one rung is one quota with one other limit, or of one other kind.
//!
//! Where several quotas go together, where requests cost more than one unit or denied ones are counted, what a limit
//! denies cannot be calculated from the windows of that quota alone. What another kind denies never can.

mod counters;
mod denials;
mod keys;
mod kinds;
mod ladder;
mod notes;
mod sparse;
mod standings;

use tollgate::{PolicyQuota, Quota, Timestamp};
use tollgate_policy::{Attributes, Outcome, Policies, Policy, PolicyError, SentReading};

use self::kinds::OtherKinds;
pub use self::kinds::other_kinds;
pub(super) use self::ladder::Charge;
use self::ladder::{ChangedQuota, Ladder};
pub(super) use self::notes::notes;
use super::error::ReplayError;
use super::policies::quota::QuotaTrack;
use super::policies::{CLIENT, Tracks};
use super::{MAX_COUNTERS, Options, PolicyTrack};

/// Rungs of one ladder at most: each has a bit. So many limits are tried at most for all quotas together.
const MAX_RUNGS: usize = 32;

/// Ladders of other kinds at most for quotas that decide alone.
const MAX_ALONE: usize = 64;

/// Memory for the counters of all limits together, for each client that may be followed, and as much for those of all
/// kinds. If more is needed, the rungs say nothing, and a note tells it.
const BYTES_PER_CLIENT: usize = 160;

/// That of the most counters that a replay may have, and the least for these rungs.
const MAX_BYTES: usize = MAX_COUNTERS * 40;
const MIN_BYTES: usize = MAX_BYTES / 64;

/// Limits as shares of today's; of 10, if today's is 0.
const SHARES: [f64; 12] = [1.5, 0.5, 2.0, 0.75, 3.0, 0.25, 5.0, 0.9, 1.1, 8.0, 0.1, 1.25];

/// One quota with another limit, or of another kind.
pub(super) struct Rung {
    pub(super) track: usize,
    pub(super) quota: usize,
    pub(super) tried: Quota,
    /// The policies with this limit, if it may matter for which of two lists of quotas is stricter.
    changed: Option<Policies>,
}

/// All rungs.
#[derive(Default)]
pub(super) struct Rungs {
    ladders: Vec<Ladder>,
    /// The first of them that try other kinds, and not other limits.
    first_of_kinds: usize,
    /// For each policy, in each role, the ladders by which its charges are decided.
    of_tracks: Vec<Vec<usize>>,
    /// The ladders of the charges that have been asked for.
    asked: Vec<usize>,
    /// Memory for the counters of all limits, and for those of all kinds.
    max_bytes: usize,
    /// The other kinds of each quota, and those that there are not.
    pub(super) kinds: Vec<OtherKinds>,
}

/// What a rung denies.
pub(super) struct TriedQuota<'a> {
    pub(super) tried: &'a Quota,
    /// Its ladder, and its place there.
    pub(super) place: (usize, usize),
    /// Requests and clients that its policy denies.
    pub(super) denied: (u64, u64),
    /// Those that all policies together deny. `None` for trials.
    pub(super) total_denied: Option<(u64, u64)>,
}

/// A quota whose curve cannot be calculated.
struct UncalculatedQuota<'a> {
    number: usize,
    track: &'a PolicyTrack,
    place: usize,
    quota: &'a PolicyQuota,
    /// Whether requests state the limit, so that there is no other one to try.
    is_stated_by_requests: bool,
}

/// Those that are not of an override.
fn uncalculated<'a>(
    policies: &'a Policies,
    tracks: &'a Tracks,
) -> impl Iterator<Item = UncalculatedQuota<'a>> {
    tracks.iter().enumerate().flat_map(move |(number, track)| {
        let policy = policies.as_slice().get(track.policy).filter(|_| !track.is_calculable);
        let quotas = track.quotas.iter().enumerate().filter(|(_, quota)| quota.of_override.is_none());
        let quotas =
            quotas.filter_map(move |(place, QuotaTrack { quota, .. })| Some((place, quota, policy?)));
        quotas.map(move |(place, quota, policy)| UncalculatedQuota {
            number,
            track,
            place,
            quota,
            is_stated_by_requests: is_limited_by_requests(policy),
        })
    })
}

fn is_limited_by_requests(policy: &Policy) -> bool {
    policy.quota_specs().chain(policy.candidate_specs()).any(|spec| spec.limit_attribute().is_some())
}

/// The quota with other limits, as far as its kind has them.
fn limits(quota: &Quota, count: usize) -> Vec<Quota> {
    let today = quota.limit();
    let whole = if today == 0 { 10.0 } else { today as f64 };
    let mut limits: Vec<u64> =
        SHARES.iter().map(|share| (share * whole).round() as u64).filter(|limit| *limit != today).collect();
    let mut seen = std::collections::HashSet::new();
    limits.retain(|limit| *limit > 0 && seen.insert(*limit));
    limits.into_iter().filter_map(|limit| quota.clone().with_limit(limit).ok()).take(count).collect()
}

fn with_limit(
    policies: &Policies,
    policy: usize,
    quota: &PolicyQuota,
    limit: u64,
) -> Result<Policies, PolicyError> {
    let changed =
        policies.as_slice().iter().enumerate().map(|(place, other)| {
            if place == policy { other.with_limit(quota, limit) } else { other.clone() }
        });
    let changed = Policies::of(changed)?;
    Ok(match policies.unmatched() {
        Some(unmatched) => changed.with_unmatched(unmatched),
        None => changed,
    })
}

impl Rungs {
    /// Rungs for all quotas whose curves cannot be calculated: so many limits for each, and no more than there are bits
    /// in all. If there are more quotas than that, the first have one each. And rungs for the other kinds of all quotas.
    pub(super) fn new(policies: &Policies, tracks: &Tracks, options: &Options) -> Result<Self, ReplayError> {
        let max_bytes =
            options.max_clients.get().saturating_mul(BYTES_PER_CLIENT).clamp(MIN_BYTES, MAX_BYTES);
        let mut all =
            Self { max_bytes, of_tracks: tracks.iter().map(|_| Vec::new()).collect(), ..Self::default() };
        all.try_limits(policies, tracks, options.rungs)?;
        all.first_of_kinds = all.ladders.len();
        if options.rungs > 0 {
            all.try_kinds(policies, tracks);
        }
        Ok(all)
    }

    fn try_limits(
        &mut self,
        policies: &Policies,
        tracks: &Tracks,
        limits_each: usize,
    ) -> Result<(), ReplayError> {
        let wanted: Vec<UncalculatedQuota<'_>> =
            uncalculated(policies, tracks).filter(|quota| !quota.is_stated_by_requests).collect();
        let share = (MAX_RUNGS / wanted.len().max(1)).max(1);
        let limits_each = limits_each.min(share).min(SHARES.len());
        let limits = wanted.iter().flat_map(|quota| {
            limits(quota.quota.quota(), limits_each).into_iter().map(move |tried| (quota, tried))
        });
        let (mut deciding, mut on_trial) = (Vec::new(), Vec::new());
        for (UncalculatedQuota { number, track, place, quota, .. }, tried) in limits.take(MAX_RUNGS) {
            let policy = policies.as_slice().get(track.policy);
            let changed = policy.is_some_and(|policy| !policy.overrides().is_empty());
            let changed =
                changed.then(|| with_limit(policies, track.policy, quota, tried.limit())).transpose()?;
            let rung = Rung { track: *number, quota: *place, tried, changed };
            if track.role.is_enforced() { deciding.push(rung) } else { on_trial.push(rung) }
        }
        self.add_all(deciding, on_trial, tracks);
        Ok(())
    }

    /// Tries other kinds: of a quota that decides alone by itself, of all others that decide together.
    fn try_kinds(&mut self, policies: &Policies, tracks: &Tracks) {
        let kinds = OtherKinds::of_all(policies, tracks);
        let is_joint = |kinds: &&OtherKinds| {
            tracks.of(kinds.track).is_some_and(|track| track.role.is_enforced() && !track.is_calculable)
        };
        let joint = kinds.iter().filter(is_joint).filter(|kinds| !kinds.possible.is_empty()).count();
        let share = (MAX_RUNGS / joint.max(1)).max(1);
        let (mut deciding, mut alone, mut last_alone) = (Vec::new(), Vec::new(), Vec::new());
        for quota in &kinds {
            let is_joint = is_joint(&quota);
            let rungs = quota.possible.iter().take(if is_joint { share } else { MAX_RUNGS });
            let rungs = rungs.map(|tried| Rung {
                track: quota.track,
                quota: quota.quota,
                tried: tried.clone(),
                changed: None,
            });
            if is_joint {
                deciding.extend(rungs.take(MAX_RUNGS - deciding.len()));
            } else if last_alone.len() < MAX_ALONE || last_alone.contains(&quota.track) {
                last_alone.push(quota.track);
                alone.extend(rungs);
            }
        }
        self.add_all(deciding, alone, tracks);
        self.kinds = kinds;
    }

    /// Adds a ladder of the rungs that decide together, and one of each policy of which the others are. All have the
    /// same memory for each rung.
    fn add_all(&mut self, deciding: Vec<Rung>, apart: Vec<Rung>, tracks: &Tracks) {
        let count = (deciding.len() + apart.len()).max(1);
        let max_words = self.max_bytes / size_of::<u64>();
        let max_words = |rungs: usize| max_words * rungs / count;
        let is_deciding = |number| tracks.of(number).is_some_and(|track| track.role.is_enforced());
        if !deciding.is_empty() {
            let max_words = max_words(deciding.len());
            self.add(Ladder::new(deciding, tracks, is_deciding, max_words).with_totals(), is_deciding);
        }
        let mut apart = apart.into_iter().peekable();
        while let Some(first) = apart.next() {
            let track = first.track;
            let mut rungs = vec![first];
            rungs.extend(std::iter::from_fn(|| apart.next_if(|rung| rung.track == track)));
            let (max_words, is_of) = (max_words(rungs.len()), |number| number == track);
            self.add(Ladder::new(rungs, tracks, is_of, max_words), is_of);
        }
    }

    /// Whether there are none, as usual: then nothing has to be asked.
    pub(super) const fn is_empty(&self) -> bool {
        self.ladders.is_empty()
    }

    fn add(&mut self, ladder: Ladder, is_of: impl Fn(usize) -> bool) {
        let number = self.ladders.len();
        let tracks = self.of_tracks.iter_mut().enumerate().filter(|(track, _)| is_of(*track));
        tracks.for_each(|(_, ladders)| ladders.push(number));
        self.ladders.push(ladder);
    }

    /// The ladders that try other limits, and those that try other kinds.
    fn parts(&self) -> (&[Ladder], &[Ladder]) {
        self.ladders.split_at_checked(self.first_of_kinds).unwrap_or_default()
    }

    /// Asks each rung for room for a charge of a request.
    pub(super) fn ask(&mut self, charge: Charge<'_>, request: &Attributes<'_>, declared: &PolicyQuota) {
        let track = charge.track;
        for number in self.of_tracks.get(track).into_iter().flatten() {
            let Some(ladder) = self.ladders.get_mut(*number).filter(|ladder| !ladder.is_lost) else {
                continue;
            };
            let is_varied = ladder.rungs.iter().any(|rung| rung.track == track && rung.changed.is_some());
            if is_varied && SentReading::of(request).is_some() {
                let quotas = ladder.rungs.iter().map(|rung| {
                    let changed = rung.changed.as_ref().filter(|_| rung.track == track);
                    let quota = changed.and_then(|changed| quota_of(changed, request, declared));
                    quota.unwrap_or_else(|| charge.quota.clone())
                });
                let quotas: ChangedQuota = quotas.collect();
                ladder.ask(charge, Some(&quotas));
            } else {
                ladder.ask(charge, None);
            }
            if !self.asked.contains(number) {
                self.asked.push(*number);
            }
        }
    }

    /// Decides on the request whose charges have been asked for, as [`Ladder::decide`] does.
    pub(super) fn decide(&mut self, now: Timestamp, client: Option<u32>, takes: bool) {
        for number in self.asked.drain(..) {
            if let Some(ladder) = self.ladders.get_mut(number).filter(|ladder| !ladder.is_lost) {
                ladder.decide(now, client, takes);
            }
        }
    }

    /// Notes a request that is denied without a count, whatever the limits are.
    pub(super) fn note_denial(&mut self, client: Option<u32>) {
        self.ladders.iter_mut().for_each(|ladder| ladder.note_denial(client));
    }

    /// What other limits of a quota deny, if they have decided on every request.
    pub(super) fn tried_limits(&self, track: usize, quota: usize) -> impl Iterator<Item = TriedQuota<'_>> {
        self.tried(track, quota).filter(|tried| tried.place.0 < self.first_of_kinds)
    }

    /// What other kinds of a quota deny, if they have decided on every request.
    pub(super) fn tried_kinds(&self, track: usize, quota: usize) -> impl Iterator<Item = TriedQuota<'_>> {
        self.tried(track, quota).filter(|tried| tried.place.0 >= self.first_of_kinds)
    }

    fn tried(&self, track: usize, quota: usize) -> impl Iterator<Item = TriedQuota<'_>> {
        let ladders = self.ladders.iter().enumerate().filter(|(_, ladder)| !ladder.is_lost);
        ladders.flat_map(move |(number, ladder)| {
            let own = ladder.rungs.iter().enumerate();
            let own = own.filter(move |(_, rung)| (rung.track, rung.quota) == (track, quota));
            own.filter_map(move |(place, rung)| {
                let (denied, total_denied) = (ladder.denied(place)?, ladder.total_denied(place));
                Some(TriedQuota { tried: &rung.tried, place: (number, place), denied, total_denied })
            })
        })
    }

    /// Of the clients that a rung's policy denies, how many are of interest.
    pub(super) fn denied_clients(
        &self,
        (ladder, rung): (usize, usize),
        is_of_interest: impl Fn(u32) -> bool,
    ) -> Option<u64> {
        self.ladders.get(ladder)?.denied_clients(rung, is_of_interest)
    }

    /// Prefetches the counters of a client under a quota.
    pub(super) fn prefetch(&self, track: usize, place: usize, digest: u128) {
        let ladders = self.of_tracks.get(track).into_iter().flatten();
        let ladders = ladders.filter_map(|number| self.ladders.get(*number));
        ladders.for_each(|ladder| ladder.prefetch(track, place, digest));
    }

    /// Keeps the clients that had these numbers, of policies that count by this kind of key.
    pub(super) fn keep(&mut self, subject: usize, tracks: &Tracks, kept: &[u32]) {
        for ladder in &mut self.ladders {
            let same_key = tracks.iter().enumerate().filter(|(_, track)| track.subject == subject);
            same_key.for_each(|(track, _)| ladder.keep(Some(track), kept));
            if subject == CLIENT {
                ladder.keep(None, kept);
            }
        }
    }
}

/// The quota for a request that two lists apply to, under changed policies.
fn quota_of(changed: &Policies, request: &Attributes<'_>, quota: &PolicyQuota) -> Option<Quota> {
    let Ok(Outcome::Charge(matched)) = changed.charges(request, 1) else { return None };
    let on_trial = matched.trials().flat_map(|trial| trial.charges());
    let same = matched
        .enforced()
        .chain(on_trial)
        .find(|charge| charge.counter().quota().shares_counters_with(quota));
    same.map(|charge| charge.counter().quota().quota().clone())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::num::NonZeroUsize;

    use tollgate_policy::Config;

    use crate::hit::Hit;
    use crate::replay::Options;
    use crate::replay::Replay;
    use crate::report::Report;

    use super::*;

    fn replay(text: &str, options: Options, clients: u32) -> Report {
        let policies = Config::parse("test.yaml", text).unwrap().into_policies();
        let mut replay = Replay::new(policies, None, options).unwrap();
        // Each comes twice: what makes few requests has no counters of kinds.
        for client in (0..clients).chain(0..clients) {
            let ip = Ipv4Addr::from_bits(client).to_string();
            let attributes = [("ip", ip.as_str())].into_iter().collect();
            replay.request(Hit::new(Timestamp::EPOCH, attributes)).unwrap();
        }
        let (limits, kinds) = replay.noter.rungs.parts();
        for ladders in [limits, kinds] {
            let taken: usize = ladders.iter().map(Ladder::words).sum();
            assert!(taken * size_of::<u64>() <= replay.noter.rungs.max_bytes, "{taken}");
        }
        replay.report()
    }

    fn points(report: &Report) -> Vec<usize> {
        let quotas = report.policies.iter().flat_map(|policy| &policy.quotas);
        quotas.map(|quota| quota.curve.points.len()).collect()
    }

    fn kinds(report: &Report) -> Vec<usize> {
        let quotas = report.policies.iter().flat_map(|policy| &policy.quotas);
        quotas.map(|quota| quota.kinds.len()).collect()
    }

    /// Each of up to 32 rungs had memory for eight million counters, so overlapping policies took gigabytes under the
    /// flags that keep others below one and a half. And points were missing from the curve without a word.
    #[test]
    fn all_together_take_bounded_memory_and_say_so() {
        let text: String = (0..4)
            .map(|number| format!("  - {{ name: p{number}, key: [ip], quotas: [2/1d, 9/7d] }}\n"))
            .collect();
        let text = format!("policies:\n{text}");
        let max_clients = NonZeroUsize::new(1_000).unwrap();
        let options = || Options { max_clients, rungs: 4, ..Options::default() };
        let report = replay(&text, options(), 2_000);
        assert_eq!((points(&report), kinds(&report)), (vec![5; 8], vec![4; 8]), "{:?}", report.notes);
        // Each has a counter of each quota under 32 limits, of 280 bytes.
        let report = replay(&text, options(), 13_000);
        assert_eq!((points(&report), kinds(&report)), (vec![1; 8], vec![0; 8]));
        let note = "`p3` with 3 in place of 2/1d";
        let is_said =
            |said: &String| said.contains(note) && said.contains("There is room for 40 MiB of counters");
        let notes = report.notes.iter().map(ToString::to_string);
        assert_eq!(notes.filter(is_said).count(), 1, "{:?}", report.notes);
        let note =
            "The report lacks kinds whose counters had no room: `p0` with 2/1d~burst:1 in place of 2/1d, ";
        let is_said =
            |said: &String| said.starts_with(note) && said.contains(" and 27 others. There is room");
        assert!(
            report.notes.iter().map(ToString::to_string).any(|said| is_said(&said)),
            "{:?}",
            report.notes
        );
    }

    /// Tables without a key had taken all memory, so every point was missing.
    #[test]
    fn many_quotas_with_few_keys_leave_room() {
        let text: String = (0..1_400)
            .map(|number| {
                format!("  - {{ name: q{number}, match: {{ path: /x{number} }}, key: [ip], quotas: [5/1m@first_hit] }}\n")
            })
            .collect();
        let text = format!("policies:\n  - {{ name: all, key: [ip], quotas: [5/1m, 20/1h] }}\n{text}");
        let max_clients = NonZeroUsize::new(1_000).unwrap();
        let report = replay(&text, Options { max_clients, rungs: 12, ..Options::default() }, 500);
        assert_eq!(points(&report)[..2], [2, 2], "{:?}", report.notes);
    }

    /// Those of quotas on trial are apart, so they go on.
    #[test]
    fn rungs_that_run_out_of_room_take_no_others_along() {
        let text = "policies: [{ name: a, key: [ip], quotas: [2/1m, 10/1h], candidate: [1/1m, 5/1h] }]";
        let policies = Config::parse("test.yaml", text).unwrap().into_policies();
        let mut replay = Replay::new(policies, None, Options { rungs: 1, ..Options::default() }).unwrap();
        replay.noter.rungs.ladders[0].is_lost = true;
        let attributes = [("ip", "192.0.2.1")].into_iter().collect();
        replay.request(Hit::new(Timestamp::EPOCH, attributes)).unwrap();
        let report = replay.report();
        assert_eq!(points(&report), [1, 1, 2, 2]);
        let note = "The curves lack limits whose counters had no room: `a` with 3 in place of 2/1m, `a` with 15 in place of \
                    10/1h. There is room for 305 MiB of counters; a smaller --try-limits or a larger --max-clients leaves \
                    more.";
        assert!(report.notes.iter().any(|said| said.to_string() == note), "{:?}", report.notes);
    }
}
