//! What a step does to its counters, once their shards are locked.

use smallvec::SmallVec;

use super::{Locked, Place, State};
use crate::store::{Count, Counted, Refunded, StoreError};
use crate::{Charge, CountDenied, Counter, Quota, Timestamp};

/// A counter as a step finds it: rolled over to the window that holds now.
#[derive(Clone, Copy)]
struct Found {
    state: State,
    /// Whether the table has an entry for it, of whatever window.
    exists: bool,
}

/// One charge, weighed against its counter.
struct Weighed {
    found: Found,
    /// Units the whole step takes from the counter.
    cost: u64,
    fits: bool,
}

impl Locked<'_> {
    pub(super) fn charge(&mut self, charges: &[Charge<'_>]) -> Result<Counted, StoreError> {
        let mut weighed = self.weigh(charges);
        let admitted = weighed.iter().all(|weighed| weighed.fits);
        // Room is asked for every counter, and taken for those that are charged. Only an admission makes new
        // ones: a denial is counted where something is used already.
        let new = || new_counters(charges, &weighed);
        let charged = || new().filter(|weighed| weighed.cost > 0);
        if admitted && !(self.room.has(new().count()) && self.room.take(charged().count())) {
            return Err(StoreError::Full);
        }
        // Weighed together, charged together: one denial is counted for all charges on its counter.
        let is_charged = |charge: &Charge<'_>| {
            let counted_denial = |(other, weighed): (&Charge<'_>, &Weighed)| {
                other.counter() == charge.counter() && weighed.is_counted_denial(other)
            };
            admitted || charges.iter().zip(&weighed).any(counted_denial)
        };
        let is_charged: SmallVec<[bool; 2]> = charges.iter().map(is_charged).collect();
        for (index, (charge, weighed)) in charges.iter().zip(&mut weighed).enumerate() {
            if is_charged.get(index) == Some(&true) && weighed.cost > 0 {
                let used = add(weighed.found.state.used, weighed.cost);
                weighed.found.state.used = used;
                self.write(index, &charge.counter(), weighed.found.state);
            }
        }
        Ok(self.counted(weighed.iter().map(Weighed::count)))
    }

    pub(super) fn peek(&mut self, charges: &[Charge<'_>]) -> Result<Counted, StoreError> {
        let weighed = self.weigh(charges);
        let admitted = weighed.iter().all(|weighed| weighed.fits);
        if admitted && !self.room.has(new_counters(charges, &weighed).count()) {
            return Err(StoreError::Full);
        }
        Ok(self.counted(weighed.iter().map(Weighed::count)))
    }

    pub(super) fn record(&mut self, charge: &Charge<'_>) -> Result<Count, StoreError> {
        let found = self.find(0, &charge.counter());
        self.assign(&charge.counter(), found, add(found.state.used, charge.cost().into()))
    }

    pub(super) fn set(&mut self, counter: &Counter<'_>, used: u64) -> Result<Count, StoreError> {
        let found = self.find(0, counter);
        self.assign(counter, found, used.min(Quota::MAX_LIMIT))
    }

    pub(super) fn reset(&mut self, counter: &Counter<'_>) -> Result<Count, StoreError> {
        let removed = self.shard(0).is_some_and(|(hash, shard)| shard.remove(hash, counter));
        self.room.give_back(usize::from(removed));
        let found = self.find(0, counter);
        Ok(Count { used: 0, window: found.state.window, fits: true })
    }

    pub(super) fn refund(&mut self, charge: &Charge<'_>, start: Timestamp) -> Result<Refunded, StoreError> {
        let Found { state: State { used, window }, .. } = self.find(0, &charge.counter());
        if window.start() != start {
            return Ok(Refunded::Closed);
        }
        let given = charge.cost().min(u32::try_from(used).unwrap_or(u32::MAX));
        let used = used - u64::from(given);
        if given > 0 {
            self.write(0, &charge.counter(), State { used, window });
        }
        Ok(Refunded::Open { given, used })
    }

    /// Writes what is used, unless that is what a fresh counter would say.
    fn assign(&mut self, counter: &Counter<'_>, found: Found, used: u64) -> Result<Count, StoreError> {
        let State { used: before, window } = found.state;
        if used != before {
            if !self.room.take(usize::from(!found.exists)) {
                return Err(StoreError::Full);
            }
            self.write(0, counter, State { used, window });
        }
        Ok(Count { used, window, fits: true })
    }

    /// Finds every charge's counter and whether the step fits into it. Charges on one counter are weighed
    /// together.
    fn weigh(&mut self, charges: &[Charge<'_>]) -> SmallVec<[Weighed; 2]> {
        let weigh = |(index, charge): (usize, &Charge<'_>)| {
            let found = self.find(index, &charge.counter());
            let cost = charge.cost_in(charges);
            // Not saturated at the largest limit: a full counter of that limit has no room.
            let fits = found.state.used.saturating_add(cost.max(1)) <= charge.limit();
            Weighed { found, cost, fits }
        };
        charges.iter().enumerate().map(weigh).collect()
    }

    /// The counter as it stands now.
    fn find(&mut self, index: usize, counter: &Counter<'_>) -> Found {
        let now = self.now;
        let stored = self.shard(index).and_then(|(hash, shard)| shard.find(hash, counter));
        let open = || counter.quota().quota().window_at(counter.key(), now);
        let state = match stored {
            Some(state) if state.window.contains(now) => state,
            // The clock has stepped back before the counter's window. What was used stays used, and the key
            // waits no longer than the window that holds now: the counter is taken into it by the first step
            // that finds it, since left where it was it would deny in every window up to its own.
            Some(state) if now < state.window.start() => {
                let state = State { used: state.used, window: open() };
                self.write(index, counter, state);
                state
            }
            Some(_) | None => State { used: 0, window: open() },
        };
        Found { state, exists: stored.is_some() }
    }

    /// Writes a counter that exists or that room was taken for.
    fn write(&mut self, index: usize, counter: &Counter<'_>, state: State) {
        if let Some((hash, shard)) = self.shard(index) {
            shard.put(hash, counter, state);
        }
        self.room.note_end(state.window.end());
    }

    /// Sweeps the shards that have grown enough to make it worth it.
    pub(super) fn sweep_grown(&mut self) {
        for (_, shard) in self.shards.iter_mut().filter(|(_, shard)| shard.has_grown()) {
            self.room.give_back(shard.sweep(self.now).freed);
        }
    }

    fn shard(&mut self, index: usize) -> Option<(u64, &mut super::Shard)> {
        let Place { hash, shard } = *self.places.get(index)?;
        let (_, locked) = self.shards.iter_mut().find(|(index, _)| *index == shard)?;
        Some((hash, locked))
    }

    fn counted(&self, counts: impl IntoIterator<Item = Count>) -> Counted {
        Counted { now: self.now, resolution: self.resolution, counts: counts.into_iter().collect() }
    }
}

/// Those that have no entry yet, each counter once.
fn new_counters<'a>(charges: &'a [Charge<'_>], weighed: &'a [Weighed]) -> impl Iterator<Item = &'a Weighed> {
    weighed.iter().enumerate().filter_map(|(index, weighed)| {
        let counter = charges.get(index)?.counter();
        let first = !charges.iter().take(index).any(|earlier| earlier.counter() == counter);
        (first && !weighed.found.exists).then_some(weighed)
    })
}

impl Weighed {
    fn is_counted_denial(&self, charge: &Charge<'_>) -> bool {
        let counts_denied = charge.counter().quota().count_denied() == CountDenied::Yes;
        counts_denied && !self.fits && self.cost <= charge.limit()
    }

    fn count(&self) -> Count {
        Count { used: self.found.state.used, window: self.found.state.window, fits: self.fits }
    }
}

/// `used` saturates where limits end, so that it fits wherever a limit does.
fn add(used: u64, cost: u64) -> u64 {
    used.saturating_add(cost).min(Quota::MAX_LIMIT)
}
