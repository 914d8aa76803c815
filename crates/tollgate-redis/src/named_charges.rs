//! Questions to the script: the counters of charges, and the meaning of the answer for each charge.

use std::time::Duration;

use smallvec::{SmallVec, smallvec};
use tollgate::{
    Charge, CountDenied, Counter, Mark, Quota, QuotaState, QuotaStates, Reason, StoreError, Timestamp,
    Window, WindowLength,
};

use crate::denials::Id;
use crate::names::{CounterIdentity, CounterNames};
use crate::script::{ChargedDenials, CountChange, CounterStep, KeyText, Request, Room, Shape, WindowSpec};

/// Charges with the counters they name.
#[derive(Debug, Clone)]
pub(crate) struct NamedCharges<'a> {
    charges: &'a [Charge<'a>],
    /// Every counter once.
    counters: SmallVec<[ChargedCounter<'a>; 1]>,
    /// For each charge the index of its counter.
    indices: SmallVec<[usize; 4]>,
    /// Whether several counters may have one key.
    may_share_keys: bool,
}

#[derive(Debug, Clone)]
struct ChargedCounter<'a> {
    counter: Counter<'a>,
    who: CounterIdentity,
    /// Its stand-in.
    id: Id,
    /// The total units of all charges on the counter.
    units: u64,
}

/// For each counter the index of its key in a request.
pub(crate) type KeyIndices = SmallVec<[usize; 4]>;

/// The operation on all counters that charges name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CounterOperation {
    /// Charges the units, if all counters have room.
    Charge,
    /// The same, for counters that are remembered to have none.
    Renewal,
    /// Charges the units, whether or not there is room.
    Record,
    /// Charges nothing, but counts denials where they count. For requests that are denied elsewhere.
    Deny,
    /// Charges nothing.
    Look,
    /// Gives the units back, in the marked window.
    Refund(Mark),
    /// Sets the usage.
    Set(u64),
    /// Resets the usage.
    Reset,
}

impl<'a> NamedCharges<'a> {
    pub(crate) fn new(charges: &'a [Charge<'a>], names: &CounterNames) -> Self {
        let mut counters = SmallVec::<[ChargedCounter<'a>; 1]>::new();
        let mut indices = SmallVec::new();
        for charge in charges {
            let counter = charge.counter();
            let index = counters.iter().position(|known| known.counter == counter).unwrap_or_else(|| {
                // Many quotas of a request have the same identity, whose digest is the most expensive part.
                let known = counters.iter().find(|known| known.counter.key() == counter.key());
                let who =
                    known.map_or_else(|| names.counter_identity(counter.key()), |known| known.who.clone());
                let id = names.id(counter.quota(), &who);
                counters.push(ChargedCounter { counter, who, id, units: 0 });
                counters.len() - 1
            });
            counters[index].units += u64::from(charge.cost());
            indices.push(index);
        }
        Self { charges, counters, indices, may_share_keys: names.may_be_shared() }
    }

    /// Returns every counter's stand-in.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> {
        self.counters.iter().map(|named| named.id)
    }

    /// Returns whether a denial may be repeated without asking: nothing is charged for it.
    pub(crate) fn denials_are_free(&self) -> bool {
        let is_free = |(charge, &index): (&Charge<'_>, &usize)| match charge.counter().quota().count_denied()
        {
            CountDenied::No => true,
            CountDenied::Yes => false,
            // All units on its key are charged with it.
            CountDenied::Overdraft if self.may_share_keys => {
                self.counters.iter().all(|named| named.units == 0)
            }
            CountDenied::Overdraft => self.counters[index].units == 0,
        };
        self.charges.iter().zip(&self.indices).all(is_free)
    }

    /// Returns for each counter, all of which were charged at `now`, whether a denial charges it as an overdraft.
    /// Counters with one key are one in the server, so an overdraft among them is enough.
    ///
    /// # Errors
    ///
    /// As [`refunds`](Self::refunds).
    pub(crate) fn overdrafts(
        &self,
        names: &CounterNames,
        now: Timestamp,
        found: &[CountChange],
    ) -> Result<SmallVec<[bool; 4]>, StoreError> {
        let keys = self.charged_keys(names, now, found).map(|key| key.map(|(key, _)| key));
        let keys: SmallVec<[KeyText; 4]> = keys.collect::<Result<_, _>>()?;
        let is_overdraft = |key: &KeyText| {
            let mut on_key =
                self.charges.iter().zip(&self.indices).filter(|(_, index)| keys[**index] == *key);
            on_key.any(|(charge, _)| charge.counter().quota().count_denied() == CountDenied::Overdraft)
        };
        Ok(keys.iter().map(is_overdraft).collect())
    }

    /// Returns whether some charge had no room, so that its denial may be repeated.
    pub(crate) fn is_denied(&self, found: &[CountChange]) -> bool {
        let denied = |(charge, &index): (&Charge<'_>, &usize)| self.reason(charge, index, &found[index]);
        self.denials_are_free() && self.charges.iter().zip(&self.indices).filter_map(denied).next().is_some()
    }

    /// Returns the request to the script, and the index of each counter's key in it. Only calendar windows, and windows
    /// in keys, depend on `now`, the server's time, so only they ask for it.
    ///
    /// # Errors
    ///
    /// If a counter has no name.
    pub(crate) fn request(
        &self,
        asked: CounterOperation,
        names: &CounterNames,
        now: impl Fn() -> Timestamp,
    ) -> Result<(Request, KeyIndices), StoreError> {
        let mut request = Request { shapes: SmallVec::new(), keys: SmallVec::new() };
        let mut indices = KeyIndices::new();
        let now = || match asked {
            CounterOperation::Refund(mark) => names.time_of_refund(mark).unwrap_or_else(&now),
            _ => now(),
        };
        for (index, named) in self.counters.iter().enumerate() {
            let (key, windows) = names.of(&named.counter, &named.who, now)?;
            // Counters with one key are one in the server.
            if let Some(known) = request.keys.iter().position(|known| *known == key) {
                request.shapes[known] = request.shapes[known].with(self.shape(index, asked, windows));
                indices.push(known);
                continue;
            }
            indices.push(request.keys.len());
            request.keys.push(key);
            request.shapes.push(self.shape(index, asked, windows));
        }
        Ok((request, indices))
    }

    /// Returns what was found for each counter. Counters with one key are charged together, so to each of them it is as
    /// if the others had been charged before.
    pub(crate) fn found(
        &self,
        keys: SmallVec<[CountChange; 1]>,
        indices: &KeyIndices,
    ) -> SmallVec<[CountChange; 1]> {
        if keys.len() == self.counters.len() {
            return keys;
        }
        let units_of = |key: usize| -> u64 {
            let on_key = self.counters.iter().zip(indices).filter(|(_, at)| **at == key);
            on_key.map(|(named, _)| named.units).sum()
        };
        let found = |(named, &key): (&ChargedCounter<'_>, &usize)| {
            let found = keys.get(key)?;
            let others = units_of(key) - named.units;
            Some(CountChange { before: found.before + others, others, ..*found })
        };
        self.counters.iter().zip(indices).filter_map(found).collect()
    }

    /// Returns, for each counter, the request that gives back the units charged at `now`, in the window that was
    /// charged.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request): never of what was charged.
    pub(crate) fn refunds(
        &self,
        names: &CounterNames,
        now: Timestamp,
        found: &[CountChange],
    ) -> Result<Vec<(Id, Request)>, StoreError> {
        let refund = |(((id, index), window), key): (((Id, usize), Window), Result<_, StoreError>)| {
            let asked = CounterOperation::Refund(Mark::at(window.start()));
            let (key, windows) = key?;
            let shapes = smallvec![self.shape(index, asked, windows)];
            Ok((id, Request { shapes, keys: smallvec![key] }))
        };
        let counters = self.ids().zip(0..).zip(self.windows(now, found));
        counters.zip(self.charged_keys(names, now, found)).map(refund).collect()
    }

    /// Returns every counter's key, by the window that was charged: `now` may lie before it.
    fn charged_keys(
        &self,
        names: &CounterNames,
        now: Timestamp,
        found: &[CountChange],
    ) -> impl Iterator<Item = Result<(KeyText, WindowSpec), StoreError>> {
        let charged = self.counters.iter().zip(self.windows(now, found));
        charged.map(|(named, window)| names.of(&named.counter, &named.who, || window.start()))
    }

    fn shape(&self, index: usize, asked: CounterOperation, windows: WindowSpec) -> Shape {
        let units = self.counters[index].units;
        let on_counter = || {
            self.charges.iter().zip(&self.indices).filter(|(_, at)| **at == index).map(|(charge, _)| charge)
        };
        let denials = || ChargedDenials::of(on_counter(), units);
        let step = match asked {
            CounterOperation::Charge | CounterOperation::Renewal => {
                let is_renewal = asked == CounterOperation::Renewal;
                CounterStep::Charge { units, room: Room::of(on_counter()), denials: denials(), is_renewal }
            }
            CounterOperation::Record => CounterStep::Record { units },
            CounterOperation::Deny => CounterStep::Deny { units, denials: denials() },
            CounterOperation::Look => CounterStep::Look,
            CounterOperation::Refund(mark) => {
                CounterStep::Refund { units, start: mark.time().as_unix_millis() }
            }
            CounterOperation::Set(used) => CounterStep::Set { used: used.min(Quota::MAX_LIMIT) },
            CounterOperation::Reset => CounterStep::Reset,
        };
        Shape { step, windows }
    }

    /// Every counter's window.
    pub(crate) fn windows(&self, now: Timestamp, found: &[CountChange]) -> impl Iterator<Item = Window> {
        self.counters.iter().zip(found).map(move |(named, found)| found.window(&named.counter, now))
    }

    /// Returns the states of all charges' quotas.
    pub(crate) fn counted(&self, now: Timestamp, found: &[CountChange]) -> QuotaStates {
        self.states(|index| (found[index], found[index].window(&self.counters[index].counter, now)), now)
    }

    /// As [`counted`](Self::counted), but all units except those of [overdrafts](Self::overdrafts) were given back.
    ///
    /// # Errors
    ///
    /// As [`refunds`](Self::refunds).
    pub(crate) fn given_back(
        &self,
        names: &CounterNames,
        now: Timestamp,
        found: &[CountChange],
    ) -> Result<QuotaStates, StoreError> {
        let (counted, overdrafts) = (self.counted(now, found), self.overdrafts(names, now, found)?);
        let each = counted.iter().zip(&self.indices);
        Ok(each.map(|(state, &index)| if overdrafts[index] { *state } else { state.with_units(0) }).collect())
    }

    /// Returns the states of all charges' quotas, as if nothing were used.
    pub(crate) fn unused(&self, now: Timestamp) -> QuotaStates {
        let found = CountChange { before: 0, after: 0, others: 0, end: None };
        self.states(|index| (found, found.window(&self.counters[index].counter, now)), now)
    }

    /// As [`counted`](Self::counted), from the known counts and windows.
    pub(crate) fn states(
        &self,
        known: impl Fn(usize) -> (CountChange, Window),
        now: Timestamp,
    ) -> QuotaStates {
        let known: SmallVec<[_; 1]> = (0..self.counters.len()).map(known).collect();
        // Both counts are from one step, so charges of others are not included.
        let mut taken: SmallVec<[u64; 1]> =
            known.iter().map(|(found, _)| found.after.saturating_sub(found.before)).collect();
        let state = |(charge, &index): (&Charge<'_>, &usize)| {
            let (found, window) = &known[index];
            let reason = self.reason(charge, index, found);
            // A counter that saturates takes less than all charges together, and then the last ones go short.
            let units = units(charge, taken[index]);
            taken[index] -= u64::from(units);
            QuotaState::in_window(charge.counter().quota().quota(), found.after, *window, now, reason)
                .with_units(units)
        };
        self.charges.iter().zip(&self.indices).map(state).collect()
    }

    /// Why the charge does not fit.
    fn reason(&self, charge: &Charge<'_>, index: usize, found: &CountChange) -> Option<Reason> {
        let used = match charge.counter().quota().count_denied() {
            // An overdraft is compared with what was used before the step, without the units of other counters on its
            // key.
            CountDenied::Overdraft => found.before - found.others,
            CountDenied::No | CountDenied::Yes => found.before,
        };
        Reason::of(used, charge.units_needed(self.counters[index].units), charge.limit())
    }
}

/// Returns the charge's share of the units that a counter was charged: all, unless it saturated.
pub(crate) fn units(charge: &Charge<'_>, taken: u64) -> u32 {
    u32::try_from(taken).map_or(charge.cost(), |taken| taken.min(charge.cost()))
}

impl CountChange {
    /// The window that was counted.
    pub(crate) fn window(&self, counter: &Counter<'_>, now: Timestamp) -> Window {
        let quota = counter.quota().quota();
        match (self.end, quota.window()) {
            (Some(end), WindowLength::Fixed(length)) => Window::new(end - length, end),
            (Some(end), _) => quota.window_at(counter.key(), end - Duration::from_millis(1)),
            (None, _) => quota.window_at(counter.key(), now),
        }
    }
}
