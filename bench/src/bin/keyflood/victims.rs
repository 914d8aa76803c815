//! Keys that use up their limit before the flood, and must stay denied.

use anyhow::{Result, ensure};
use tollgate::{Clock, Limiter};

pub(crate) const LIMIT: u32 = 10;

const COUNT: usize = 1_000;

pub(crate) struct Victims(Vec<String>);

impl Victims {
    pub(crate) fn at_their_limit<C: Clock>(limiter: &Limiter<C>) -> Result<Self> {
        let victims: Vec<String> = (0..COUNT).map(|victim| format!("tenant-17:victim:{victim:07}")).collect();
        for victim in &victims {
            ensure!(limiter.check_cost(victim.as_str(), LIMIT)?.is_allowed(), "{victim} is not new");
        }
        Ok(Self(victims))
    }

    /// Checks this many victims in turn, starting with `first`. Returns how many were not denied: either admitted,
    /// because their counter was lost, or without an answer, because it was lost and the store is full.
    pub(crate) fn resets<C: Clock>(&self, limiter: &Limiter<C>, first: usize, count: usize) -> usize {
        let victims = self.0.iter().cycle().skip(first % COUNT).take(count);
        let is_denied = |victim: &str| limiter.check(victim).is_ok_and(|decision| !decision.is_allowed());
        victims.filter(|victim| !is_denied(victim)).count()
    }

    pub(crate) fn resets_of_all<C: Clock>(&self, limiter: &Limiter<C>) -> usize {
        self.resets(limiter, 0, COUNT)
    }
}
