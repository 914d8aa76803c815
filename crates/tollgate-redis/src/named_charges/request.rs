//! What the script is asked: a key and an operation for each counter.

use smallvec::{SmallVec, smallvec};
use tollgate::kind::Standing;
use tollgate::{Charge, CountDenied, Quota, StoreError, Timestamp};

use super::{ChargedCounter, CounterOperation, NamedCharges};
use crate::denials::Id;
use crate::names::CounterNames;
use crate::script::{ChargedDenials, CountChange, CounterStep, KeyText, Request, Room, Shape, WindowSpec};

/// For each counter the index of its key in a request.
pub(crate) type KeyIndices = SmallVec<[usize; 4]>;

impl NamedCharges<'_> {
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
        let before = match asked {
            CounterOperation::ChargeBefore(end) | CounterOperation::DenyBefore(end) => Some(end),
            _ => None,
        };
        let mut request = Request { before, ..Request::default() };
        let mut indices = KeyIndices::new();
        let now = || match asked {
            CounterOperation::Refund(mark) => names.time_of_refund(mark).unwrap_or_else(&now),
            _ => now(),
        };
        for (index, named) in self.counters.iter().enumerate() {
            let (key, windows) = names.of(&named.counter, &named.identity, now)?;
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
            Some(CountChange { before: found.before + others, others, ..found.clone() })
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
        let refund = |(((id, index), charged), key): (((Id, usize), Standing), Result<_, StoreError>)| {
            let asked = CounterOperation::Refund(charged.mark());
            let (key, windows) = key?;
            let shapes = smallvec![self.shape(index, asked, windows)];
            Ok((id, Request { shapes, keys: smallvec![key], ..Request::default() }))
        };
        let counters = self.ids().zip(0..).zip(self.standings(now, found));
        counters.zip(self.charged_keys(names, now, found)).map(refund).collect()
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

    /// Returns every counter's key, by the window that was charged: `now` may lie before it.
    fn charged_keys(
        &self,
        names: &CounterNames,
        now: Timestamp,
        found: &[CountChange],
    ) -> impl Iterator<Item = Result<(KeyText, WindowSpec), StoreError>> {
        let charged = self.counters.iter().zip(self.standings(now, found));
        charged.map(|(named, charged)| names.of(&named.counter, &named.identity, || charged.mark().time()))
    }

    fn shape(&self, index: usize, asked: CounterOperation, windows: WindowSpec) -> Shape {
        let units = self.counters[index].units;
        let on_counter = || {
            self.charges.iter().zip(&self.indices).filter(|(_, at)| **at == index).map(|(charge, _)| charge)
        };
        let denials = || ChargedDenials::of(on_counter(), units);
        let step = match asked {
            CounterOperation::Charge | CounterOperation::ChargeBefore(_) | CounterOperation::Renewal => {
                let is_renewal = asked == CounterOperation::Renewal;
                CounterStep::Charge { units, room: Room::of(on_counter()), denials: denials(), is_renewal }
            }
            CounterOperation::Record => CounterStep::Record { units },
            CounterOperation::Deny | CounterOperation::DenyBefore(_) => {
                CounterStep::Deny { units, denials: denials() }
            }
            CounterOperation::Block if index == 0 => {
                let limit = on_counter().map(Charge::limit).min().unwrap_or_default();
                CounterStep::Block { units, limit }
            }
            CounterOperation::Block => CounterStep::Block { units: 0, limit: 0 },
            CounterOperation::Look => CounterStep::Look,
            CounterOperation::Refund(mark) => {
                CounterStep::Refund { units, start: mark.time().as_unix_millis() }
            }
            CounterOperation::Set(used) => {
                // A bucket holds up to twice its burst.
                let most = match windows {
                    WindowSpec::Burst { .. } => 2 * Quota::MAX_LIMIT,
                    _ => Quota::MAX_LIMIT,
                };
                CounterStep::Set { used: used.min(most) }
            }
            CounterOperation::Reset => CounterStep::Reset,
        };
        Shape { step, windows }
    }
}
