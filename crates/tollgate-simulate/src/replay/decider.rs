//! Decisions on requests. They depend on nothing that is noted for the report, so a second thread can make them ahead.

use smallvec::SmallVec;
use tollgate::{Counter, Key, ManualClock, PolicyQuota, Timestamp};
use tollgate_policy::{Identity, Policies, PolicyDecision};

use super::engine::Engine;
use super::error::ReplayError;
use super::outcome::Verdict;
use super::subjects::digest;
use super::{BATCH, Hit};
use crate::code;

/// The policies, and those to compare them with, under a clock that the requests drive.
pub(super) struct Decider {
    clock: ManualClock,
    now: Option<Timestamp>,
    engine: Engine,
    baseline: Option<Engine>,
    /// What identifies the clients of figures over all policies.
    client: Identity,
    /// Quotas that count by it, if they are few: most requests have one of them.
    near: Vec<PolicyQuota>,
}

/// What was decided on a request.
pub(super) struct Decided {
    /// The time at which it is replayed.
    pub(super) now: Timestamp,
    /// The digest of its client's key.
    pub(super) digest: Option<u128>,
    /// The decision, or why the service would answer with an error.
    pub(super) decision: Result<PolicyDecision, String>,
    pub(super) verdict: Verdict,
    /// What the policies to compare with make of it.
    pub(super) before: Option<Verdict>,
}

/// Requests, and what was decided on them.
pub(super) struct Part<'h> {
    pub(super) hits: Vec<Hit<'h>>,
    /// In case of an error, those on the requests before it.
    pub(super) decided: Vec<Decided>,
    pub(super) result: Result<(), ReplayError>,
}

impl Decider {
    pub(super) fn new(
        clock: ManualClock,
        engine: Engine,
        baseline: Option<Engine>,
        client: Identity,
        near: Vec<PolicyQuota>,
    ) -> Self {
        Self { clock, now: None, engine, baseline, client, near }
    }

    pub(super) fn policies(&self) -> &Policies {
        self.engine.policies()
    }

    pub(super) const fn is_comparing(&self) -> bool {
        self.baseline.is_some()
    }

    /// Decides on each request as of its time.
    pub(super) fn decide<'h>(&mut self, hits: Vec<Hit<'h>>) -> Part<'h> {
        let mut decided = Vec::with_capacity(hits.len());
        let result = hits.chunks(BATCH).try_for_each(|hits| {
            let digests = self.digests(hits);
            hits.iter().zip(digests).try_for_each(|(hit, digest)| {
                decided.push(self.decide_one(hit, digest)?);
                Ok(())
            })
        });
        Part { hits, decided, result }
    }

    /// Returns the digests of the clients' keys, and prefetches their counters.
    fn digests(&self, hits: &[Hit<'_>]) -> SmallVec<[Option<u128>; BATCH]> {
        let keys = hits.iter().map(|hit| self.client.key(&hit.attributes).ok());
        let keys: SmallVec<[Option<Key<'_>>; BATCH]> = keys.collect();
        if hits.len() > 1 {
            let counters = |key| self.near.iter().map(move |quota| Counter::new(quota, key));
            for engine in self.baseline.iter().chain([&self.engine]) {
                engine.prefetch(keys.iter().flatten().flat_map(counters));
            }
        }
        keys.iter().map(|key| key.as_ref().map(digest)).collect()
    }

    fn decide_one(&mut self, hit: &Hit<'_>, digest: Option<u128>) -> Result<Decided, ReplayError> {
        let now = self.set_clock(hit.time);
        if let Some(name) = hit.damaged {
            // No policy is asked.
            let before = self.baseline.as_ref().map(|_| Verdict::Undecided);
            let decision = Err(format!("{} is not UTF-8", code(name)));
            return Ok(Decided { now, digest, decision, verdict: Verdict::Undecided, before });
        }
        let decision = self.engine.decide(&hit.attributes)?;
        let verdict = Verdict::of(&decision);
        let before = match &self.baseline {
            Some(baseline) => Some(Verdict::of(&baseline.decide(&hit.attributes)?)),
            None => None,
        };
        let decision = decision.map_err(|error| error.to_string());
        Ok(Decided { now, digest, decision, verdict, before })
    }

    /// Time stands still where the log goes back.
    fn set_clock(&mut self, time: Timestamp) -> Timestamp {
        let now = self.now.map_or(time, |now| now.max(time));
        if self.now != Some(now) {
            self.clock.set(now);
        }
        self.now = Some(now);
        now
    }
}
