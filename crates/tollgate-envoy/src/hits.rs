//! Hits of limits, counted as envoyproxy/ratelimit counts them for its metrics.
//!
//! Labels are names of the configuration. Where it asks for values of requests (`detailed_metric`, `value_to_metric`),
//! clients could create an unlimited number of series, and so could descriptors that bring limits, whose keys are the
//! labels. So the number of such series in a domain is bounded, and so is the length of labels.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::series::{Series, sanitized, shortened};

/// The share of a limit from which hits are near it: 0.8 by default in envoyproxy/ratelimit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NearLimit(pub f32);

/// Units requested under a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HitCounts {
    /// All of them.
    pub total_hits: u64,
    /// Those of descriptors whose limit had room.
    pub within_limit: u64,
    /// Those that the limit had no room for.
    pub over_limit: u64,
    /// Those between [`NearLimit`] and the limit.
    pub near_limit: u64,
    /// Of those over the limit, the ones that were denied without asking the store.
    pub over_limit_with_local_cache: u64,
    /// Of those over the limit, the ones that were admitted because the limit is in shadow mode.
    pub shadow_mode: u64,
}

/// Counters of one series. Every access is relaxed: each count is independent and guards no other memory.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    total_hits: AtomicU64,
    within_limit: AtomicU64,
    over_limit: AtomicU64,
    near_limit: AtomicU64,
    over_limit_with_local_cache: AtomicU64,
    shadow_mode: AtomicU64,
}

/// All series. Those of limits that stay are kept when limits are replaced, so that no counter steps back.
#[derive(Debug)]
pub(crate) struct HitTable {
    near_limit: NearLimit,
    /// Locked where files are read and metrics are written, and by requests whose values are labels.
    series: Mutex<SeriesTable>,
}

#[derive(Debug, Default)]
struct SeriesTable {
    hits: HashMap<Series, CountedSeries>,
    /// The number of series named by requests, by domain.
    requested_counts: HashMap<Box<str>, usize>,
    /// The number of descriptors in domains that no file has.
    not_found: BTreeMap<Box<str>, u64>,
}

#[derive(Debug, Default)]
struct CountedSeries {
    hits: Arc<Hits>,
    /// The limit, by the names of its levels; `None` if it stays as long as its domain.
    limit: Option<Series>,
    is_of_request: bool,
}

impl HitTable {
    /// The maximum number of series per domain that are named by requests.
    const MAX_OF_REQUESTS: usize = 1_000;

    pub(crate) fn new(near_limit: NearLimit) -> Self {
        Self { near_limit, series: Mutex::default() }
    }

    /// Returns the number of units from which hits are near this limit.
    pub(crate) fn near(&self, limit: u64) -> u64 {
        // As there, in floats of 32 bits: the threshold of a limit is the same.
        (limit as f32 * self.near_limit.0).floor() as u64
    }

    /// Returns the counters of a series that the configuration names.
    pub(crate) fn configured(&self, series: Series) -> Arc<Hits> {
        let mut table = self.table();
        let counted = table.hits.entry(series.clone()).or_default();
        (counted.limit, counted.is_of_request) = (Some(series), false);
        Arc::clone(&counted.hits)
    }

    /// Returns the counters of a series that a request names, or those for all that are too many. `limit` is the limit
    /// by the names of its levels; `None` if it came with the request.
    pub(crate) fn of_request(&self, series: Series, limit: Option<&Series>) -> Arc<Hits> {
        let mut table = self.table();
        let SeriesTable { hits, requested_counts, .. } = &mut *table;
        if let Some(known) = hits.get(&series) {
            return Arc::clone(&known.hits);
        }
        let count = requested_counts.entry(series.domain.clone()).or_default();
        if *count == Self::MAX_OF_REQUESTS {
            return Arc::clone(&hits.entry(Series::others(series.domain)).or_default().hits);
        }
        *count += 1;
        let counted =
            CountedSeries { limit: limit.cloned(), is_of_request: true, ..CountedSeries::default() };
        Arc::clone(&hits.entry(series).or_insert(counted).hits)
    }

    /// Counts descriptors in a domain that no file has, or among those of all that are too many.
    pub(crate) fn domain_not_found(&self, domain: &str, descriptors: usize) {
        let mut table = self.table();
        let domain = sanitized(shortened(domain)).into_boxed_str();
        let is_full =
            table.not_found.len() >= Self::MAX_OF_REQUESTS && !table.not_found.contains_key(&domain);
        *table.not_found.entry(if is_full { "other".into() } else { domain }).or_default() +=
            descriptors as u64;
    }

    /// The number of descriptors in each domain that no file has.
    pub(crate) fn domains_not_found(&self) -> Vec<(Box<str>, u64)> {
        self.table().not_found.iter().map(|(domain, count)| (domain.clone(), *count)).collect()
    }

    /// Drops the series of all other limits, and those of removed domains.
    pub(crate) fn keep(&self, limits: &HashSet<&Series>, domains: &HashSet<Box<str>>) {
        let mut table = self.table();
        let SeriesTable { hits, requested_counts, .. } = &mut *table;
        hits.retain(|series, counted| match &counted.limit {
            Some(limit) => limits.contains(limit),
            None => domains.contains(&series.domain),
        });
        requested_counts.clear();
        for (series, _) in hits.iter().filter(|(_, counted)| counted.is_of_request) {
            *requested_counts.entry(series.domain.clone()).or_default() += 1;
        }
    }

    /// All counts, in the order of their labels.
    pub(crate) fn counts(&self) -> Vec<(Series, HitCounts)> {
        let mut counts: Vec<_> = self
            .table()
            .hits
            .iter()
            .map(|(series, counted)| (series.clone(), counted.hits.counts()))
            .collect();
        counts.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        counts
    }

    fn table(&self) -> std::sync::MutexGuard<'_, SeriesTable> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hits {
    pub(crate) fn add(&self, more: &HitCounts) {
        let HitCounts {
            total_hits,
            within_limit,
            over_limit,
            near_limit,
            over_limit_with_local_cache,
            shadow_mode,
        } = *more;
        for (counter, more) in [
            (&self.total_hits, total_hits),
            (&self.within_limit, within_limit),
            (&self.over_limit, over_limit),
            (&self.near_limit, near_limit),
            (&self.over_limit_with_local_cache, over_limit_with_local_cache),
            (&self.shadow_mode, shadow_mode),
        ] {
            if more > 0 {
                counter.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    fn counts(&self) -> HitCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HitCounts {
            total_hits: of(&self.total_hits),
            within_limit: of(&self.within_limit),
            over_limit: of(&self.over_limit),
            near_limit: of(&self.near_limit),
            over_limit_with_local_cache: of(&self.over_limit_with_local_cache),
            shadow_mode: of(&self.shadow_mode),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::level;

    #[test]
    fn unknown_domains_are_counted_by_name_and_bounded() {
        let table = HitTable::new(NearLimit(0.8));
        (0..2 * HitTable::MAX_OF_REQUESTS)
            .for_each(|number| table.domain_not_found(&format!("d:{number}"), 2));
        let counts = table.domains_not_found();
        assert_eq!((counts.len(), &counts[0]), (HitTable::MAX_OF_REQUESTS + 1, &("d_0".into(), 2)));
        assert_eq!(counts.last(), Some(&("other".into(), 2 * HitTable::MAX_OF_REQUESTS as u64)));
    }

    #[test]
    fn series_of_requests_are_bounded_by_domain_and_those_of_files_are_not() {
        let table = HitTable::new(NearLimit(0.8));
        let of = |domain, key: usize| Series::new(domain, [level("user", &key.to_string())]);
        let series = |key| of("d", key);
        let one = HitCounts { total_hits: 1, ..HitCounts::default() };
        (0..3_000).for_each(|key| table.of_request(series(key), None).add(&one));
        (0..3_000).for_each(|key| table.of_request(series(key), None).add(&one));
        let counts = table.counts();
        assert_eq!(counts.len(), HitTable::MAX_OF_REQUESTS + 1);
        assert_eq!(counts[0], (Series::others("d".into()), HitCounts { total_hits: 4_000, ..one }));
        assert!(counts[1..].iter().all(|(_, counts)| counts.total_hits == 2));
        table.configured(series(3_000)).add(&one);
        assert_eq!(table.counts().len(), HitTable::MAX_OF_REQUESTS + 2);
        table.of_request(of("e", 0), None).add(&one);
        assert_eq!(table.counts().last(), Some(&(of("e", 0), one)), "another domain has room of its own");
    }

    /// All the room was taken until the end of the process.
    #[test]
    fn series_that_are_dropped_leave_room() {
        let table = HitTable::new(NearLimit(0.8));
        let series = |key: &str, value: usize| Series::new("d", [level(key, &value.to_string())]);
        let (user, path) = (series("user", 0), series("path", 0));
        (0..600).for_each(|value| _ = table.of_request(series("user", value), Some(&user)));
        (0..600).for_each(|value| _ = table.of_request(series("path", value), Some(&path)));
        assert_eq!(table.counts().len(), HitTable::MAX_OF_REQUESTS + 1, "and the others");
        table.keep(&HashSet::from([&path]), &HashSet::from(["d".into()]));
        assert_eq!(table.counts().len(), 400 + 1);
        (0..600).for_each(|value| _ = table.of_request(series("path", value), Some(&path)));
        assert_eq!(table.counts().len(), 600 + 1);
        table.keep(&HashSet::new(), &HashSet::new());
        assert!(table.counts().is_empty());
    }
}
