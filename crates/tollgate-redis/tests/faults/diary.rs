//! What became of charges, counter by counter, and what that says of the promises.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::QuotaStates;
use tollgate_redis::RedisError;

use crate::fault::Found;

/// What became of the charges of one who asks.
#[derive(Debug, Default)]
pub(crate) struct Diary {
    pub(crate) tallies: BTreeMap<(Kind, String), Tally>,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) took: Vec<Duration>,
    pub(crate) violations: Vec<String>,
}

/// What became of the charges of one key, a unit each.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) admitted: u64,
    /// Perhaps counted.
    pub(crate) unknown: u64,
    pub(crate) denied: u64,
}

impl Diary {
    /// Takes note of one answer. Gives the units used, if it came.
    pub(crate) fn note(
        &mut self,
        kind: Kind,
        key: &str,
        answer: Result<QuotaStates, RedisError>,
    ) -> Option<u64> {
        let tally = self.tallies.entry((kind, key.to_owned())).or_default();
        match answer {
            Ok(counted) => {
                *(if counted.is_admitted() { &mut tally.admitted } else { &mut tally.denied }) += 1;
                return Some(counted[0].used());
            }
            Err(error) => {
                tally.unknown += u64::from(error.may_have_charged());
                *self.errors.entry(format!("{error:?}")).or_default() += 1;
            }
        }
        None
    }

    pub(crate) fn add(&mut self, other: Self) {
        for (key, tally) in other.tallies {
            let sum = self.tallies.entry(key).or_default();
            sum.admitted += tally.admitted;
            sum.unknown += tally.unknown;
            sum.denied += tally.denied;
        }
        for (error, count) in other.errors {
            *self.errors.entry(error).or_default() += count;
        }
        self.took.extend(other.took);
        self.violations.extend(other.violations);
    }
}

/// Under which quotas a key is charged; under all of them or under none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// One that never runs out.
    Lone,
    /// Two that never run out.
    Twins,
    /// Two, of which one soon does.
    Narrow,
}

impl Tally {
    /// No more than can have been asked for.
    pub(crate) const fn most(&self) -> u64 {
        self.admitted + self.unknown
    }

    /// G1, G6, G7: what was used in the end is what was acknowledged, and some of what is unknown. A server that
    /// has lost its data so many times may have admitted the limit again after each, and counts less.
    pub(crate) fn check(&self, what: &str, used: u64, limit: u64, losses: u64, found: &mut Found) {
        found.expect(used <= self.most(), || format!("{what}: counted twice, {used} used: {self:?} (G7)"));
        found.expect(used <= limit, || format!("{what}: limit {limit}, {used} used (G1)"));
        found.expect(self.admitted <= limit.saturating_mul(1 + losses), || {
            format!("{what}: limit {limit} and {losses} losses: {self:?} (G1)")
        });
        found.expect(self.denied == 0 || self.most() >= limit, || {
            format!("{what}: denied while there was room: {self:?} (G6)")
        });
        if losses == 0 {
            found.expect(used >= self.admitted, || format!("{what}: forgotten, {used} used: {self:?}"));
            found.expect(self.denied == 0 || used == limit, || {
                format!("{what}: denied at {used} of {limit}: {self:?} (G6)")
            });
        }
    }
}
