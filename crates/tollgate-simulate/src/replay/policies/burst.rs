//! How many requests of one client were admitted in any interval as long as a window.

use std::collections::VecDeque;
use std::time::Duration;

use tollgate::Timestamp;

use crate::replay::clients::packed::PackedNumber;
use crate::replay::clients::per_client::PerClient;

/// Most admissions that are remembered, of all quotas together: 128 MiB.
pub(crate) const MOST: usize = 8 << 20;

/// The greatest number of units admitted for one client in an interval as long as a window, wherever it begins.
///
/// Fixed windows admit up to twice their limit around a boundary. This is what traffic really got. Each request may
/// have a limit of its own, so intervals compare by their share of it.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    /// Admissions of the last window's length, the oldest first.
    recent: VecDeque<(Timestamp, u32, u32)>,
    /// Units among them, by client: fewer than twice the greatest limit.
    of_clients: PerClient<PackedNumber<6>>,
    /// The units of the fullest interval, and the limit then.
    most: (u64, u64),
    is_lost: bool,
}

impl Burst {
    /// Notes an admission under this limit. Times never go back.
    pub(crate) fn admitted(&mut self, now: Timestamp, client: u32, units: u32, limit: u64, window: Duration) {
        if self.is_lost {
            return;
        }
        while let Some(&(time, client, units)) = self.recent.front() {
            if now.since(time) < window {
                break;
            }
            self.recent.pop_front();
            self.add(client, |tally| tally.saturating_sub(u64::from(units)));
        }
        self.recent.push_back((now, client, units));
        let tally = self.add(client, |tally| tally.saturating_add(u64::from(units)));
        let product = |units: u64, limit: u64| u128::from(units) * u128::from(limit);
        let (most, its_limit) = self.most;
        if its_limit == 0 || product(tally, its_limit) > product(most, limit) {
            self.most = (tally, limit);
        }
    }

    /// How many admissions are remembered.
    pub(crate) fn len(&self) -> usize {
        self.recent.len()
    }

    /// Gives up: there is no memory for more admissions.
    pub(crate) fn give_up(&mut self) {
        *self = Self { is_lost: true, ..Self::default() };
    }

    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Keeps the clients that had these numbers.
    pub(crate) fn keep(&mut self, kept: &[u32]) {
        self.of_clients.keep(kept);
        self.recent = std::mem::take(&mut self.recent)
            .into_iter()
            .filter_map(|(time, client, units)| {
                let number = kept.binary_search(&client).ok()?;
                Some((time, u32::try_from(number).ok()?, units))
            })
            .collect();
    }

    /// Prefetches the memory of a client.
    pub(crate) fn prefetch(&self, client: u32) {
        self.of_clients.prefetch(client);
    }

    /// Prefetches the memory of the clients whose admissions are the oldest.
    pub(crate) fn prefetch_oldest(&self, count: usize) {
        self.recent.iter().take(count).for_each(|(_, client, _)| self.prefetch(*client));
    }

    /// The most units as a share of the limit, 0 if none was admitted; `None` if there were more admissions in a
    /// window's length than are remembered.
    pub(crate) fn most(&self) -> Option<f64> {
        let (units, limit) = self.most;
        (!self.is_lost).then_some(units as f64 / limit.max(1) as f64)
    }

    fn add(&mut self, client: u32, change: impl Fn(u64) -> u64) -> u64 {
        let Some(tally) = self.of_clients.of(client) else { return 0 };
        *tally = PackedNumber::of(change(tally.get()));
        tally.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of all intervals of this length, the fullest one; found by trying each admission as its begin.
    #[test]
    fn is_that_of_the_fullest_interval() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let window = random.u64(1..40);
            let mut time = 0;
            let admissions: Vec<(i64, u32, u32)> = std::iter::repeat_with(|| {
                time += random.i64(0..9);
                (time, random.u32(0..4), random.u32(1..4))
            })
            .take(60)
            .collect();
            let mut burst = Burst::default();
            for (time, client, units) in &admissions {
                let now = Timestamp::from_unix_millis(*time);
                burst.admitted(now, *client, *units, 10, Duration::from_millis(window));
            }
            let within = |begin: i64, client: u32| {
                let end = begin + i64::try_from(window).unwrap();
                let units = admissions
                    .iter()
                    .filter(|(time, other, _)| *other == client && (begin..end).contains(time));
                units.map(|(.., units)| u64::from(*units)).sum::<u64>()
            };
            let fullest = admissions.iter().map(|(time, client, _)| within(*time, *client)).max();
            assert_eq!(burst.most(), fullest.map(|units| units as f64 / 10.0));
        }
    }
}
