//! The series that a caller counts under names of its own choice, so that their number is bounded.
//!
//! A caller who puts a user's name or an address into the name of its limits would start a new series for each of them.
//! The pairs of a name and a series that a caller has in use are remembered by digests, until one window's length (or that
//! of a longer block) or an hour has passed since their last use, whichever is shorter. So a deployment that renames limits of a day or a year
//! locks nobody out for as long.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tollgate::{PolicyQuota, WindowLength};

use crate::observe::stopwatch::Stopwatch;

/// The longest time that a pair is in use after its last use.
const LONGEST_USE: Duration = Duration::from_secs(60 * 60);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct CountedSeries {
    stopwatch: Stopwatch,
    pairs: Mutex<Vec<UsedPair>>,
}

/// A name and a series that are in use.
#[derive(Debug)]
struct UsedPair {
    /// Of the name and the series, with a random key of the process.
    digest: u128,
    /// When it is free, on the stopwatch.
    free_at: Duration,
}

/// Too many pairs are in use; the time until there is room for those that were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManySeries(pub(crate) Duration);

impl CountedSeries {
    /// The maximum number of pairs in use: far more than an application has limits.
    pub(crate) const MAX: usize = 64;

    pub(crate) fn new() -> Self {
        Self { stopwatch: Stopwatch::start(), pairs: Mutex::default() }
    }

    /// Notes that these quotas are used now, with a block of this length.
    ///
    /// # Errors
    ///
    /// If there were more than [`MAX`](Self::MAX) pairs in use then. Nothing is noted.
    pub(crate) fn note(&self, quotas: &[PolicyQuota], block: Option<Duration>) -> Result<(), TooManySeries> {
        self.note_at(self.stopwatch.elapsed(), quotas, block)
    }

    fn note_at(
        &self,
        now: Duration,
        quotas: &[PolicyQuota],
        block: Option<Duration>,
    ) -> Result<(), TooManySeries> {
        // Nothing that is done under the lock leaves half of it undone.
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.retain(|pair| pair.free_at > now);
        let is_known = |quota: &&PolicyQuota| pairs.iter().any(|pair| pair.digest == quota.scope_digest());
        let news = quotas.len() - quotas.iter().filter(is_known).count();
        // A request has at most eight quotas, so this many pairs can be free.
        let excess = (pairs.len() + news).saturating_sub(Self::MAX);
        if excess > 0 {
            // A pair that the request uses itself frees no room: if it is free, the request takes it again.
            let is_used = |pair: &&UsedPair| quotas.iter().any(|quota| quota.scope_digest() == pair.digest);
            let others = pairs.iter().filter(|pair| !is_used(pair));
            let mut free_at: Vec<Duration> = others.map(|pair| pair.free_at).collect();
            free_at.sort_unstable();
            let free_at = free_at.get(excess - 1).copied().unwrap_or_default();
            return Err(TooManySeries(free_at.saturating_sub(now)));
        }
        for quota in quotas {
            let (digest, free_at) = (quota.scope_digest(), now.saturating_add(length_of_use(quota, block)));
            match pairs.iter_mut().find(|pair| pair.digest == digest) {
                // Another length of its blocks ends none of those that live.
                Some(pair) => pair.free_at = free_at.max(pair.free_at),
                None => pairs.push(UsedPair { digest, free_at }),
            }
        }
        Ok(())
    }
}

/// Returns how long a pair of the quota's is in use after its last use. Windows of a calendar are longer than an hour.
fn length_of_use(quota: &PolicyQuota, block: Option<Duration>) -> Duration {
    match quota.quota().window() {
        WindowLength::Fixed(length) => length.max(block.unwrap_or_default()).min(LONGEST_USE),
        _ => LONGEST_USE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn quotas(name: &str, written: &[&str]) -> Vec<PolicyQuota> {
        written.iter().map(|quota| PolicyQuota::new(name, quota.parse().unwrap())).collect()
    }

    #[test]
    fn the_65th_pair_waits_until_another_is_free() {
        let series = CountedSeries::new();
        let note = |seconds: u32, name: &str, written: &[&str]| {
            series.note_at(SECOND * seconds, &quotas(name, written), None).map_err(|TooManySeries(wait)| wait)
        };
        for name in 0..64 {
            assert_eq!(note(name, &format!("name-{name}"), &["5/100s"]), Ok(()));
        }
        // A further name, and a further series of a name.
        assert_eq!(note(64, "another", &["5/100s"]), Err(SECOND * 36));
        assert_eq!(note(64, "name-63", &["5/100s@first_hit"]), Err(SECOND * 36));
        // A pair that the request uses itself frees no room for it.
        assert_eq!(note(64, "name-0", &["5/100s", "5/1s"]), Err(SECOND * 37));
        // Two of three are new: the first two have to be free.
        assert_eq!(note(64, "name-63", &["5/100s", "5/1s", "5/2s"]), Err(SECOND * 37));
        // A limit belongs to no pair, and a use keeps a pair for longer.
        assert_eq!(note(64, "name-0", &["7/100s"]), Ok(()));
        assert_eq!(note(99, "another", &["5/100s"]), Err(SECOND * 2));
        assert_eq!(note(101, "another", &["5/100s"]), Ok(()));
        assert_eq!(note(101, "one-more", &["5/100s"]), Err(SECOND));
        assert_eq!(note(102, "one-more", &["5/100s"]), Ok(()));
        assert_eq!(series.pairs.lock().unwrap().len(), 64);
    }

    /// A name was free after a window of a second, though its blocks lived for years.
    #[test]
    fn a_block_keeps_its_pair_in_use() {
        let series = CountedSeries::new();
        let limits = quotas("login", &["0/1s"]);
        let free_after = |block: Duration| {
            series.note_at(SECOND, &limits, Some(block)).unwrap();
            // A shorter block, or none, ends none of those that live.
            series.note_at(SECOND, &limits, None).unwrap();
            let pairs = series.pairs.lock().unwrap();
            pairs.first().map(|pair| pair.free_at.saturating_sub(SECOND))
        };
        let lengths = [SECOND / 2, SECOND * 30, SECOND * 9_999_999];
        assert_eq!(lengths.map(free_after), [SECOND, SECOND * 30, LONGEST_USE].map(Some));
    }

    #[test]
    fn a_refused_request_uses_nothing() {
        let series = CountedSeries::new();
        for name in 0..63 {
            series.note_at(SECOND, &quotas(&format!("name-{name}"), &["5/1m"]), None).unwrap();
        }
        assert!(series.note_at(2 * SECOND, &quotas("two", &["5/1m", "5/1h"]), None).is_err());
        assert_eq!(series.note_at(2 * SECOND, &quotas("one", &["5/1m"]), None), Ok(()));
    }

    #[test]
    fn a_pair_is_in_use_for_an_hour_at_most() {
        let series = CountedSeries::new();
        let written = ["5/year@UTC", "5/day@Europe/Berlin", "5/30d@first_hit", "5/1h"];
        for name in 0..64 {
            let quota = written[name % written.len()];
            series.note_at(SECOND, &quotas(&format!("name-{name}"), &[quota]), None).unwrap();
        }
        let renamed = quotas("renamed", &["5/year@UTC"]);
        assert_eq!(series.note_at(2 * SECOND, &renamed, None), Err(TooManySeries(3599 * SECOND)));
        assert_eq!(series.note_at(3601 * SECOND, &renamed, None), Ok(()));
    }
}
