//! Other limits, tried by the engine itself: one rung is one quota under one other limit.
//!
//! Where several quotas go together, where requests cost more than one unit or denied ones are counted, what a limit
//! denies cannot be calculated from the windows of that quota alone.

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use tollgate::{ManualClock, PolicyQuota, Timestamp};
use tollgate_policy::{Policies, Policy, PolicyError};

use super::bits::Bits;
use super::engine::{Engine, is_denied_by};
use super::error::ReplayError;
use super::policy_track::{CLIENT, Tracks};
use super::quota_track::QuotaTrack;
use super::{ClientNumbers, Hit, MAX_COUNTERS, Options, PolicyTrack, Role};
use crate::code;
use crate::output::number::counted;

/// Rungs at most, of all quotas together: each takes as much work as the replay itself.
const MAX_RUNGS: usize = 32;

/// Counters of all rungs together for each client that may be followed, some 40 bytes each. Each rung has the same share: with
/// some allocators, a table takes the memory of all its counters at once, and what it gives back is not free for others. A
/// rung that needs more gives no point, and a note tells it.
const COUNTERS_PER_CLIENT: usize = 4;

/// With fewer decisions, waking another thread is not worth it.
const WORTH_A_THREAD: usize = 1_024;

/// Limits as shares of today's; of 10, if today's is 0.
const SHARES: [f64; 12] = [1.5, 0.5, 2.0, 0.75, 3.0, 0.25, 5.0, 0.9, 1.1, 8.0, 0.1, 1.25];

/// One quota under another limit.
pub(super) struct Rung {
    pub(super) track: usize,
    pub(super) quota: usize,
    pub(super) limit: u64,
    /// Requests that its policy denied, and their clients by the policy's key.
    pub(super) denied: u64,
    clients: Bits,
    /// Requests that all policies together denied, and their clients.
    pub(super) total_denied: u64,
    total_clients: Bits,
    /// `None` once there was no room for its counters. Then it says nothing.
    engine: Option<Engine>,
    clock: ManualClock,
    policy: usize,
    role: Role,
}

/// All rungs.
#[derive(Default)]
pub(super) struct Rungs {
    rungs: Vec<Rung>,
    /// Counters of each at most.
    max_counters: usize,
}

/// A request that the rungs have still to decide on.
pub(super) struct Untried {
    pub(super) now: Timestamp,
    pub(super) numbers: ClientNumbers,
}

/// A quota whose curve cannot be calculated.
struct Uncalculated<'a> {
    number: usize,
    track: &'a PolicyTrack,
    place: usize,
    quota: &'a PolicyQuota,
    /// Whether requests state the limit, so that there is no other one to try.
    is_stated_by_requests: bool,
}

/// Those that are not of an override.
fn uncalculated<'a>(policies: &'a Policies, tracks: &'a Tracks) -> impl Iterator<Item = Uncalculated<'a>> {
    tracks.iter().enumerate().flat_map(move |(number, track)| {
        let policy = policies.as_slice().get(track.policy).filter(|_| !track.is_calculable);
        let quotas = track.quotas.iter().enumerate().filter(|(_, quota)| quota.of_override.is_none());
        let quotas =
            quotas.filter_map(move |(place, QuotaTrack { quota, .. })| Some((place, quota, policy?)));
        quotas.map(move |(place, quota, policy)| Uncalculated {
            number,
            track,
            place,
            quota,
            is_stated_by_requests: is_limited_by_requests(policy),
        })
    })
}

/// Says which quotas have been tried under their own limits alone, and why.
pub(super) fn notes(policies: &Policies, tracks: &Tracks, rungs: &Rungs, asked: usize) -> Vec<String> {
    let (stated, wanted): (Vec<_>, Vec<_>) =
        uncalculated(policies, tracks).partition(|quota| quota.is_stated_by_requests);
    let is_tried = |quota: &&Uncalculated<'_>| {
        rungs.rungs.iter().any(|rung| (rung.track, rung.quota) == (quota.number, quota.place))
    };
    let tried = wanted.iter().filter(is_tried).count();
    let mut notes = Vec::new();
    if asked == 0 && !wanted.is_empty() {
        notes.push(
            "Where several quotas decide together, only the policies' limit was tried; --try-limits tries others."
                .to_owned(),
        );
    } else if tried < wanted.len() {
        notes.push(format!(
            "Other limits were tried for {tried} of {} quotas that do not decide alone: each try takes as much \
             work as the replay itself, so there are at most {MAX_RUNGS}.",
            wanted.len()
        ));
    }
    let lost = rungs.rungs.iter().filter(|rung| rung.is_lost()).filter_map(|rung| {
        let track = tracks.of(rung.track)?;
        let policy = policies.as_slice().get(track.policy)?;
        let quota = track.quotas.get(rung.quota)?.quota.quota();
        Some(format!("{} with {} in place of {quota}", code(&track.role.title(policy.name())), rung.limit))
    });
    let lost: Vec<String> = lost.collect();
    if !lost.is_empty() {
        notes.push(format!(
            "Limits for whose counters there was no room are missing from the curves: {}. There is room for {} of each; a \
             smaller --try-limits or a greater --max-clients leaves more.",
            lost.join(", "),
            counted(rungs.max_counters as u64, "counter")
        ));
    }
    let of_overrides = tracks.iter().flat_map(|track| &track.quotas);
    let of_overrides = of_overrides.filter(|quota| quota.of_override.is_some() && quota.requests > 0).count();
    if of_overrides > 0 {
        notes.push(format!(
            "No other limits were tried for {} of overrides. They keep their limits while others are tried for their policy.",
            counted(of_overrides as u64, "quota")
        ));
    }
    if !stated.is_empty() {
        notes.push("No other limits were tried for limits that come from requests.".to_owned());
    }
    notes
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

impl Untried {
    /// Gives the client of this kind of key the number that it has now, if it is kept.
    pub(super) fn keep(&mut self, subject: usize, kept: &[u32]) {
        let Some(Some(number)) = self.numbers.get_mut(subject) else { return };
        let kept = number.and_then(|number| kept.binary_search(&number).ok());
        *number = kept.and_then(|number| u32::try_from(number).ok());
    }
}

impl Rungs {
    /// Rungs for all quotas whose curves cannot be calculated: so many for each, and no more than a few engines in all. If
    /// there are more quotas than that, the first have one each.
    pub(super) fn new(policies: &Policies, tracks: &Tracks, options: &Options) -> Result<Self, ReplayError> {
        let wanted: Vec<Uncalculated<'_>> =
            uncalculated(policies, tracks).filter(|quota| !quota.is_stated_by_requests).collect();
        let share = (MAX_RUNGS / wanted.len().max(1)).max(1);
        let of_each = options.rungs.min(share).min(SHARES.len());
        let limits = wanted.iter().flat_map(|quota| {
            let limits = limits(quota.quota.quota().limit(), of_each);
            limits.into_iter().map(move |limit| (quota, limit))
        });
        let limits: Vec<(&Uncalculated<'_>, u64)> = limits.take(MAX_RUNGS).collect();
        let max_counters = options.max_clients.get().saturating_mul(COUNTERS_PER_CLIENT);
        let max_counters = max_counters.clamp(MAX_COUNTERS / 64, MAX_COUNTERS) / limits.len().max(1);
        let mut rungs = Vec::new();
        for (Uncalculated { number, track, place, quota, .. }, limit) in limits {
            let (changed, clock) =
                (with_limit(policies, track.policy, quota, limit)?, ManualClock::default());
            rungs.push(Rung {
                track: *number,
                quota: *place,
                limit,
                denied: 0,
                clients: Bits::default(),
                total_denied: 0,
                total_clients: Bits::default(),
                engine: Some(Engine::new(changed, &clock, max_counters, options.max_attribute_bytes)),
                clock,
                policy: track.policy,
                role: track.role,
            });
        }
        Ok(Self { rungs, max_counters })
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rungs.is_empty()
    }

    /// Calls back with each rung that still decides, for so many requests. If these are many, several threads share the
    /// rungs.
    pub(super) fn each(&mut self, requests: usize, decide: impl Fn(&mut Rung) + Send + Sync) {
        let is_many = requests * self.rungs.len() >= WORTH_A_THREAD;
        let deciding = self.rungs.iter_mut().filter(|rung| !rung.is_lost());
        if is_many {
            deciding.collect::<Vec<_>>().into_par_iter().for_each(decide);
        } else {
            deciding.for_each(decide);
        }
    }

    /// Those of a policy that have decided on every request.
    pub(super) fn whole(&self, track: usize) -> impl Iterator<Item = &Rung> {
        self.rungs.iter().filter(move |rung| rung.track == track && !rung.is_lost())
    }

    /// Keeps the clients that had these numbers, of policies that count by this kind of key.
    pub(super) fn keep(&mut self, subject: usize, tracks: &Tracks, kept: &[u32]) {
        for rung in &mut self.rungs {
            if tracks.of(rung.track).is_some_and(|track| track.subject == subject) {
                rung.clients.keep(kept);
            }
            if subject == CLIENT {
                rung.total_clients.keep(kept);
            }
        }
    }
}

impl Rung {
    /// Whether it has not decided on every request.
    const fn is_lost(&self) -> bool {
        self.engine.is_none()
    }

    /// Decides on these requests, unless they came to no decision. `subject` is the kind of key of its clients.
    pub(super) fn decide(&mut self, hits: &[Hit<'_>], untried: &[Option<Untried>], subject: usize) {
        let Some(engine) = self.engine.take() else { return };
        let asked = hits.iter().zip(untried);
        let outcomes =
            engine.outcomes(asked.map(|(hit, untried)| untried.is_some().then_some(&hit.attributes)));
        for (outcome, untried) in outcomes.iter().zip(untried) {
            let (Some(outcome), Some(Untried { now, numbers })) = (outcome, untried) else { continue };
            self.clock.set(*now);
            let decision = match engine.decide(outcome) {
                Ok(Ok(decision)) => decision,
                // The replay itself counts those.
                Ok(Err(_)) => continue,
                // From now on it is lost.
                Err(_) => return,
            };
            let client = |subject: usize| numbers.get(subject).copied().flatten().flatten();
            let policy = engine.policies().as_slice().get(self.policy);
            if policy.is_some_and(|policy| is_denied_by(&decision, policy, self.role)) {
                self.denied += 1;
                client(subject).into_iter().for_each(|client| self.clients.insert(client));
            }
            if !decision.is_allowed() {
                self.total_denied += 1;
                client(CLIENT).into_iter().for_each(|client| self.total_clients.insert(client));
            }
        }
        drop(outcomes);
        self.engine = Some(engine);
    }

    pub(super) fn denied_clients(&self) -> u64 {
        self.clients.count()
    }

    pub(super) fn total_denied_clients(&self) -> u64 {
        self.total_clients.count()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tollgate_policy::Config;

    use super::*;
    use crate::Replay;

    /// Each of up to 32 rungs had memory for eight million counters, so overlapping policies took gigabytes under the flags
    /// that keep others below one and a half.
    #[test]
    fn all_together_take_bounded_memory() {
        let text: String = (0..4)
            .map(|number| format!("  - {{ name: p{number}, key: [ip], quotas: [2/1d, 9/7d] }}\n"))
            .collect();
        let policies = Config::parse("test.yaml", &format!("policies:\n{text}")).unwrap().into_policies();
        let max_clients = std::num::NonZeroUsize::new(1_000).unwrap();
        let mut replay =
            Replay::new(policies, None, Options { max_clients, rungs: 4, ..Options::default() }).unwrap();
        let engines = replay.noter.rungs.rungs.iter().filter_map(|rung| rung.engine.as_ref());
        let caps: Vec<usize> = engines.map(Engine::max_counters).collect();
        assert_eq!((caps.len(), caps.iter().sum::<usize>()), (32, 1 << 20));
        for client in 0..5_000 {
            let ip = Ipv4Addr::from_bits(client).to_string();
            let attributes = [("ip", ip.as_str())].into_iter().collect();
            replay.request(crate::Hit::new(Timestamp::EPOCH, attributes)).unwrap();
        }
        // Each has a counter of each quota and client, and there is room for 32,768.
        let report = replay.report();
        let quotas = report.policies.iter().flat_map(|policy| &policy.quotas);
        assert_eq!(quotas.map(|quota| quota.curve.points.len()).collect::<Vec<_>>(), [1; 8]);
        let note = "`p3` with 3 in place of 2/1d";
        let told = |said: &&String| {
            said.contains(note) && said.contains("There is room for 32,768 counters of each")
        };
        assert_eq!(report.notes.iter().filter(told).count(), 1, "{:?}", report.notes);
    }

    /// Their points were missing from the curve, and nobody was told why.
    #[test]
    fn limits_that_run_out_of_counters_are_said_to_be_left_out() {
        let text = "policies: [{ name: a, key: [ip], quotas: [2/1m, 10/1h] }]";
        let policies = || Config::parse("test.yaml", text).unwrap().into_policies();
        let options = Options { rungs: 1, ..Options::default() };
        let max_bytes = options.max_attribute_bytes;
        let mut replay = Replay::new(policies(), None, options).unwrap();
        let rung = &mut replay.noter.rungs.rungs[0];
        rung.engine = Some(Engine::new(policies(), &rung.clock, 1, max_bytes));
        for client in 0..1_000 {
            let ip = Ipv4Addr::from_bits(client).to_string();
            let attributes = [("ip", ip.as_str())].into_iter().collect();
            replay.request(crate::Hit::new(Timestamp::EPOCH, attributes)).unwrap();
        }
        let report = replay.report();
        let points: Vec<usize> =
            report.policies[0].quotas.iter().map(|quota| quota.curve.points.len()).collect();
        assert_eq!(points, [1, 2]);
        let note = "Limits for whose counters there was no room are missing from the curves: `a` with 3 in place of 2/1m. There is \
                    room for 4,000,000 counters of each; a smaller --try-limits or a greater --max-clients leaves more.";
        assert!(report.notes.iter().any(|said| said == note), "{:?}", report.notes);
    }
}
