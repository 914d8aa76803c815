//! The frequency of each value.

use std::collections::BTreeMap;

/// Values below this one have a place in a list. Most windows of most clients hold a few requests.
const LISTED: usize = 1024;

/// The frequency of each value, exactly.
///
/// Its size does not grow with the number of entries: values that add up to a sum of S have at most √(2 S) different
/// ones, so a hundred million requests fill at most 14,143 places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    listed: Vec<u64>,
    others: BTreeMap<u64, u64>,
}

impl Histogram {
    /// Adds one entry.
    pub fn add(&mut self, value: u64) {
        self.add_times(value, 1);
    }

    /// Adds this many entries of one value.
    pub fn add_times(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        match usize::try_from(value) {
            Ok(place) if place < LISTED => {
                if place >= self.listed.len() {
                    self.listed.resize(place + 1, 0);
                }
                if let Some(listed) = self.listed.get_mut(place) {
                    *listed = listed.saturating_add(times);
                }
            }
            _ => {
                let other = self.others.entry(value).or_default();
                *other = other.saturating_add(times);
            }
        }
    }

    /// Adds all entries of another one.
    pub fn merge(&mut self, other: &Self) {
        other.iter().for_each(|(value, times)| self.add_times(value, times));
    }

    /// Returns each value that occurred, in ascending order, with how often it did.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let listed = (0..).zip(&self.listed).map(|(value, times)| (value, *times));
        // Without a known length, `zip` cannot be read from its end.
        let listed: Vec<(u64, u64)> = listed.filter(|(_, times)| *times > 0).collect();
        listed.into_iter().chain(self.others.iter().map(|(value, times)| (*value, *times)))
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.iter().map(|(_, times)| times).sum()
    }

    /// Returns the greatest value, if there is any.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        self.iter().next_back().map(|(value, _)| value)
    }

    /// Returns the smallest value that at least this share of the entries does not exceed; `None` without entries.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let rank = (share.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        self.of_rank(rank)
    }

    /// Returns the entry of this rank in ascending order, counted from 1.
    #[must_use]
    pub fn of_rank(&self, rank: u64) -> Option<u64> {
        let mut seen = 0_u64;
        self.iter().find_map(|(value, times)| {
            seen += times;
            (seen >= rank && rank > 0).then_some(value)
        })
    }

    /// Returns how many entries are above this value.
    #[must_use]
    pub fn above(&self, value: u64) -> u64 {
        self.iter().filter(|(other, _)| *other > value).map(|(_, times)| times).sum()
    }

    /// Returns the total by which the entries exceed this value.
    ///
    /// Of windows and the requests in each, it is how many requests a limit of this value denies.
    #[must_use]
    pub fn excess(&self, value: u64) -> u64 {
        self.iter().map(|(other, times)| other.saturating_sub(value).saturating_mul(times)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_quantiles_are_those_of_the_sorted_entries() {
        let mut entries: Vec<u64> = (0..500).map(|number| number * number * 7 % 3_001).collect();
        let mut histogram = Histogram::default();
        entries.iter().for_each(|entry| histogram.add(*entry));
        entries.sort_unstable();
        for (rank, entry) in (1..).zip(&entries) {
            assert_eq!(histogram.of_rank(rank), Some(*entry), "rank {rank}");
        }
        assert_eq!((histogram.of_rank(0), histogram.of_rank(501)), (None, None));
        assert_eq!(histogram.quantile(0.5), entries.get(249).copied());
        assert_eq!(histogram.quantile(1.0), histogram.max());
        for value in [0, 5, 1_023, 1_024, 2_999, 4_000] {
            let above = entries.iter().filter(|entry| **entry > value).count() as u64;
            let excess: u64 = entries.iter().map(|entry| entry.saturating_sub(value)).sum();
            assert_eq!((histogram.above(value), histogram.excess(value)), (above, excess), "{value}");
        }
    }
}
