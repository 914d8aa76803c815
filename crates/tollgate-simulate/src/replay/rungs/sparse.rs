//! Requests of keys that make few: they fit under every rung together, so nothing else is counted of them.

use std::time::Duration;

use tollgate::{Anchor, Quota, Timestamp, WindowLength};

/// The most requests that are kept of a key: with its digest, they take little more than a cache line.
const MOST: usize = 7;

/// The bits of a request's units; the others have its time.
const UNITS: u32 = 16;

/// What makes requests few, for the rungs of one quota.
#[derive(Debug, Clone, Copy)]
pub(super) struct SparseTerms {
    /// The fewest units that a rung admits at once. No kind counts more units than were charged, so as many always fit.
    capacity: u64,
    /// How long a request may count under any rung.
    counts_for: Duration,
}

/// The last requests of one key, all admitted under every rung.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SparseRequests {
    packed: [u64; MOST],
    len: u8,
}

impl SparseTerms {
    /// Returns the terms for a quota under these rungs. `None` if earlier requests decide where a window begins, or if a
    /// rung admits nothing.
    pub(super) fn of(quotas: &[Quota]) -> Option<Self> {
        let each = quotas.iter().map(|quota| Some((quota.capacity(), counts_for(quota)?)));
        let each: Vec<(u64, Duration)> = each.collect::<Option<_>>()?;
        let capacity = each.iter().map(|(capacity, _)| *capacity).min().filter(|capacity| *capacity > 0)?;
        let counts_for = each.iter().map(|(_, counts_for)| *counts_for).max()?;
        Some(Self { capacity, counts_for })
    }
}

/// How long a charge may count, as long as no more than the capacity was charged in all.
fn counts_for(quota: &Quota) -> Option<Duration> {
    let (WindowLength::Fixed(length), Anchor::Epoch) = (quota.window(), quota.anchor()) else { return None };
    Some(match (quota.bucket(), quota.log_step()) {
        (Some(_), _) if quota.limit() == 0 => return None,
        (Some(bucket), _) => Duration::from_millis((bucket.burst() * bucket.unit()).div_ceil(bucket.parts())),
        (_, Some(step)) => length + step,
        _ => length * 2,
    })
}

impl SparseRequests {
    /// Forgets the requests that count under no rung any more. Returns whether so many units fit under every rung.
    pub(super) fn have_room(&mut self, units: u64, now: Timestamp, terms: SparseTerms) -> bool {
        let counts = |(at, _): &(Timestamp, u64)| now.since(*at) < terms.counts_for;
        let left = self.iter().take_while(|request| !counts(request)).count();
        if left > 0 {
            self.packed.copy_within(left.., 0);
            self.len -= left as u8;
        }
        let used: u64 = self.iter().map(|(_, units)| units).sum();
        used + units <= terms.capacity
    }

    /// Adds a request. Returns whether there was a place for it.
    pub(super) fn add(&mut self, units: u64, now: Timestamp) -> bool {
        let millis = u64::try_from(now.as_unix_millis()).ok().filter(|millis| millis >> (64 - UNITS) == 0);
        let packed = millis.filter(|_| units >> UNITS == 0).map(|millis| millis << UNITS | units);
        let place = self.packed.get_mut(usize::from(self.len));
        let Some((place, packed)) = place.zip(packed) else { return false };
        *place = packed;
        self.len += 1;
        true
    }

    /// Returns the times and the units, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Timestamp, u64)> {
        let requests = self.packed.iter().take(usize::from(self.len));
        requests.map(|packed| {
            let millis = (packed >> UNITS).cast_signed();
            (Timestamp::from_unix_millis(millis), packed & ((1 << UNITS) - 1))
        })
    }

    /// Returns whether nothing counts any more.
    pub(super) fn are_over(&self, now: Timestamp, terms: SparseTerms) -> bool {
        self.iter().all(|(at, _)| now.since(at) >= terms.counts_for)
    }
}
