//! Other limits, tried on every request: one rung is one quota under one other limit.
//!
//! Where several quotas go together, where requests cost more than one unit or denied ones are counted, what a limit
//! denies cannot be calculated from the windows of that quota alone.

mod counters;
mod denials;
mod ladder;
mod notes;

use tollgate::{PolicyQuota, Timestamp};
use tollgate_policy::{Attributes, Outcome, Policies, Policy, PolicyError, SentReading};

pub(super) use self::ladder::Charge;
use self::ladder::Ladder;
pub(super) use self::notes::notes;
use super::error::ReplayError;
use super::policies::quota::QuotaTrack;
use super::policies::{CLIENT, Tracks};
use super::{MAX_COUNTERS, Options, PolicyTrack};

/// Rungs at most, of all quotas together: each has a bit.
const MAX_RUNGS: usize = 32;

/// Memory for the counters of all rungs together, for each client that may be followed. If more is needed, the rungs
/// give no point, and a note tells it.
const BYTES_PER_CLIENT: usize = 160;

/// That of the most counters that a replay may have, and the least for these rungs.
const MAX_BYTES: usize = MAX_COUNTERS * 40;
const MIN_BYTES: usize = MAX_BYTES / 64;

/// Limits as shares of today's; of 10, if today's is 0.
const SHARES: [f64; 12] = [1.5, 0.5, 2.0, 0.75, 3.0, 0.25, 5.0, 0.9, 1.1, 8.0, 0.1, 1.25];

/// One quota under another limit.
pub(super) struct Rung {
    pub(super) track: usize,
    pub(super) quota: usize,
    pub(super) limit: u64,
    /// The policies with this limit, if it may matter for which of two lists of quotas is stricter.
    changed: Option<Policies>,
}

/// All rungs.
#[derive(Default)]
pub(super) struct Rungs {
    ladders: Vec<Ladder>,
    /// For each policy, in each role, the ladder by which its charges are decided.
    of_tracks: Vec<Option<usize>>,
    /// The ladder of the charges that have been asked for.
    asked: Option<usize>,
    /// Memory for the counters of all.
    max_bytes: usize,
}

/// What a rung denies.
pub(super) struct TriedLimit {
    pub(super) limit: u64,
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

fn limits(today: u64, count: usize) -> Vec<u64> {
    let whole = if today == 0 { 10.0 } else { today as f64 };
    let mut limits: Vec<u64> =
        SHARES.iter().map(|share| (share * whole).round() as u64).filter(|limit| *limit != today).collect();
    let mut seen = std::collections::HashSet::new();
    limits.retain(|limit| *limit > 0 && seen.insert(*limit));
    limits.truncate(count);
    limits
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
    /// Rungs for all quotas whose curves cannot be calculated: so many for each, and no more than there are bits in
    /// all. If there are more quotas than that, the first have one each.
    pub(super) fn new(policies: &Policies, tracks: &Tracks, options: &Options) -> Result<Self, ReplayError> {
        let wanted: Vec<UncalculatedQuota<'_>> =
            uncalculated(policies, tracks).filter(|quota| !quota.is_stated_by_requests).collect();
        let share = (MAX_RUNGS / wanted.len().max(1)).max(1);
        let limits_each = options.rungs.min(share).min(SHARES.len());
        let limits = wanted.iter().flat_map(|quota| {
            let limits = limits(quota.quota.quota().limit(), limits_each);
            limits.into_iter().map(move |limit| (quota, limit))
        });
        let limits: Vec<(&UncalculatedQuota<'_>, u64)> = limits.take(MAX_RUNGS).collect();
        let count = limits.len().max(1);
        let mut rungs = Vec::new();
        for (UncalculatedQuota { number, track, place, quota, .. }, limit) in limits {
            let policy = policies.as_slice().get(track.policy);
            let changed = policy.is_some_and(|policy| !policy.overrides().is_empty());
            let changed = changed.then(|| with_limit(policies, track.policy, quota, limit)).transpose()?;
            rungs.push((track.role, Rung { track: *number, quota: *place, limit, changed }));
        }
        let max_bytes =
            options.max_clients.get().saturating_mul(BYTES_PER_CLIENT).clamp(MIN_BYTES, MAX_BYTES);
        let max_words = |rungs: usize| max_bytes / size_of::<u64>() * rungs / count;
        let mut all = Self { max_bytes, of_tracks: tracks.iter().map(|_| None).collect(), ..Self::default() };
        let (deciding, on_trial): (Vec<_>, Vec<_>) =
            rungs.into_iter().partition(|(role, _)| role.is_enforced());
        let is_deciding = |number| tracks.of(number).is_some_and(|track| track.role.is_enforced());
        if !deciding.is_empty() {
            let rungs: Vec<Rung> = deciding.into_iter().map(|(_, rung)| rung).collect();
            let max_words = max_words(rungs.len());
            all.add(Ladder::new(rungs, tracks, is_deciding, max_words).with_totals(), is_deciding);
        }
        let mut on_trial = on_trial.into_iter().map(|(_, rung)| rung).peekable();
        while let Some(first) = on_trial.next() {
            let track = first.track;
            let mut rungs = vec![first];
            rungs.extend(std::iter::from_fn(|| on_trial.next_if(|rung| rung.track == track)));
            let (max_words, is_of) = (max_words(rungs.len()), |number| number == track);
            all.add(Ladder::new(rungs, tracks, is_of, max_words), is_of);
        }
        Ok(all)
    }

    /// Whether there are none, as usual: then nothing has to be asked.
    pub(super) const fn is_empty(&self) -> bool {
        self.ladders.is_empty()
    }

    fn add(&mut self, ladder: Ladder, is_of: impl Fn(usize) -> bool) {
        let number = self.ladders.len();
        let tracks = self.of_tracks.iter_mut().enumerate().filter(|(track, _)| is_of(*track));
        tracks.for_each(|(_, ladder)| *ladder = Some(number));
        self.ladders.push(ladder);
    }

    fn all(&self) -> impl Iterator<Item = &Rung> {
        self.ladders.iter().flat_map(|ladder| &ladder.rungs)
    }

    /// Those that have not decided on every request.
    fn lost(&self) -> impl Iterator<Item = &Rung> {
        self.ladders.iter().filter(|ladder| ladder.is_lost).flat_map(|ladder| &ladder.rungs)
    }

    fn ladder_of(&mut self, track: usize) -> Option<(usize, &mut Ladder)> {
        let number = self.of_tracks.get(track).copied().flatten()?;
        let ladder = self.ladders.get_mut(number).filter(|ladder| !ladder.is_lost)?;
        Some((number, ladder))
    }

    /// Asks each rung for room for a charge of a request.
    pub(super) fn ask(&mut self, charge: Charge<'_>, request: &Attributes<'_>, quota: &PolicyQuota) {
        let track = charge.track;
        let Some((number, ladder)) = self.ladder_of(track) else { return };
        let is_varied = ladder.rungs.iter().any(|rung| rung.track == track && rung.changed.is_some());
        if is_varied && SentReading::of(request).is_some() {
            let limits = ladder.rungs.iter().map(|rung| {
                let changed = rung.changed.as_ref().filter(|_| rung.track == track);
                let limit = changed.and_then(|changed| limit_of(changed, request, quota));
                limit.unwrap_or(charge.state.limit())
            });
            let limits: Vec<u64> = limits.collect();
            ladder.ask(charge, Some(&limits));
        } else {
            ladder.ask(charge, None);
        }
        self.asked = Some(number);
    }

    /// Decides on the request whose charges have been asked for, as [`Ladder::decide`] does.
    pub(super) fn decide(&mut self, now: Timestamp, client: Option<u32>, takes: bool) {
        let ladder = self.asked.take().and_then(|number| self.ladders.get_mut(number));
        if let Some(ladder) = ladder.filter(|ladder| !ladder.is_lost) {
            ladder.decide(now, client, takes);
        }
    }

    /// Notes a request that is denied without a count, whatever the limits are.
    pub(super) fn note_denial(&mut self, client: Option<u32>) {
        self.ladders.iter_mut().for_each(|ladder| ladder.note_denial(client));
    }

    /// What the rungs of a quota deny that have decided on every request.
    pub(super) fn tried(&self, track: usize, quota: usize) -> impl Iterator<Item = TriedLimit> {
        self.ladders.iter().filter(|ladder| !ladder.is_lost).flat_map(move |ladder| {
            let own = ladder.rungs.iter().enumerate();
            let own = own.filter(move |(_, rung)| (rung.track, rung.quota) == (track, quota));
            own.filter_map(|(place, rung)| {
                let (denied, total_denied) = (ladder.denied(place)?, ladder.total_denied(place));
                Some(TriedLimit { limit: rung.limit, denied, total_denied })
            })
        })
    }

    /// Prefetches the counters of a client under a quota.
    pub(super) fn prefetch(&self, track: usize, place: usize, digest: u128) {
        let ladder = self.of_tracks.get(track).copied().flatten().and_then(|ladder| self.ladders.get(ladder));
        ladder.into_iter().for_each(|ladder| ladder.prefetch(track, place, digest));
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

/// The limit of a quota for a request that two lists apply to, under changed policies.
fn limit_of(changed: &Policies, request: &Attributes<'_>, quota: &PolicyQuota) -> Option<u64> {
    let Ok(Outcome::Charge(matched)) = changed.charges(request, 1) else { return None };
    let on_trial = matched.trials().flat_map(|trial| trial.charges());
    let same = matched
        .enforced()
        .chain(on_trial)
        .find(|charge| charge.counter().quota().shares_counters_with(quota));
    same.map(|charge| charge.limit())
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
        for client in 0..clients {
            let ip = Ipv4Addr::from_bits(client).to_string();
            let attributes = [("ip", ip.as_str())].into_iter().collect();
            replay.request(Hit::new(Timestamp::EPOCH, attributes)).unwrap();
        }
        let taken: usize = replay.noter.rungs.ladders.iter().map(Ladder::words).sum();
        assert!(taken * size_of::<u64>() <= replay.noter.rungs.max_bytes, "{taken}");
        replay.report()
    }

    fn points(report: &Report) -> Vec<usize> {
        let quotas = report.policies.iter().flat_map(|policy| &policy.quotas);
        quotas.map(|quota| quota.curve.points.len()).collect()
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
        assert_eq!(points(&replay(&text, options(), 2_000)), [5; 8]);
        // Each has a counter of each quota under 32 limits, of 280 bytes.
        let report = replay(&text, options(), 13_000);
        assert_eq!(points(&report), [1; 8]);
        let note = "`p3` with 3 in place of 2/1d";
        let is_said =
            |said: &String| said.contains(note) && said.contains("There is room for 40 MiB of counters");
        let notes = report.notes.iter().map(ToString::to_string);
        assert_eq!(notes.filter(is_said).count(), 1, "{:?}", report.notes);
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
