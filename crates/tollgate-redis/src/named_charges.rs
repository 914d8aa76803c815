//! Charges on their way into the script and back: which counters they name, and what the answer means for each.

use std::time::Duration;

use smallvec::{SmallVec, smallvec};
use tollgate::{
    Charge, CountDenied, Counted, Counter, Mark, Quota, QuotaState, Reason, StoreError, Timestamp, Window,
    WindowLength,
};

use crate::denials::Id;
use crate::keys::{Names, Who};
use crate::script::{Found, Request, Shape, Step, Windows};

/// Charges with the counters they name.
#[derive(Debug, Clone)]
pub(crate) struct NamedCharges<'a> {
    charges: &'a [Charge<'a>],
    /// Every counter once.
    counters: SmallVec<[Named<'a>; 1]>,
    /// For each charge the index of its counter.
    indices: SmallVec<[usize; 4]>,
}

#[derive(Debug, Clone)]
struct Named<'a> {
    counter: Counter<'a>,
    who: Who,
    /// Its stand-in.
    id: Id,
    /// Units that all charges on the counter take together.
    units: u64,
}

/// What is asked of all counters that charges name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// To take the units, if all have room.
    Charge,
    /// To take the units, room or not.
    Record,
    /// To deny: nothing is taken, and denials are counted where they are. For what is denied elsewhere.
    Deny,
    /// To take nothing.
    Look,
    /// To give the units back, in the window that this marks.
    Refund(Mark),
    /// To say from now on that so much is used.
    Set(u64),
    /// To forget what is used.
    Reset,
}

impl<'a> NamedCharges<'a> {
    pub(crate) fn new(charges: &'a [Charge<'a>], names: &Names) -> Self {
        let mut counters = SmallVec::<[Named<'a>; 1]>::new();
        let mut indices = SmallVec::new();
        for charge in charges {
            let counter = charge.counter();
            let index = counters.iter().position(|known| known.counter == counter).unwrap_or_else(|| {
                // Many quotas of one request count the same identity, whose digest is the dearest part.
                let known = counters.iter().find(|known| known.counter.key() == counter.key());
                let who = known.map_or_else(|| names.who(counter.key()), |known| known.who.clone());
                let id = names.id(counter.quota(), &who);
                counters.push(Named { counter, who, id, units: 0 });
                counters.len() - 1
            });
            counters[index].units += u64::from(charge.cost());
            indices.push(index);
        }
        Self { charges, counters, indices }
    }

    /// Every counter's stand-in.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> {
        self.counters.iter().map(|named| named.id)
    }

    /// Whether a denial is final: what was denied is not charged anywhere, so it can be repeated unasked.
    pub(crate) fn denials_are_free(&self) -> bool {
        self.charges.iter().all(|charge| charge.counter().quota().count_denied() == CountDenied::No)
    }

    /// Whether some charge had no room, and its denial may be repeated.
    pub(crate) fn is_denied(&self, found: &[Found]) -> bool {
        let denied =
            |(charge, &index): (&Charge<'_>, &usize)| self.reason(charge, index, found[index].before);
        self.denials_are_free() && self.charges.iter().zip(&self.indices).filter_map(denied).next().is_some()
    }

    /// What the script is asked. `now` is the server's time, on which only calendar windows and those in keys depend.
    ///
    /// # Errors
    ///
    /// If a counter has no name, or two have the same one.
    pub(crate) fn request(&self, asked: Asked, names: &Names, now: Timestamp) -> Result<Request, StoreError> {
        let mut request = Request { shapes: SmallVec::new(), keys: SmallVec::new() };
        // Where the key says a window, it is the one that the refund names.
        let now = match asked {
            Asked::Refund(mark) if names.say_windows() => mark.time(),
            _ => now,
        };
        for (index, named) in self.counters.iter().enumerate() {
            let (key, windows) = names.of(&named.counter, &named.who, now)?;
            if request.keys.contains(&key) {
                return Err(StoreError::Uncountable(
                    "two quotas of a request have the same key: their layout of keys needs {policy} or {windows}",
                ));
            }
            request.keys.push(key);
            request.shapes.push(self.shape(index, asked, windows));
        }
        Ok(request)
    }

    /// For each counter the request that gives back what was charged at `now`, in the window it was charged in.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request): never of what was charged.
    pub(crate) fn refunds(
        &self,
        names: &Names,
        now: Timestamp,
        found: &[Found],
    ) -> Result<Vec<(Id, Request)>, StoreError> {
        let refund = |((id, (index, named)), window): ((Id, (usize, &Named<'_>)), Window)| {
            let asked = Asked::Refund(Mark::at(window.start()));
            let (key, windows) = names.of(&named.counter, &named.who, now)?;
            let shapes = smallvec![self.shape(index, asked, windows)];
            Ok((id, Request { shapes, keys: smallvec![key] }))
        };
        self.ids().zip(self.counters.iter().enumerate()).zip(self.windows(now, found)).map(refund).collect()
    }

    fn shape(&self, index: usize, asked: Asked, windows: Windows) -> Shape {
        let units = self.counters[index].units;
        let on_counter = || {
            self.charges.iter().zip(&self.indices).filter(|(_, at)| **at == index).map(|(charge, _)| charge)
        };
        let limit = || on_counter().map(Charge::limit).min().unwrap_or(0);
        let counted = || {
            let counts = |charge: &&Charge<'_>| {
                charge.counter().quota().count_denied() == CountDenied::Yes && charge.limit() >= units
            };
            on_counter().filter(counts).map(Charge::limit).min().unwrap_or(0)
        };
        let step = match asked {
            Asked::Charge => Step::Charge { units, limit: limit(), counted: counted() },
            Asked::Record => Step::Record { units },
            Asked::Deny => Step::Deny { units, counted: counted() },
            Asked::Look => Step::Look,
            Asked::Refund(mark) => Step::Refund { units, start: mark.time().as_unix_millis() },
            Asked::Set(used) => Step::Set { used: used.min(Quota::MAX_LIMIT) },
            Asked::Reset => Step::Reset,
        };
        Shape { step, windows }
    }

    /// Every counter's window.
    pub(crate) fn windows(&self, now: Timestamp, found: &[Found]) -> impl Iterator<Item = Window> {
        self.counters.iter().zip(found).map(move |(named, found)| found.window(&named.counter, now))
    }

    /// Where every charge's quota stands.
    pub(crate) fn counted(&self, now: Timestamp, found: &[Found]) -> Counted {
        self.states(
            |index| {
                let counter = &self.counters[index].counter;
                let Found { before, after, .. } = found[index];
                (before, after, found[index].window(counter, now))
            },
            now,
        )
    }

    /// As [`counted`](Self::counted), of what each counter is known to have used before and to use now.
    pub(crate) fn states(&self, known: impl Fn(usize) -> (u64, u64, Window), now: Timestamp) -> Counted {
        let known: SmallVec<[_; 1]> = (0..self.counters.len()).map(known).collect();
        // What others took meanwhile is not in it: both counts are of one step.
        let mut taken: SmallVec<[u64; 1]> =
            known.iter().map(|(before, after, _)| after.saturating_sub(*before)).collect();
        let state = |(charge, &index): (&Charge<'_>, &usize)| {
            let (before, after, window) = known[index];
            let reason = self.reason(charge, index, before);
            // A counter that saturates takes less than all charges together, and then the last ones go short.
            let units = units(charge, taken[index]);
            taken[index] -= u64::from(units);
            QuotaState::in_window(charge.counter().quota().quota(), after, window, now, reason)
                .with_units(units)
        };
        self.charges.iter().zip(&self.indices).map(state).collect()
    }

    /// Why the charge does not fit. A charge of nothing is answered as a charge of one would be.
    fn reason(&self, charge: &Charge<'_>, index: usize, before: u64) -> Option<Reason> {
        Reason::of(before, self.counters[index].units.max(1), charge.limit())
    }
}

/// What the charge took of a counter that took so many units: all, unless it saturated.
pub(crate) fn units(charge: &Charge<'_>, taken: u64) -> u32 {
    u32::try_from(taken).map_or(charge.cost(), |taken| taken.min(charge.cost()))
}

impl Found {
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
