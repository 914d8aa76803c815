//! Decisions on requests. They depend on nothing that is noted for the report, so another thread can make them ahead.

pub(crate) mod engine;

use tollgate::{ManualClock, Timestamp};
use tollgate_policy::{Identity, MatchedPolicies, Policies, PolicyDecision};

use self::engine::{Engine, matched};
use super::error::ReplayError;
use super::verdict::Verdict;
use super::{BATCH, PART};
use crate::followed::digest;
use crate::hit::Hit;
use crate::quoted::code;

/// The policies, and those to compare them with, under a clock that the requests drive.
pub(crate) struct Decider {
    clock: LogClock,
    engine: Engine,
    baseline: Option<Engine>,
    /// What identifies the clients of figures over all policies.
    client: Identity,
}

/// The clock of the engines.
struct LogClock {
    clock: ManualClock,
    now: Option<Timestamp>,
}

/// What was decided on a request.
pub(crate) struct DecidedRequest {
    /// The time at which it is replayed.
    pub(crate) now: Timestamp,
    /// The digest of its client's key.
    pub(crate) digest: Option<u128>,
    /// The decision, or why the service would answer with an error.
    pub(crate) decision: Result<PolicyDecision, String>,
    pub(crate) verdict: Verdict,
    /// What the policies to compare with make of it.
    pub(crate) before: Option<Verdict>,
}

/// Requests, and what was decided on them.
pub(crate) struct RequestPart<'h> {
    pub(crate) hits: Vec<Hit<'h>>,
    /// The decisions on these requests, up to an error. Before they are made, those on earlier requests, which the
    /// thread that decides drops: each holds an `Arc` of its policies.
    pub(crate) decided: Vec<DecidedRequest>,
    /// The reason why not all were decided on.
    pub(crate) error: Option<ReplayError>,
}

impl<'h> RequestPart<'h> {
    /// Takes the next requests, at most [`PART`].
    pub(crate) fn of(hits: &mut impl Iterator<Item = Hit<'h>>) -> Self {
        // A filtered iterator knows only an upper bound; without it, both would grow step by step.
        let count = hits.size_hint().1.unwrap_or(PART).min(PART);
        let mut part =
            Self { hits: Vec::with_capacity(count), decided: Vec::with_capacity(count), error: None };
        part.fill(hits);
        part
    }

    /// Takes the next requests in place of these, into the same memory.
    pub(crate) fn fill(&mut self, hits: &mut impl Iterator<Item = Hit<'h>>) {
        self.hits.clear();
        self.hits.extend(hits.take(PART));
    }

    /// Returns whether there were no more requests.
    pub(crate) const fn is_last(&self) -> bool {
        self.hits.len() < PART
    }
}

impl Decider {
    pub(crate) fn new(
        clock: ManualClock,
        engine: Engine,
        baseline: Option<Engine>,
        client: Identity,
    ) -> Self {
        Self { clock: LogClock { clock, now: None }, engine, baseline, client }
    }

    pub(crate) fn policies(&self) -> &Policies {
        self.engine.policies()
    }

    pub(crate) const fn is_comparing(&self) -> bool {
        self.baseline.is_some()
    }

    /// Decides on each request as of its time, in place of earlier decisions.
    pub(crate) fn decide(&mut self, part: &mut RequestPart<'_>) {
        let RequestPart { hits, decided, error } = part;
        decided.clear();
        let result = hits.chunks(BATCH).try_for_each(|hits| self.decide_some(hits, decided));
        *error = result.err();
    }

    /// Finds out what applies to all of these requests first, so that their counters are prefetched together.
    fn decide_some(
        &mut self,
        hits: &[Hit<'_>],
        decided: &mut Vec<DecidedRequest>,
    ) -> Result<(), ReplayError> {
        let Self { clock, engine, baseline, client } = self;
        let asked = || hits.iter().map(|hit| hit.damaged.is_none().then_some(&hit.attributes));
        let outcomes = engine.outcomes(asked());
        let baseline = baseline.as_ref().map(|baseline| (baseline, baseline.outcomes(asked())));
        for (place, (hit, outcome)) in hits.iter().zip(&outcomes).enumerate() {
            let now = clock.set(hit.time);
            let decision = match outcome {
                Some(outcome) => engine.decide(outcome)?.map_err(|error| error.to_string()),
                None => Err(format!("{} is not UTF-8", code(hit.damaged.unwrap_or_default()))),
            };
            let before = match &baseline {
                Some((baseline, outcomes)) => Some(match outcomes.get(place).and_then(Option::as_ref) {
                    Some(outcome) => Verdict::of(&baseline.decide(outcome)?),
                    None => Verdict::Undecided,
                }),
                None => None,
            };
            let (digest, verdict) =
                (digest_of(client, hit, outcome.as_ref().and_then(matched)), Verdict::of(&decision));
            decided.push(DecidedRequest { now, digest, decision, verdict, before });
        }
        Ok(())
    }
}

/// Returns the digest of the client's key. Most policies count by the same identity.
fn digest_of(client: &Identity, hit: &Hit<'_>, matched: Option<&MatchedPolicies<'_>>) -> Option<u128> {
    let known = matched.and_then(|matched| matched.key_of(client)).map(digest);
    known.or_else(|| client.key(&hit.attributes).ok().map(|key| digest(&key)))
}

impl LogClock {
    /// Time stands still where the log goes back.
    fn set(&mut self, time: Timestamp) -> Timestamp {
        let now = self.now.map_or(time, |now| now.max(time));
        if self.now != Some(now) {
            self.clock.set(now);
        }
        self.now = Some(now);
        now
    }
}
